package history

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TestEarlyOnlyAfterAReturn: a retry may come before its time only after its endpoint has answered
// again, or, if it was refused, once after the endpoint has taken an event.
func TestEarlyOnlyAfterAReturn(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		breaker bool
		first   int   // status of the first attempt, at 0
		others  []int // statuses of another delivery, at 100 ms, 200 ms …
		early   int   // attempts after it, at 150 ms, 250 ms …
		want    int   // violations
	}{
		"nothing has answered":            {true, 503, nil, 1, 1},
		"another failure":                 {true, 503, []int{500}, 1, 1},
		"the endpoint has answered":       {true, 503, []int{200}, 1, 0},
		"without a breaker":               {false, 503, []int{200}, 1, 1},
		"refused, and nothing was taken":  {true, 422, []int{422}, 1, 1},
		"refused, then another was taken": {true, 422, []int{200}, 1, 0},
		"refused, and early twice":        {true, 422, []int{200, 200}, 2, 1},
		"refused, without a breaker":      {false, 422, []int{200}, 1, 1},
	} {
		h := History{Endpoints: []Endpoint{{ID: "ep", Breaker: c.breaker, Unordered: true, Delays: []time.Duration{time.Hour}}}}
		publish := func(id string, attempts int) {
			h.Publishes = append(h.Publishes, Publish{ID: id, Hash: id, Endpoints: []string{"ep"}, Perhaps: []string{"ep"}})
			h.Finals = append(h.Finals, Final{Event: id, Endpoint: "ep", Delivery: "d" + id, Status: grapnel.Pending, Attempts: attempts})
		}
		receipt := func(id string, attempt, status int, at time.Duration) {
			h.Receipts = append(h.Receipts, Receipt{Event: id, Endpoint: "ep", Delivery: "d" + id, Hash: id, Attempt: attempt, Status: status,
				Trigger: grapnel.TriggerSchedule, Start: at, End: at + ms})
		}
		publish("a", 1+c.early)
		receipt("a", 1, c.first, 0)
		for i, status := range c.others {
			id := string(rune('b' + i))
			publish(id, 1)
			receipt(id, 1, status, time.Duration(i+1)*100*ms)
		}
		for i := range c.early {
			receipt("a", i+2, c.first, time.Duration(i+1)*100*ms+50*ms)
		}
		got := 0
		for _, v := range Check(h) {
			if v.Rule == Schedule {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d violations of SCHEDULE, not %d", name, got, c.want)
		}
	}
}
