package sim

import (
	"sync/atomic"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// TestWishSeeds plays histories in which receivers answer with webhook-delivery: stop or disable.
func TestWishSeeds(t *testing.T) {
	wishes := func(o Options) Outcome { o.Wishes = true; return Run(o) }
	if *seedFlag != 0 {
		play(t, wishes)
		return
	}
	var stops, disables, rejected atomic.Int64
	n := playAll(t, "testdata/wishseeds", 150, 20_000, func(seed uint64) Outcome {
		out := wishes(Options{Seed: seed})
		for i := range out.History.Receipts {
			switch out.History.Receipts[i].Wish {
			case policy.WishStop:
				stops.Add(1)
			case policy.WishDisable:
				disables.Add(1)
			case policy.WishNone:
			}
		}
		for i := range out.History.Finals {
			if out.History.Finals[i].ReasonCode == grapnel.ReasonRejected {
				rejected.Add(1)
			}
		}
		return out
	})
	if stops.Load() < n || disables.Load() == 0 || rejected.Load() == 0 {
		t.Error("hardly any receiver had a wish: little was proved")
	}
	t.Logf("%d histories, %d wishes to stop, %d to disable, %d deliveries rejected", n, stops.Load(), disables.Load(), rejected.Load())
}
