package cells

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
)

// twoCells are home and west, and a server of both.
func twoCells(t *testing.T) (*world, *Directory) {
	w := &world{t: t, r: rand.New(rand.NewPCG(1, 7))}
	o := Options{Log: slog.New(slog.DiscardHandler)}
	for _, name := range []string{"home", "west"} {
		p := &place{world: w, name: name}
		w.cells = append(w.cells, p)
		o.Cells = append(o.Cells, Cell{Name: name, Engine: &brain{place: p}, Store: p})
	}
	return w, New(o)
}

// TestAMoveWhoseLastStepWasLost: the database of the old cell failed over to a standby that lacks
// the last steps of a move. The other cell has the tenant open, so the old one lets go again, and
// its rows are erased.
func TestAMoveWhoseLastStepWasLost(t *testing.T) {
	for _, back := range []grapnel.TenancyState{grapnel.TenancySealed, grapnel.TenancyClosing} {
		w, directory := twoCells(t)
		home, west := w.cells[0], w.cells[1]
		directory.bounds.Pause = 0
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

// TestEveryNodeKnowsOfTheArrival: before the old cell lets go, all nodes of the new one know the
// tenant's rows there. Otherwise a node would refuse the tenant's keys as unknown for a moment.
func TestEveryNodeKnowsOfTheArrival(t *testing.T) {
	w := &world{t: t, r: rand.New(rand.NewPCG(1, 7))}
	home, west := &place{world: w, name: "home"}, &place{world: w, name: "west"}
	w.cells = []*place{home, west}
	other := &brain{place: west}
	west.nodes = []*brain{other}
	directory := New(Options{Log: slog.New(slog.DiscardHandler), Cells: []Cell{
		{Name: "home", Engine: &brain{place: home}, Store: home},
		{Name: "west", Engine: &brain{place: west}, Store: west}}})
	if _, err := directory.Move(t.Context(), tenant, "west", grapnel.By{Actor: "key_1"}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := directory.step(t.Context(), directory.cells[0], tenant, home.is.Move); err != nil {
			t.Fatal(err)
		}
	}
	if home.is.State != grapnel.TenancyGone || other.told.State != grapnel.TenancyArrived {
		t.Errorf("home is %q, and another node of west takes west for %q", home.is.State, other.told.State)
	}
}

// TestMovingBackToRowsThatAreErased: a tenant goes on while the rows that it has left in a cell are
// being erased, however many they are. It can move back there once they are.
func TestMovingBackToRowsThatAreErased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, directory := twoCells(t)
		home, west := w.cells[0], w.cells[1]
		directory.bounds.Pause = 2 * time.Second
		home.known, home.is = true, grapnel.Tenancy{Tenant: tenant, State: grapnel.TenancyGone, Move: "mov_1", Other: "west"}
		home.rows = make([]int, 20)
		west.known, west.is = true, grapnel.Tenancy{Tenant: tenant, State: grapnel.TenancyHere, Move: "mov_1", Other: "home"}
		refused := 0
		for ; refused < 10; refused++ {
			_, err := directory.Move(t.Context(), tenant, "home", grapnel.By{Actor: "key_1"})
			if err == nil {
				break
			}
			if grapnel.CodeOf(err) != grapnel.CodeConflict || !west.open() {
				t.Fatalf("%v; west is %s", err, west.is.State)
			}
		}
		if refused == 0 || refused == 10 || len(home.rows) > 0 || west.is.State != grapnel.TenancyClosing {
			t.Errorf("refused %d times; %d rows are left, west is %s", refused, len(home.rows), west.is.State)
		}
	})
}

// TestServersOfBothCellsCarryMoves: a server of one cell carries no move, whatever it is for that
// cell. Of the live servers of both cells one does, and the next one once it is away.
func TestServersOfBothCellsCarryMoves(t *testing.T) {
	w := &world{t: t, r: rand.New(rand.NewPCG(1, 7))}
	home, west := &place{world: w, name: "home"}, &place{world: w, name: "west"}
	w.cells = []*place{home, west}
	live := map[string][]string{"home": {"a", "b", "d"}, "west": {"b", "c", "d"}}
	serve := func(node string, places ...*place) *Directory {
		var cells []Cell
		for _, p := range places {
			cells = append(cells, Cell{Name: p.name, Engine: &brain{place: p, node: node, live: live[p.name]}, Store: p})
		}
		return New(Options{Log: slog.New(slog.DiscardHandler), Cells: cells})
	}
	moving := grapnel.Tenancy{Tenant: tenant, State: grapnel.TenancySealed, Move: "mov_1", Other: "west"}
	carriers := func() (all string) {
		for node, r := range map[string]*Directory{"a": serve("a", home), "b": serve("b", home, west), "d": serve("d", home, west)} {
			if r.carries(r.cells[0], moving) {
				all += node
			}
		}
		return all
	}
	if got := carriers(); got != "b" {
		t.Errorf("carried by %q", got)
	}
	live["west"] = []string{"c", "d"} // b is cut off from west, and learns that last
	live["home"] = []string{"a", "d"}
	if got := carriers(); !slices.Contains([]string{"d", "bd", "db"}, got) {
		t.Errorf("without b carried by %q", got)
	}
}
