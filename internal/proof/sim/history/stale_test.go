package history

import (
	"testing"
	"time"
)

// TestLateRequests: a node may send requests after another one has taken its endpoint if it was
// frozen: once per lane and standstill. No other fault excuses them.
func TestLateRequests(t *testing.T) {
	stood := Fault{Kind: Standstill, Node: "n1", Start: 90 * ms, End: 300 * ms}
	for name, c := range map[string]struct {
		faults []Fault
		late   []time.Duration // when the first event comes from n1 again
		want   Rule            // empty: no violation
	}{
		"a node that stood still": {[]Fault{stood}, []time.Duration{303 * ms}, ""},
		"twice":                   {[]Fault{stood}, []time.Duration{301 * ms, 303 * ms}, Stale},
		"long after it went on":   {[]Fault{stood}, []time.Duration{400 * ms}, Stale},
		"another node stood still": {[]Fault{{Kind: Standstill, Node: "n2", Start: 90 * ms, End: 300 * ms}},
			[]time.Duration{303 * ms}, Stale},
		"a node that lost its shards": {[]Fault{{Kind: Takeover, Node: "n1", Start: 90 * ms, End: 300 * ms}},
			[]time.Duration{303 * ms}, Stale},
		"a node that gave its shards away": {nil, []time.Duration{303 * ms}, Stale},
	} {
		t.Run(name, func(t *testing.T) {
			h := base()
			h.Terms = []Term{{Endpoint: "ep", Epoch: 1, Start: 0}, {Endpoint: "ep", Epoch: 2, Start: 95 * ms}}
			for i := range h.Receipts {
				h.Receipts[i].Node, h.Receipts[i].Epoch = "n2", 2
			}
			for _, at := range c.late {
				again(&h, at)
				r := &h.Receipts[len(h.Receipts)-1]
				r.Node, r.Epoch = "n1", 1
			}
			h.Faults = c.faults
			switch found := Check(h); {
			case c.want == "" && len(found) > 0:
				t.Errorf("found %v", found)
			case c.want != "" && !has(found, c.want):
				t.Errorf("%s was not found; found %v", c.want, found)
			}
		})
	}
}
