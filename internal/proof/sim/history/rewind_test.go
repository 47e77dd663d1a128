package history

import (
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// lossy is the base with a store that loses its commits from 95 ms to 150 ms; in that time the
// first event is delivered, and another event is acknowledged, sent and lost.
func lossy() History {
	h := base()
	h.Faults = []Fault{{Kind: Rewind, Start: 95 * ms, End: 150 * ms}}
	h.Publishes = append(h.Publishes, Publish{ID: "c", Key: "k", Invoke: 96 * ms, Return: 98 * ms, Endpoints: []string{"ep"}})
	h.Receipts = append(h.Receipts, Receipt{Event: "c", Endpoint: "ep", Delivery: "dc", Position: 3, Start: 115 * ms, End: 120 * ms,
		Status:  200,
		Attempt: 1})
	return h
}

func TestRewind(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(h *History)
		want   []Rule // sorted by name
	}{
		{"an event is lost with its past", func(*History) {}, nil},
		{"no past was lost", func(h *History) { h.Faults = nil }, []Rule{FIFO, Lost, Lost, Regress}},
		{"what was sent in the lost past is sent again, in any number", func(h *History) {
			again(h, 160*ms)
			h.Publishes = append(h.Publishes, Publish{ID: "d", Key: "k", Invoke: 15 * ms, Return: 16 * ms, Endpoints: []string{"ep"}})
			h.Finals[1].Position, h.Receipts[1].Position = 3, 3
			h.Finals = append(h.Finals, Final{Delivery: "dd", Event: "d", Endpoint: "ep", Position: 2, Status: grapnel.Delivered, Attempts: 1})
			for _, at := range []time.Duration{125 * ms, 175 * ms} {
				h.Receipts = append(h.Receipts, Receipt{Event: "d", Endpoint: "ep", Delivery: "dd", Position: 2, Start: at, End: at + 5*ms,
					Status: 200, Attempt: 1})
			}
		}, nil},
		{"an event that was acknowledged before is lost", func(h *History) {
			h.Publishes[2].Invoke, h.Publishes[2].Return = 80*ms,
				90*ms
		}, []Rule{Lost}},
		{"an event that was acknowledged afterwards is lost", func(h *History) { h.Publishes[2].Return = 151 * ms }, []Rule{Lost}},
		{"an event is lost for one endpoint", func(h *History) {
			h.Endpoints = append(h.Endpoints, Endpoint{ID: "other"})
			h.Publishes[2].Endpoints = []string{"ep", "other"}
			h.Finals = append(h.Finals, Final{Delivery: "dc", Event: "c", Endpoint: "ep", Position: 3, Status: grapnel.Delivered, Attempts: 1})
		}, []Rule{Lost}},
		{"the lost past used the id of a delivery that is there", func(h *History) { h.Receipts[2].Delivery = "db" }, nil},
		{"so it did, for an event that the endpoint did not want", func(h *History) {
			h.Publishes[2].Endpoints = nil
			h.Receipts[2].Delivery = "db"
		}, []Rule{Phantom}},
		{"the id of a delivery comes with a lost event afterwards", func(h *History) {
			h.Receipts[2].Delivery, h.Receipts[2].Start, h.Receipts[2].End = "db", 300*ms, 310*ms
		}, []Rule{Conserve, Conserve, Corrupt, Dup}},
		{"a lost event is sent afterwards", func(h *History) { h.Receipts[2].Start, h.Receipts[2].End = 300*ms, 310*ms }, []Rule{Lost}},
		{"a lost event is sent afterwards by a node that remembers it", func(h *History) {
			h.Receipts[2].Start, h.Receipts[2].End, h.Receipts[2].Remembered = 300*ms, 310*ms, true
		}, nil},
		{"a remembered delivery is of an event from after the past", func(h *History) {
			h.Publishes[2].Invoke, h.Publishes[2].Return = 151*ms, 155*ms
			h.Receipts[2].Start, h.Receipts[2].End, h.Receipts[2].Remembered = 300*ms, 310*ms, true
		}, []Rule{Lost, Lost}},
		{"a remembered delivery, but no past was lost", func(h *History) {
			h.Faults = nil
			again(h, 160*ms)
			h.Publishes, h.Receipts[2] = h.Publishes[:2], h.Receipts[3]
			h.Receipts, h.Receipts[2].Remembered = h.Receipts[:3], true
		}, []Rule{Conserve, Dup}},
		{"what a person was told in the lost past is lost", func(h *History) {
			h.Actions = []Action{{Kind: Skip, Endpoint: "ep", Delivery: "db", Invoke: 96 * ms, Return: 97 * ms},
				{Kind: Retry, Endpoint: "ep", Delivery: "da", Invoke: 120 * ms, Return: 121 * ms, Made: "dr"}}
		}, nil},
		{"what a person was told before is lost", func(h *History) {
			h.Actions = []Action{{Kind: Skip, Endpoint: "ep", Delivery: "db", Invoke: 90 * ms, Return: 94 * ms},
				{Kind: Retry, Endpoint: "ep", Delivery: "da", Invoke: 90 * ms, Return: 94 * ms, Made: "dr"}}
		}, []Rule{AfterDelete, Lost}},
		{"the books in the lost past, and afterwards", func(h *History) {
			h.Samples = []Sample{{At: 140 * ms, Endpoint: "ep", Counts: map[grapnel.Status]int64{grapnel.Pending: 3}},
				{At: 160 * ms, Endpoint: "ep", Counts: map[grapnel.Status]int64{grapnel.Pending: 2}}}
		}, nil},
		{"the books lack an event in the past itself", func(h *History) {
			h.Samples = []Sample{{At: 140 * ms, Endpoint: "ep", Counts: map[grapnel.Status]int64{grapnel.Pending: 2}}}
		}, []Rule{Conserve}},
		{"the books lack an event from before", func(h *History) {
			h.Samples = []Sample{{At: 160 * ms, Endpoint: "ep", Counts: map[grapnel.Status]int64{grapnel.Pending: 1}}}
		}, []Rule{Conserve}},
		{"an event is not found in between, and comes back", func(h *History) {
			h.Faults = append(h.Faults, Fault{Kind: Rewind, Start: 110 * ms, End: 250 * ms})
			h.Finals = append(h.Finals, Final{Delivery: "dc", Event: "c", Endpoint: "ep", Position: 3, Status: grapnel.Failed,
				ReasonCode: grapnel.ReasonPermanent})
		}, nil},
		{"an event is not found, and does not come back", func(h *History) {
			h.Finals = append(h.Finals, Final{Delivery: "dc", Event: "c", Endpoint: "ep", Position: 3, Status: grapnel.Failed,
				ReasonCode: grapnel.ReasonPermanent})
		}, []Rule{EarlyDead}},
		{"a lost event is sent to another endpoint", func(h *History) {
			h.Endpoints = append(h.Endpoints, Endpoint{ID: "other"})
			h.Receipts[2].Endpoint = "other"
		}, []Rule{Phantom}},
		{"a lost event is sent with other data", func(h *History) { h.Receipts[2].Hash = "other" }, []Rule{Corrupt}},
		{"an event of the new past is never sent", func(h *History) {
			h.Publishes = append(h.Publishes, Publish{ID: "d", Invoke: 160 * ms, Return: 170 * ms, Endpoints: []string{"ep"}})
			h.Finals = append(h.Finals, Final{Delivery: "dd", Event: "d", Endpoint: "ep", Status: grapnel.Delivered, Attempts: 1})
		}, []Rule{FalseSuccess}},
		{"a repetition afterwards", func(h *History) {
			r := h.Receipts[1]
			r.Start, r.End = 300*ms, 310*ms
			h.Receipts = append(h.Receipts, r)
		}, []Rule{Conserve, Dup}},
		{"out of order afterwards", func(h *History) {
			h.Finals[0], h.Finals[1] = h.Finals[1], h.Finals[0]
			h.Receipts[0].Start, h.Receipts[0].End = 300*ms, 310*ms
		}, []Rule{FIFO, Regress}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := lossy()
			test.change(&h)
			var got []Rule
			found := Check(h)
			for _, v := range found {
				got = append(got, v.Rule)
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("found %v, want %v", found, test.want)
			}
		})
	}
}
