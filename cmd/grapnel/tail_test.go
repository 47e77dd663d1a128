package main

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

// TestFollowerKnowsWhatItTold: ids do not say which delivery is newer. Deliveries of the
// last answer are known, and so are older ones: when the newest are purged, older ones move up.
func TestFollowerKnowsWhatItTold(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(1_767_603_600+second), 0) }
	delivery := func(id string, second int) client.Delivery { return client.Delivery{ID: id, CreatedAt: at(second)} }
	knows := func(f *follower, want bool, all ...client.Delivery) {
		t.Helper()
		for i := range all {
			if f.known(&all[i]) != want {
				t.Errorf("%s: known is %t", all[i].ID, !want)
			}
		}
	}
	var f follower
	x, a, b, c, d := delivery("dlv_x", 0), delivery("dlv_9", 1), delivery("dlv_1", 2), delivery("dlv_5", 2), delivery("dlv_0", 3)
	knows(&f, false, x, a, b)
	f.remember([]client.Delivery{b, a})
	knows(&f, true, b, a, x)
	knows(&f, false, c, d)
	f.remember([]client.Delivery{d, c, b})
	knows(&f, true, d, c, b, a, x)
	f.remember(nil) // the answer was empty
	knows(&f, true, d, c, b, a, x)
}
