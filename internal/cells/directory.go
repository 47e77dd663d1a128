// Package cells makes one server of several stores. Each cell is a store with an engine of its own;
// a tenant, with all its rows, is in one cell. The first cell is called home.
//
//	Directory    knows the cells, says where tenants are, and moves one from a cell to another.
//	Route   finds the cell that a request is for.
//
// Invariants:
//
//   - A tenant that no cell knows is at home. For every other tenant the cells' stores decide
//     (grapnel.Tenancy). This package stores nothing, so any server of the same cells comes to the
//     same answer.
//   - No request crosses cells. A request about two cells is answered for one of them.
//   - A request is repeated at another cell only after the answer "the tenant is not here" or "not
//     found", because such a request has changed nothing.
//
// It does not promise that servers that call the same store by different names understand each
// other's moves.
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
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Engine is the part of a cell's engine that this package needs. All methods except PutTenancy,
// Quiet, CatchUp and Confirm answer from memory.
type Engine interface {
	KeyByHash(hash [32]byte) (grapnel.Key, bool)
	Source(scope store.Scope, id string) (grapnel.Source, bool)
	Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool)
	// Tenants lists the tenants that own anything in the configuration, sorted.
	Tenants() []string
	// Tenancy is a tenant's state in this cell; false: the cell has none.
	Tenancy(tenant string) (grapnel.Tenancy, bool)
	// Tenancies are all tenants' states in this cell, sorted by tenant.
	Tenancies() []grapnel.Tenancy
	// PutTenancy changes a tenant's state, and returns once every node of the cell has the change.
	PutTenancy(ctx context.Context, t grapnel.Tenancy, from grapnel.TenancyState, audit *grapnel.AuditEntry) (store.Put, error)
	// Quiet says whether no node of the cell has anything of a tenant in flight.
	Quiet(ctx context.Context, tenant string) (bool, error)
	// CatchUp returns once every change of the configuration made before the call has been read.
	CatchUp(ctx context.Context) error
	// Confirm returns once every node of the cell has done so.
	Confirm(ctx context.Context) error
	// Nodes returns this node's id and those of the live nodes that share the store and are not
	// draining. A node has the same id in all of its cells; without other nodes there are no ids.
	Nodes() (own string, live []string)
}

// Cell is one of a server's stores with its engine.
type Cell struct {
	Name   string
	Engine Engine
	Store  store.Store // a store.Moving if tenants can move to and from it
}

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	Step    time.Duration `bound:"200ms" tiny:"20ms"` // between looks for moves to continue, and between the steps of one
	Trouble time.Duration `bound:"1s" tiny:"50ms"`    // the pause after a step that failed
	Clear   time.Duration `bound:"5s"`                // the longest that Move erases rows left in its new cell
	Rows    int           `bound:"500"`               // that one transaction erases of a tenant that has moved away
	Pause   time.Duration `bound:"50ms" tiny:"1ms"`   // between two such transactions: most of the time is other tenants'
}

// Options configure a Directory.
type Options struct {
	Bounds Bounds           // zero: their defaults
	Cells  []Cell           // the first is home
	Now    func() time.Time // nil: time.Now
	Random io.Reader        // for ids; safe for concurrent use; nil: crypto/rand
	Log    *slog.Logger     // nil: nothing is logged
}

// Directory is the directory of a server's cells: it knows where tenants are, and moves them.
type Directory struct {
	bounds Bounds
	cells  []Cell
	now    func() time.Time
	random io.Reader
	log    *slog.Logger

	mu    sync.Mutex
	moves map[string]progress // by tenant: moves that this server carries

	carrying map[carried]bool
	carriers sync.WaitGroup
}

// progress is the state of a move that this server carries.
type progress struct {
	rows    int64  // copied so far
	trouble string // error of the last step; empty: it succeeded
}

// New returns a Directory. No move continues before Run.
func New(o Options) *Directory {
	r := &Directory{bounds: bounds.Fill(o.Bounds), cells: o.Cells, now: o.Now, random: cmp.Or(o.Random, rand.Reader),
		log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), moves: map[string]progress{}, carrying: map[carried]bool{}}
	if r.now == nil {
		r.now = time.Now
	}
	return r
}

// Named finds a cell by name.
func (r *Directory) Named(name string) (Cell, bool) {
	if i := r.index(name); i >= 0 {
		return r.cells[i], true
	}
	return Cell{}, false
}

// index is a cell's index; -1: no cell has this name.
func (r *Directory) index(name string) int {
	return slices.IndexFunc(r.cells, func(c Cell) bool { return c.Name == name })
}

// Cells are the names of all cells, home first.
func (r *Directory) Cells() []string {
	names := make([]string, len(r.cells))
	for i, c := range r.cells {
		names[i] = c.Name
	}
	return names
}

// Away is the error for a request about a tenant that is in another cell than this one; nil: the
// tenant is in this cell, or no cell knows better. A moving tenant counts as in its old cell until
// that cell has let go; the engine refuses changes meanwhile.
func (r *Directory) Away(cell, tenant string) error {
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

// List returns where every known tenant is, sorted by tenant.
func (r *Directory) List(context.Context) ([]grapnel.Residence, error) {
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

// Where returns the cell of a tenant. A tenant that no cell knows is at home.
func (r *Directory) Where(tenant string) grapnel.Residence {
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

// residence combines the cells' states of a tenant; said[i] is the state in cells[i].
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
		case grapnel.TenancyGone: // to a cell that this server does not serve, if no other cell knows the tenant
			is.Cell, is.From = t.Other, is.Cell
		}
	}
	if arrived && is.State == grapnel.TenancySealed {
		is.State = grapnel.TenancyArrived // all its rows are in the other cell already
	}
	return is
}

// weight ranks the cells' states when several cells know a tenant: first the cell that has the
// tenant, then the cell it is leaving, then the cell where it arrives, last the cells it has left,
// the latest of them first.
var weight = map[grapnel.TenancyState]int{
	grapnel.TenancyGone: 1, grapnel.TenancyArrived: 2, grapnel.TenancyClosing: 3, grapnel.TenancySealed: 3, grapnel.TenancyHere: 4,
}
