package cells

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

var (
	seeds = flag.Int("seeds", 0, "how many histories of moves are played")
	first = flag.Int("first", 1, "the seed of the first one")
)

// place is a cell with one tenant's events: a store and an engine that keep the contract of package
// store. Its calls fail now and then, before or after they have taken effect.
type place struct {
	store.Store
	world *world
	name  string

	known  bool
	is     grapnel.Tenancy
	rows   []int
	told   grapnel.Tenancy // the state that the engine read last
	knows  bool
	flying int // work that began while the tenant was open and is not finished
	nodes  []*brain
}

// world is some cells that several servers serve, and the accepted events.
type world struct {
	t        *testing.T
	r        *rand.Rand
	cells    []*place
	accepted []int
	trouble  bool // things fail
	log      []string
}

var errLost = errors.New("the answer was lost")

// fails says whether a call fails before it takes effect.
func (w *world) fails() error {
	if w.trouble && w.r.IntN(6) == 0 {
		return errors.New("the store is not there")
	}
	return nil
}

// loses says whether the answer of a call that has taken effect is lost.
func (w *world) loses() error {
	if w.trouble && w.r.IntN(6) == 0 {
		return errLost
	}
	return nil
}

func (w *world) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// open says whether the tenant's work may begin here.
func (p *place) open() bool {
	if !p.known {
		return p == p.world.cells[0]
	}
	return p.is.State.Open()
}

func (p *place) PutTenancy(_ context.Context, t grapnel.Tenancy, from grapnel.TenancyState, _ *grapnel.AuditEntry) (store.Put, error) {
	w := p.world
	if err := w.fails(); err != nil {
		return store.Put{}, err
	}
	switch {
	case p.known && p.is.State == t.State && p.is.Move == t.Move:
	case p.known && p.is.State != from, !p.known && from != grapnel.TenancyHere, from != grapnel.TenancyHere && p.is.Move != t.Move:
		return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "it is %s", p.is.State)
	default:
		w.note("%s: %s %s, was %s", p.name, t.State, t.Move, p.is.State)
		p.known, p.is = true, t
		p.told, p.knows = t, true
		if t.State == grapnel.TenancySealed && p.flying > 0 {
			w.t.Errorf("%s is sealed while something is under way\n%v", p.name, w.log)
		}
	}
	return store.Put{}, w.loses()
}

func (p *place) Import(_ context.Context, from store.Store, t grapnel.Tenancy, _ func(int64)) (store.Imported, error) {
	w, other := p.world, from.(*place)
	if err := w.fails(); err != nil {
		return store.Imported{}, err
	}
	switch {
	case p.known && p.is.State != grapnel.TenancyGone || len(p.rows) > 0 || !p.known && p == w.cells[0]:
		return store.Imported{}, grapnel.Errorf(grapnel.CodeConflict, "something is there")
	case other.is.State != grapnel.TenancySealed || other.is.Move != t.Move:
		return store.Imported{}, grapnel.Errorf(grapnel.CodeConflict, "it is not sealed there")
	}
	w.note("%s: arrived %s from %s, %d rows", p.name, t.Move, other.name, len(other.rows))
	p.rows, p.known, p.is = slices.Clone(other.rows), true, t
	return store.Imported{}, w.loses()
}

func (p *place) Drop(_ context.Context, _, move string) error {
	if err := p.world.fails(); err != nil {
		return err
	}
	if !p.known || p.is.State != grapnel.TenancyArrived || p.is.Move != move {
		return grapnel.Errorf(grapnel.CodeConflict, "nothing like that has arrived")
	}
	p.world.note("%s: dropped %s", p.name, move)
	p.rows = nil
	// The state before: none in a cell that the tenant was never in, else gone.
	if p == p.world.cells[0] {
		p.is.State = grapnel.TenancyGone
	} else {
		p.known, p.is = false, grapnel.Tenancy{}
	}
	return p.world.loses()
}

func (p *place) Erase(_ context.Context, _ string, limit int) (int, error) {
	if err := p.world.fails(); err != nil {
		return 0, err
	}
	if p.is.State != grapnel.TenancyGone {
		return 0, grapnel.Errorf(grapnel.CodeConflict, "it is %s", p.is.State)
	}
	n := min(len(p.rows), limit, 1+p.world.r.IntN(3))
	p.rows = p.rows[n:]
	if len(p.rows) > 0 {
		n = limit // more rows are left
	}
	return n, p.world.loses()
}

// brain is the engine of a place on one server. Each server has its own, with the state that it has
// read.
type brain struct {
	*place
	node  string
	live  []string
	knows bool
	told  grapnel.Tenancy
}

func (b *brain) KeyByHash([32]byte) (grapnel.Key, bool)                        { return grapnel.Key{}, false }
func (b *brain) Source(store.Scope, string) (_ grapnel.Source, there bool)     { return }
func (b *brain) Endpoint(store.Scope, string) (_ grapnel.Endpoint, there bool) { return }
func (b *brain) Tenants() []string                                             { return nil }
func (b *brain) Nodes() (string, []string)                                     { return b.node, b.live }
func (b *brain) Tenancy(string) (grapnel.Tenancy, bool)                        { return b.told, b.knows }
func (b *brain) Quiet(context.Context, string) (bool, error)                   { return b.flying == 0, b.world.fails() }
func (b *brain) Tenancies() (all []grapnel.Tenancy) {
	if b.knows {
		all = append(all, b.told)
	}
	return all
}

func (b *brain) CatchUp(context.Context) error {
	if err := b.world.fails(); err != nil {
		return err
	}
	b.told, b.knows = b.is, b.known
	return nil
}

func (b *brain) Confirm(ctx context.Context) (err error) {
	for _, other := range b.nodes {
		err = errors.Join(err, other.CatchUp(ctx))
	}
	return err
}

func (b *brain) PutTenancy(ctx context.Context, t grapnel.Tenancy, from grapnel.TenancyState,
	audit *grapnel.AuditEntry) (store.Put, error) {
	put, err := b.place.PutTenancy(ctx, t, from, audit)
	if err == nil {
		b.told, b.knows = b.is, b.known
	}
	return put, err
}

// TestMovesLoseNothing plays histories of a tenant that several servers move back and forth. The
// servers fail, lose answers and act on outdated state, while events are accepted wherever the
// tenant is open. The tenant is never open in two cells. At the end every accepted event is in the
// tenant's cell, in order, and nowhere else.
func TestMovesLoseNothing(t *testing.T) {
	count := 3000
	if os.Getenv("GRAPNEL_SOAK") != "" {
		count = 60_000
	}
	if *seeds != 0 {
		count = *seeds
	}
	for seed := *first; seed < *first+count && !t.Failed(); seed++ {
		play(t, seed)
	}
}

const tenant = "acme"

func play(t *testing.T, seed int) {
	w := &world{t: t, r: rand.New(rand.NewPCG(uint64(seed), 7)), trouble: true}
	names := []string{"home", "west", "east"}[:2+w.r.IntN(2)]
	for _, name := range names {
		w.cells = append(w.cells, &place{world: w, name: name})
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var directories []*Directory
	for range 2 {
		var cells []Cell
		for _, p := range w.cells {
			cells = append(cells, Cell{Name: p.name, Engine: &brain{place: p}, Store: p})
		}
		directory := New(Options{Cells: cells,
			Now: func() time.Time { now = now.Add(time.Second); return now }, Log: slog.New(slog.DiscardHandler)})
		directory.bounds.Pause, directory.bounds.Rows = 0, []int{1, 3, 500}[seed%3]
		directories = append(directories, directory)
	}
	ctx := t.Context()
	moves, gone := 0, 0
	for range 200 + w.r.IntN(200) {
		directory := directories[w.r.IntN(len(directories))]
		switch c := directory.cells[w.r.IntN(len(directory.cells))]; w.r.IntN(12) {
		case 0:
			if _, err := directory.Move(ctx, tenant, names[w.r.IntN(len(names))], grapnel.By{Actor: "key_1"}); err == nil {
				moves++
			}
		case 1:
			if w.r.IntN(4) == 0 {
				if _, err := directory.Stay(ctx, tenant, grapnel.By{Actor: "key_1"}); err == nil {
					gone++
				}
			}
		case 2, 3, 4:
			w.publish()
		case 5:
			_ = c.Engine.CatchUp(ctx)
		case 6:
			w.cells[w.r.IntN(len(w.cells))].flying = 0
		default:
			if known, there := c.Engine.Tenancy(tenant); there {
				_, _ = directory.step(ctx, c, tenant, known.Move)
			}
		}
		w.look(seed)
	}
	// Then no call fails any more, and the move in progress finishes.
	w.trouble = false
	for range 20 {
		for _, p := range w.cells {
			p.flying = 0
		}
		for _, directory := range directories {
			for _, c := range directory.cells {
				if err := c.Engine.CatchUp(ctx); err != nil {
					t.Fatal(err)
				}
				for _, is := range c.Engine.Tenancies() {
					for over := false; !over; {
						before := fmt.Sprint(c.Engine.Tenancy(tenant))
						var err error
						if over, err = directory.step(ctx, c, tenant, is.Move); err != nil || fmt.Sprint(c.Engine.Tenancy(tenant)) == before {
							break
						}
					}
					w.look(seed)
				}
			}
		}
	}
	at := directories[0].Where(tenant)
	if !at.Settled() {
		t.Errorf("seed %d: the move never ends: %+v", seed, at)
	}
	for _, p := range w.cells {
		switch {
		case p.name == at.Cell && !slices.Equal(p.rows, w.accepted):
			t.Errorf("seed %d: in %s there are %v, accepted were %v", seed, p.name, p.rows, w.accepted)
		case p.name == at.Cell && !p.open():
			t.Errorf("seed %d: the tenant is in %s, which is not open", seed, p.name)
		case p.name != at.Cell && len(p.rows) > 0:
			t.Errorf("seed %d: %d rows are left in %s", seed, len(p.rows), p.name)
		}
	}
	if t.Failed() {
		for _, line := range w.log {
			t.Log(line)
		}
	}
}

// publish accepts an event in the cell that has the tenant open, if any.
func (w *world) publish() {
	for _, p := range w.cells {
		if p.open() {
			n := len(w.accepted) + 1
			p.rows, w.accepted, p.flying = append(p.rows, n), append(w.accepted, n), p.flying+1
		}
	}
}

// look checks that the tenant is open in at most one cell, and that every accepted event is in some
// cell.
func (w *world) look(seed int) {
	open := 0
	for _, p := range w.cells {
		if p.open() {
			open++
			if !slices.Equal(p.rows, w.accepted) {
				w.t.Fatalf("seed %d: %s is open with %d of %d rows\n%v", seed, p.name, len(p.rows), len(w.accepted), w.log)
			}
		}
	}
	if open > 1 {
		w.t.Fatalf("seed %d: the tenant is open in %d cells\n%v", seed, open, w.log)
	}
}
