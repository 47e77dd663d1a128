//go:build linux

package receivers

import "testing"

// withoutGates are the cases for receivers of one source that keep no state of an object, and have
// no routes for faults and the clock.
var withoutGates = []string{"T01", "T02", "T04", "T05", "T10", "T11", "T14", "T15", "T16", "T17", "T20", "T21", "T22", "T23", "T26"}

// TestTheShopChargesOnce: the example passes every case of torture that it can have.
func TestTheShopChargesOnce(t *testing.T) {
	r := prepared(t, Row{Command: []string{Rows[2].Command[0], "examples/shop/shop.py"}}, "", "sqlite")
	o := options(r, small, withoutGates...)
	o.FaultURL, o.ClockURL = "", ""
	failed, text, err := tortured(t.Context(), o)
	if err != nil || len(failed) > 0 {
		t.Errorf("%v: it fails %v\n%s", err, failed, text)
	}
}
