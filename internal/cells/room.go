// Package cells makes one server of several stores. Each cell is a store with an engine of its own and everything that belongs to it; a tenant,
// with all that is its, is in one of them. The first cell is called home.
//
//	Room    knows the cells, says where tenants are, and moves one from a cell to another.
//	Route   finds the cell that a request is for.
//
// What holds here:
//
//   - A tenant that no cell knows anything of is at home. Else what the cells' stores say counts (grapnel.Tenancy), and nothing is kept here: any
//     server of the same cells comes to the same answer.
//   - Nothing that a request does crosses cells. One that two cells would have to answer together is answered for one of them.
//   - A request is repeated at another cell only after one that has said that the tenant is not there, or that there is no such thing: it has
//     changed nothing.
//
// What it does not promise: that servers that call the same store by different names understand each other's moves.
package cells

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Engine is what is asked of a cell's engine. Besides PutTenancy, Quiet and CatchUp it answers from memory.
type Engine interface {
	KeyByHash(hash [32]byte) (grapnel.Key, bool)
	Source(scope store.Scope, id string) (grapnel.Source, bool)
	Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool)
	// Tenants are those that anything in the configuration is of, sorted.
	Tenants() []string
	// Tenancy says what is known of where a tenant is; false: nothing.
	Tenancy(tenant string) (grapnel.Tenancy, bool)
	// Tenancies are all that is known of where tenants are, sorted by tenant.
	Tenancies() []grapnel.Tenancy
	// PutTenancy changes where a tenant is said to be, and returns once every node of the cell knows.
	PutTenancy(ctx context.Context, t grapnel.Tenancy, from grapnel.TenancyState, audit *grapnel.AuditEntry) (store.Put, error)
	// Quiet says whether nothing of a tenant is under way any more on any node of the cell.
	Quiet(ctx context.Context, tenant string) (bool, error)
	// CatchUp returns once changes of the configuration that were made before it was called are taken in.
	CatchUp(ctx context.Context) error
	// Leads says whether this node does what one has to do for all nodes of the cell.
	Leads() bool
}

// Cell is one of the stores that a server serves, and what runs on it.
type Cell struct {
	Name   string
	Engine Engine
	Store  store.Store // a store.Moving if tenants can move to and from it
}

// Options say which cells there are.
type Options struct {
	Cells  []Cell           // the first is home
	Now    func() time.Time // nil: time.Now
	Random io.Reader        // for ids; safe for concurrent use; nil: crypto/rand
	Log    *slog.Logger     // nil: nothing is logged
}

// Room is all cells of a server.
type Room struct {
	cells  []Cell
	now    func() time.Time
	random io.Reader
	log    *slog.Logger

	mu    sync.Mutex
	moves map[string]progress // by tenant, of moves that this server makes

	carrying map[carried]bool
	pause    time.Duration // erasePause
	carriers sync.WaitGroup
}

// progress is how far a move is that this server makes.
type progress struct {
	rows    int64  // that have been copied
	trouble string // why it does not go on
}

// New makes the room. Nothing moves in it before Run.
func New(o Options) *Room {
	r := &Room{cells: o.Cells, now: o.Now, random: o.Random, log: o.Log, moves: map[string]progress{}, carrying: map[carried]bool{}, pause: erasePause}
	if r.now == nil {
		r.now = time.Now
	}
	if r.random == nil {
		r.random = rand.Reader
	}
	r.log = cmp.Or(r.log, slog.New(slog.DiscardHandler))
	return r
}

// Named finds a cell by its name.
func (r *Room) Named(name string) (Cell, bool) {
	if i := r.index(name); i >= 0 {
		return r.cells[i], true
	}
	return Cell{}, false
}

// index is the place of a cell among all; -1: there is none of this name.
func (r *Room) index(name string) int {
	return slices.IndexFunc(r.cells, func(c Cell) bool { return c.Name == name })
}

// Cells are the names of all cells, home first.
func (r *Room) Cells() []string {
	names := make([]string, len(r.cells))
	for i, c := range r.cells {
		names[i] = c.Name
	}
	return names
}

// Away is the error for what is asked of a cell about a tenant that is in another one; nil: the tenant is in this one, or nobody else knows more. A
// tenant on its way is where it was until that cell has let go; what may not be done to it meanwhile is for the engine to say.
func (r *Room) Away(cell, tenant string) error {
	at := r.index(cell)
	t, known := r.cells[at].Engine.Tenancy(tenant)
	switch {
	case known && t.State == grapnel.TenancyGone:
		return grapnel.Moved(tenant, t.Other)
	case !known && at > 0:
		return grapnel.Moved(tenant, r.cells[0].Name)
	}
	return nil
}

// List says where the tenants are that any cell knows of, sorted by tenant.
func (r *Room) List(context.Context) ([]grapnel.Residence, error) {
	var names []string
	for _, c := range r.cells {
		names = append(names, c.Engine.Tenants()...)
		for _, t := range c.Engine.Tenancies() {
			names = append(names, t.Tenant)
		}
	}
	slices.SortFunc(names, strings.Compare)
	names = slices.Compact(names)
	all := make([]grapnel.Residence, len(names))
	for i, name := range names {
		all[i] = r.Where(name)
	}
	return all, nil
}

// Where says in which cell a tenant is. One that nobody knows is where it would be.
func (r *Room) Where(tenant string) grapnel.Residence {
	all := make([]grapnel.Tenancy, len(r.cells))
	for i, c := range r.cells {
		all[i], _ = c.Engine.Tenancy(tenant)
	}
	is := residence(tenant, r.cells, all)
	if !is.Settled() {
		r.mu.Lock()
		p := r.moves[tenant]
		r.mu.Unlock()
		is.Rows, is.Trouble = p.rows, p.trouble
	}
	return is
}

// residence puts together what the cells say of a tenant, each in the place of its cell.
func residence(tenant string, cells []Cell, said []grapnel.Tenancy) grapnel.Residence {
	is := grapnel.Residence{Tenant: tenant, Cell: cells[0].Name, State: grapnel.TenancyHere}
	most, arrived := 0, false
	for i, t := range said {
		arrived = arrived || t.State == grapnel.TenancyArrived
		if weight[t.State] < most || weight[t.State] == most && !t.Since.After(is.Since) {
			continue
		}
		most = weight[t.State]
		is.Cell, is.State, is.Move, is.Since, is.To, is.From = cells[i].Name, t.State, t.Move, t.Since, "", ""
		switch t.State {
		case grapnel.TenancyHere, grapnel.TenancyArrived:
			is.From = t.Other
		case grapnel.TenancyClosing, grapnel.TenancySealed:
			is.To = t.Other
		case grapnel.TenancyGone: // to a cell that this server does not serve, if no other one knows of it
			is.Cell, is.From = t.Other, is.Cell
		}
	}
	if arrived && is.State == grapnel.TenancySealed {
		is.State = grapnel.TenancyArrived // all of it is in the other cell already
	}
	return is
}

// weight says whose word counts when several cells know of a tenant: the one that has it, else the one that it leaves; else, of those that it has
// left, the last.
var weight = map[grapnel.TenancyState]int{
	grapnel.TenancyGone: 1, grapnel.TenancyArrived: 2, grapnel.TenancyClosing: 3, grapnel.TenancySealed: 3, grapnel.TenancyHere: 4,
}
