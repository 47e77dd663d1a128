package history

import (
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

const ms = time.Millisecond

// base is one event for one endpoint, delivered at the first attempt, and a later one of the same
// key.
func base() History {
	return History{
		Endpoints: []Endpoint{{ID: "ep", MaxAttempts: 3, Timeout: time.Second, Permanent: []int{400}}},
		Publishes: []Publish{
			{ID: "a", Key: "k", Invoke: 0, Return: 10 * ms, Endpoints: []string{"ep"}},
			{ID: "b", Key: "k", Invoke: 20 * ms, Return: 30 * ms, Endpoints: []string{"ep"}},
		},
		Receipts: []Receipt{
			{Event: "a", Endpoint: "ep", Delivery: "da", Position: 1, Start: 100 * ms, End: 110 * ms, Status: 200, Attempt: 1},
			{Event: "b", Endpoint: "ep", Delivery: "db", Position: 2, Start: 200 * ms, End: 210 * ms, Status: 200, Attempt: 1},
		},
		Finals: []Final{
			{Delivery: "da", Event: "a", Endpoint: "ep", Position: 1, Status: grapnel.Delivered, Attempts: 1},
			{Delivery: "db", Event: "b", Endpoint: "ep", Position: 2, Status: grapnel.Delivered, Attempts: 1},
		},
		Limits: Limits{Commit: 10 * ms, Transit: 5 * ms},
	}
}

// again adds one more receipt of the first event before the second starts.
func again(h *History, at time.Duration) {
	r := h.Receipts[0]
	r.Start, r.End = at, at+10*ms
	h.Receipts = append(h.Receipts, r)
}

func TestRules(t *testing.T) {
	tests := []struct {
		name   string
		change func(h *History)
		want   []Rule // sorted by name
	}{
		{"nothing happened", func(h *History) { *h = History{} }, nil},
		{"a clean history", func(*History) {}, nil},

		{"a repetition", func(h *History) { again(h, 130*ms) }, []Rule{Conserve, Dup}},
		{"a repetition after a crash just before the commit", func(h *History) {
			again(h, 130*ms)
			h.Faults = []Fault{{Kind: Crash, Start: 118 * ms, End: 125 * ms}}
		}, nil},
		{"a repetition after a crash that came too late", func(h *History) {
			again(h, 150*ms)
			h.Faults = []Fault{{Kind: Crash, Start: 121 * ms, End: 125 * ms}}
		}, []Rule{Conserve, Dup}},
		{"two repetitions after one crash", func(h *History) {
			again(h, 130*ms)
			again(h, 150*ms)
			h.Faults = []Fault{{Kind: Crash, Start: 118 * ms, End: 145 * ms}}
		}, []Rule{Conserve, Dup}},
		{"two repetitions after two crashes", func(h *History) {
			again(h, 130*ms)
			again(h, 160*ms)
			h.Faults = []Fault{{Kind: Crash, Start: 145 * ms, End: 155 * ms}, {Kind: Crash, Start: 118 * ms, End: 125 * ms}}
		}, nil},
		{"a crash of another node explains nothing", func(h *History) {
			again(h, 130*ms)
			h.Receipts[0].Node = "n1"
			h.Faults = []Fault{{Kind: Crash, Node: "n2", Start: 118 * ms, End: 125 * ms}}
		}, []Rule{Conserve, Dup}},
		{"a clean stop explains nothing", func(h *History) {
			again(h, 130*ms)
			h.Faults = []Fault{{Kind: CleanStop, Start: 118 * ms, End: 125 * ms}}
		}, []Rule{Conserve, Dup}},
		{"a lost answer is tried again", func(h *History) {
			h.Receipts[0].AnswerLost = true
			h.Finals[0].Attempts = 2
			again(h, 130*ms)
		}, nil},
		{"an answer after the timeout is tried again", func(h *History) {
			h.Endpoints[0].Timeout = 15 * ms
			h.Finals[0].Attempts = 2
			again(h, 130*ms)
		}, nil},
		{"delivered, but the answer was lost", func(h *History) { h.Receipts[0].AnswerLost = true }, nil},

		{"the second starts while the first is in flight", func(h *History) { h.Receipts[1].Start = 105 * ms }, []Rule{FIFO, Overlap}},
		{"the same without a key", func(h *History) {
			h.Publishes[0].Key, h.Publishes[1].Key = "", ""
			h.Receipts[0].Position, h.Receipts[1].Position = 0, 0
			h.Finals[0].Position, h.Finals[1].Position = 0, 0
			h.Receipts[1].Start = 105 * ms
		}, nil},
		{"the same at an endpoint without order", func(h *History) {
			h.Endpoints[0].Unordered = true
			h.Receipts[1].Start = 105 * ms
		}, nil},
		{"out of order, and no positions to tell", func(h *History) {
			h.Receipts[0].Position, h.Receipts[1].Position = 0, 0
			h.Finals[0].Position, h.Finals[1].Position = 0, 0
			h.Receipts[0].Start, h.Receipts[0].End = 300*ms, 310*ms
		}, []Rule{FIFO, Regress}},
		{"concurrent publishes come out in any order", func(h *History) {
			h.Publishes[1].Invoke = 5 * ms
			h.Receipts[0].Position, h.Receipts[1].Position = 2, 1
			h.Finals[0].Position, h.Finals[1].Position = 2, 1
			h.Receipts[0].Start, h.Receipts[0].End = 300*ms, 310*ms
		}, nil},
		{"concurrent publishes out of their positions", func(h *History) {
			h.Publishes[1].Invoke = 5 * ms
			h.Receipts[0].Start, h.Receipts[0].End = 300*ms, 310*ms
		}, []Rule{FIFO, Regress}},
		{"an unknown publish comes before nothing", func(h *History) {
			h.Publishes[0].Result = Unknown
			h.Receipts[0].Position, h.Receipts[1].Position = 2, 1
			h.Finals[0].Position, h.Finals[1].Position = 2, 1
			h.Receipts[0].Start, h.Receipts[0].End = 300*ms, 310*ms
		}, nil},
		{"the second went out while the first waits for ever", func(h *History) {
			h.Receipts = h.Receipts[1:]
			h.Finals[0].Status, h.Finals[0].Attempts = grapnel.Pending, 0
		}, []Rule{FIFO, Stuck}},
		{"one position for two", func(h *History) { h.Receipts[1].Position, h.Finals[1].Position = 1, 1 }, []Rule{Conserve}},
		{"a position is missing", func(h *History) { h.Receipts[1].Position, h.Finals[1].Position = 3, 3 }, []Rule{Conserve}},
		{"a position is missing before a purge", func(h *History) {
			h.Receipts[1].Position, h.Finals[1].Position, h.Finals[1].Purged = 3, 3, true
		}, []Rule{Conserve}},
		{"positions go on higher after a purge", func(h *History) {
			h.Receipts[1].Position, h.Finals[1].Position, h.Finals[0].Purged = 3, 3, true
		}, nil},
		{"two positions for one", func(h *History) { h.Receipts[1].Position = 3 }, []Rule{Conserve}},

		{"an unknown publish that never came to be", func(h *History) {
			h.Publishes[1].Result = Unknown
			h.Receipts, h.Finals = h.Receipts[:1], h.Finals[:1]
		}, nil},
		{"an unknown publish that came to be at one of two endpoints", func(h *History) {
			h.Publishes[1].Result = Unknown
			h.Publishes[1].Endpoints = []string{"ep", "ep2"}
		}, []Rule{Lost}},
		{"an unknown publish that was repeated and is lost", func(h *History) {
			p := h.Publishes[1]
			h.Publishes[1].Result = Unknown
			p.Invoke, p.Return = 40*ms, 50*ms
			h.Publishes = append(h.Publishes, p)
			h.Receipts, h.Finals = h.Receipts[:1], h.Finals[:1]
		}, []Rule{Lost}},
		{"received before it was published", func(h *History) { h.Publishes[1].Invoke, h.Publishes[1].Return = 205*ms, 220*ms }, []Rule{Phantom}},
		{"received by somebody else", func(h *History) {
			h.Publishes[1].Endpoints = []string{}
		}, []Rule{Phantom}},

		{"no operational event reports a permanent failure", func(h *History) {
			h.Receipts[1].Status = 503
			h.Finals[1].Status, h.Finals[1].ReasonCode = grapnel.Failed, grapnel.ReasonPermanent
		}, []Rule{EarlyDead}},
		{"a permanent failure", func(h *History) {
			h.Receipts[1].Status = 400
			h.Finals[1].Status, h.Finals[1].ReasonCode = grapnel.Failed, grapnel.ReasonPermanent
		}, nil},
		{"failed although taken", func(h *History) {
			h.Finals[1].Status, h.Finals[1].ReasonCode, h.Finals[1].Attempts = grapnel.Failed, grapnel.ReasonExhausted, 3
		}, []Rule{EarlyDead}},
		{"delivered although refused", func(h *History) { h.Receipts[1].Status = 301 }, []Rule{FalseSuccess}},

		{"waiting at a paused endpoint", func(h *History) {
			h.Actions = []Action{{Kind: Pause, Endpoint: "ep", Invoke: 150 * ms, Return: 160 * ms}}
			h.Receipts = h.Receipts[:1]
			h.Finals[1].Status, h.Finals[1].Attempts = grapnel.Held, 0
		}, nil},
		{"waiting at an endpoint that was enabled again", func(h *History) {
			h.Actions = []Action{{Kind: Pause, Endpoint: "ep", Invoke: 150 * ms, Return: 160 * ms},
				{Kind: Enable, Endpoint: "ep", Invoke: 170 * ms, Return: 180 * ms}}
			h.Receipts = h.Receipts[:1]
			h.Finals[1].Status, h.Finals[1].Attempts = grapnel.Held, 0
		}, []Rule{Stuck}},
		{"sent to a paused endpoint", func(h *History) {
			h.Actions = []Action{{Kind: Pause, Endpoint: "ep", Invoke: 150 * ms, Return: 160 * ms}}
		}, []Rule{AfterDelete}},
		{"on its way when the endpoint was deleted", func(h *History) {
			h.Actions = []Action{{Kind: Delete, Endpoint: "ep", Invoke: 190 * ms, Return: 196 * ms}}
		}, nil},
		{"sent after it was skipped", func(h *History) {
			h.Actions = []Action{{Kind: Skip, Endpoint: "ep", Delivery: "db", Invoke: 150 * ms, Return: 160 * ms}}
			h.Finals[1].Status = grapnel.Skipped
		}, []Rule{AfterDelete}},
		{"held by an exhausted head", func(h *History) {
			h.Endpoints[0].Blocks = true
			h.Receipts = h.Receipts[:0]
			h.Finals[0].Status, h.Finals[0].Attempts = grapnel.Held, 3
			h.Finals[1].Status, h.Finals[1].Attempts = grapnel.Held, 0
		}, nil},
		{"held by nothing", func(h *History) {
			h.Endpoints[0].Blocks = true
			h.Receipts = h.Receipts[:1]
			h.Finals[1].Status, h.Finals[1].Attempts = grapnel.Held, 0
		}, []Rule{Stuck}},

		{"too early after refused connections", func(h *History) {
			h.Endpoints[0].Delays = []time.Duration{20 * ms, 60 * ms}
			h.Receipts[0].Status, h.Finals[0].Attempts = 503, 3
			again(h, 160*ms)
			h.Receipts[2].Attempt, h.Receipts[2].Status = 3, 200
		}, []Rule{Schedule}},
		{"in time counted from a timeout that the receiver did not notice", func(h *History) {
			h.Endpoints[0].Delays, h.Finals[0].Attempts, h.Finals[1].Status = []time.Duration{100 * ms}, 2, grapnel.Skipped
			h.Actions = []Action{{Kind: Skip, Endpoint: "ep", Delivery: "db", Invoke: 150 * ms, Return: 160 * ms}}
			h.Receipts = h.Receipts[:1]
			h.Receipts[0].End = 1190 * ms // answered with 200, 90 ms after the sender had left
			again(h, 1200*ms)
			h.Receipts[1].Attempt = 2
		}, nil},
		{"too early counted from a timeout that the receiver did not notice", func(h *History) {
			h.Endpoints[0].Delays, h.Finals[0].Attempts, h.Finals[1].Status = []time.Duration{120 * ms}, 2, grapnel.Skipped
			h.Actions = []Action{{Kind: Skip, Endpoint: "ep", Delivery: "db", Invoke: 150 * ms, Return: 160 * ms}}
			h.Receipts = h.Receipts[:1]
			h.Receipts[0].End = 1190 * ms
			again(h, 1200*ms)
			h.Receipts[1].Attempt = 2
		}, []Rule{Schedule}},
		{"too early counted from the first attempt", func(h *History) {
			h.Endpoints[0].Delays, h.Endpoints[0].SinceFirst = []time.Duration{50 * ms}, true
			h.Receipts[0].Status, h.Finals[0].Attempts = 503, 2
			again(h, 140*ms)
			h.Receipts[2].Attempt, h.Receipts[2].Status = 2, 200
		}, []Rule{Schedule}},
		{"in time counted from the first attempt", func(h *History) {
			h.Endpoints[0].Delays, h.Endpoints[0].SinceFirst = []time.Duration{50 * ms}, true
			h.Receipts[0].Status, h.Finals[0].Attempts = 503, 2
			again(h, 150*ms)
			h.Receipts[2].Attempt, h.Receipts[2].Status = 2, 200
		}, nil},
		{"early, but the clock jumped", func(h *History) {
			h.Endpoints[0].Delays = []time.Duration{time.Hour}
			h.Receipts[0].Status, h.Finals[0].Attempts = 503, 2
			again(h, 140*ms)
			h.Receipts[2].Attempt, h.Receipts[2].Status = 2, 200
			h.Faults = []Fault{{Kind: ClockJump, Start: 120 * ms, End: 120 * ms}}
		}, nil},
		{"more attempts than allowed", func(h *History) { h.Finals[1].Attempts = 4 }, []Rule{Conserve}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := base()
			test.change(&h)
			var got []Rule
			found := Check(h)
			for _, v := range found {
				if !slices.Contains(got, v.Rule) {
					got = append(got, v.Rule)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Fatalf("found %v, want the rules %v", found, test.want)
			}
		})
	}
}
