package cells

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestAMoveWhoseLastStepWasLost: the database of the old cell failed over to a standby that lacks
// the last steps of a move. The other cell has the tenant open, so the old one lets go again, and
// its rows are erased.
func TestAMoveWhoseLastStepWasLost(t *testing.T) {
	for _, back := range []grapnel.TenancyState{grapnel.TenancySealed, grapnel.TenancyClosing} {
		w := &world{t: t, r: rand.New(rand.NewPCG(1, 7))}
		home, west := &place{world: w, name: "home"}, &place{world: w, name: "west"}
		w.cells = []*place{home, west}
		directory := New(Options{Log: slog.New(slog.DiscardHandler), Cells: []Cell{
			{Name: "home", Engine: &brain{place: home, leads: true}, Store: home},
			{Name: "west", Engine: &brain{place: west, leads: true}, Store: west}}})
		directory.pause = 0
		w.publish()
		home.flying = 0
		if _, err := directory.Move(t.Context(), tenant, "west", grapnel.By{Actor: "key_1"}); err != nil {
			t.Fatal(err)
		}
		move := home.is.Move
		steps := func() {
			for range 10 {
				for _, c := range directory.cells {
					if _, err := directory.step(t.Context(), c, tenant, move); err != nil {
						t.Errorf("%s: %v", c.Name, err)
						return
					}
				}
			}
		}
		steps()
		if west.is.State != grapnel.TenancyHere || home.is.State != grapnel.TenancyGone {
			t.Fatalf("after the move: home %s, west %s", home.is.State, west.is.State)
		}
		home.is.State, home.rows = back, slices.Clone(w.accepted)
		steps()
		if home.is.State != grapnel.TenancyGone || len(home.rows) > 0 || !west.open() || !slices.Equal(west.rows, w.accepted) {
			t.Errorf("from %s: home is %s with %d rows, west %s with %d", back, home.is.State, len(home.rows), west.is.State, len(west.rows))
		}
	}
}
