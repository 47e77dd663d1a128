package cells

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// A move takes a tenant from one cell to another. Its state is in the two stores and nowhere else.
// Each step is chosen by reading both states, and repeating a step changes nothing. So when a
// server dies in the middle, any other server of both cells continues.
//
//	old cell           new cell
//	closing                           no new work starts; once nothing is in flight:
//	sealed                            nothing changes any more
//	sealed             arrived        copied and compared; both sealed
//	gone               arrived        from here on the move cannot be cancelled
//	gone               here           the old cell's rows are erased
//
// The step to gone decides, and it is one write in one store. Cancelling a move (Stay) is another
// write there; the first of the two takes effect, and the other fails.

// MovePrefix begins the ids of moves.
const MovePrefix = "mov"

// Move starts to move a tenant to another cell, and returns where the tenant is.
func (r *Directory) Move(ctx context.Context, tenant, to string, by grapnel.By) (grapnel.Residence, error) {
	if _, there := r.Named(to); !there {
		return grapnel.Residence{}, grapnel.Invalid("/to", "unknown cell %q; this server has %v", to, r.Cells())
	}
	from, is, err := r.whereNow(ctx, tenant)
	switch {
	case err != nil:
		return is, err
	case !is.Settled():
		return is, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is already moving to cell %s", tenant, is.To)
	case is.Cell == to:
		return is, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is already in cell %s", tenant, to)
	}
	for _, name := range []string{from.Name, to} {
		if c, _ := r.Named(name); !movable(c) {
			return is, grapnel.Invalid("/to", "tenants move between PostgreSQL databases only; cell %s is not one", name)
		}
	}
	if err := r.cleared(ctx, tenant, to); err != nil {
		return is, err
	}
	now := r.now()
	next := grapnel.Tenancy{Tenant: tenant, State: grapnel.TenancyClosing, Move: grapnel.NewID(MovePrefix, now, r.random), Other: to,
		Since: now}
	entry := grapnel.AuditEntry{At: now, Tenant: tenant, Actor: by.Actor, Verb: grapnel.VerbMove, Reason: because("to cell "+to, by.Reason)}
	if _, err = from.Engine.PutTenancy(ctx, next, grapnel.TenancyHere, &entry); err != nil {
		return is, err
	}
	r.log.Info("move started", "tenant", tenant, "move", next.Move, "from", from.Name, "to", to)
	return r.Where(tenant), nil
}

// cleared erases the rows that a tenant has left in a cell, because a move there would refuse the
// tenant's events until they are erased. It fails if they are too many for Bounds.Clear.
func (r *Directory) cleared(ctx context.Context, tenant, to string) error {
	c, _ := r.Named(to)
	t, _ := c.Engine.Tenancy(tenant)
	if t.State != grapnel.TenancyGone {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.bounds.Clear)
	defer cancel()
	over, err := r.erase(ctx, c, t)
	if !over && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return grapnel.Errorf(grapnel.CodeConflict, "the rows of tenant %s in cell %s are still being deleted; try again later", tenant, to)
	}
	return err
}

// Stay cancels a move. It fails with CodeConflict once the old cell's state is gone.
func (r *Directory) Stay(ctx context.Context, tenant string, by grapnel.By) (grapnel.Residence, error) {
	from, is, err := r.whereNow(ctx, tenant)
	if err != nil {
		return is, err
	}
	t, _ := from.Engine.Tenancy(tenant)
	if t.State != grapnel.TenancyClosing && t.State != grapnel.TenancySealed {
		return is, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is in cell %s and is not moving", tenant, is.Cell)
	}
	entry := grapnel.AuditEntry{At: r.now(), Tenant: tenant, Actor: by.Actor, Verb: grapnel.VerbStay,
		Reason: because("not to cell "+t.Other, by.Reason)}
	if err = r.put(ctx, from, t, grapnel.TenancyHere, &entry); err != nil {
		return is, err
	}
	r.log.Info("move cancelled; tenant stays", "tenant", tenant, "move", t.Move, "in", from.Name)
	return r.Where(tenant), nil
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

func movable(c Cell) bool {
	_, is := c.Store.(store.Moving)
	return is
}

// whereNow returns where a tenant is, and the cell that has it, after reading the newest state of
// every cell.
func (r *Directory) whereNow(ctx context.Context, tenant string) (Cell, grapnel.Residence, error) {
	for _, c := range r.cells {
		if err := c.Engine.CatchUp(ctx); err != nil {
			return Cell{}, grapnel.Residence{}, &grapnel.Error{Code: grapnel.CodeUnavailable,
				Detail: "cell " + c.Name + " cannot be reached to read its tenants' states", Err: err}
		}
	}
	is := r.Where(tenant)
	from, served := r.Named(is.Cell)
	if !served {
		return from, is, grapnel.Moved(tenant, is.Cell)
	}
	return from, is, nil
}

// Run continues moves until ctx ends: those that this server carries.
func (r *Directory) Run(ctx context.Context) {
	defer r.carriers.Wait()
	if len(r.cells) == 1 && !movable(r.cells[0]) {
		return
	}
	for ctx.Err() == nil {
		for i := range r.cells {
			c := r.cells[i]
			for _, t := range c.Engine.Tenancies() {
				if t.State != grapnel.TenancyHere && r.carries(c, t) && r.begin(c, t) {
					r.carriers.Go(func() { r.carry(ctx, c, t) })
				}
			}
		}
		backoff.Wait(ctx.Done(), r.bounds.Step)
	}
}

// carries says whether this server makes the steps of a cell's part of a move: of the live nodes
// that have both cells, the one with the lowest id does. Two nodes may do so for a moment; a step
// that is made twice does nothing the second time.
func (r *Directory) carries(c Cell, t grapnel.Tenancy) bool {
	other, served := r.Named(t.Other)
	if !served {
		return false // the steps need both stores
	}
	own, live := c.Engine.Nodes()
	_, there := other.Engine.Nodes()
	return !slices.ContainsFunc(live, func(id string) bool { return id < own && slices.Contains(there, id) })
}

// carried identifies one cell's part of a move.
type carried struct{ cell, tenant, move string }

// begin says whether a new carrier has to continue a part of a move; false: one does already.
func (r *Directory) begin(c Cell, t grapnel.Tenancy) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	part := carried{c.Name, t.Tenant, t.Move}
	if r.carrying[part] {
		return false
	}
	r.carrying[part] = true
	return true
}

// carry makes one step after the other until this cell's part of the move is finished. A part in
// state gone stays in carrying when it is finished: the state does not say that the rows are
// erased, so Run would start it again and again. Every other part may be started again.
func (r *Directory) carry(ctx context.Context, c Cell, t grapnel.Tenancy) {
	said := ""
	for {
		over, err := r.step(ctx, c, t.Tenant, t.Move)
		if ctx.Err() != nil {
			return
		}
		trouble := ""
		if err != nil {
			trouble = err.Error()
		}
		if trouble != "" && trouble != said {
			r.log.Warn("move step failed; retrying", "tenant", t.Tenant, "move", t.Move, "cell", c.Name, "err", err)
		}
		said = trouble
		r.note(t.Tenant, func(p *progress) { p.trouble = trouble })
		if over || !r.carries(c, t) {
			break
		}
		wait := r.bounds.Step
		if err != nil {
			wait = r.bounds.Trouble
		}
		if !backoff.Wait(ctx.Done(), wait) {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.moves, t.Tenant)
	if now, _ := c.Engine.Tenancy(t.Tenant); now.Move != t.Move || now.State != grapnel.TenancyGone || !r.carries(c, t) {
		delete(r.carrying, carried{c.Name, t.Tenant, t.Move})
	}
}

func (r *Directory) note(tenant string, change func(*progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.moves[tenant]
	change(&p)
	r.moves[tenant] = p
}

// step does what one cell can do now for a move. It says whether the cell's part is finished.
func (r *Directory) step(ctx context.Context, c Cell, tenant, move string) (over bool, err error) {
	if err := c.Engine.CatchUp(ctx); err != nil {
		return false, err
	}
	t, _ := c.Engine.Tenancy(tenant)
	if t.Move != move || t.State.Open() {
		return true, nil
	}
	if t.State == grapnel.TenancyClosing {
		return false, r.seal(ctx, c, t)
	}
	other, served := r.Named(t.Other)
	if !served {
		return false, fmt.Errorf("this server does not serve cell %s", t.Other)
	}
	if err := other.Engine.CatchUp(ctx); err != nil {
		return false, err
	}
	theirs, known := other.Engine.Tenancy(tenant)
	same := known && theirs.Move == move
	switch {
	case t.State == grapnel.TenancySealed && same && (theirs.State == grapnel.TenancyArrived || theirs.State == grapnel.TenancyHere):
		// Here: this cell had let go before, and its database went back to a time before that.
		// A node that knew only of the letting go would find the tenant's keys and sources nowhere.
		if err := other.Engine.Confirm(ctx); err != nil {
			return false, err
		}
		return false, r.put(ctx, c, t, grapnel.TenancyGone, nil) // from here on the tenant cannot stay
	case t.State == grapnel.TenancySealed:
		return false, r.copy(ctx, c, other, t)
	case t.State == grapnel.TenancyArrived && same && theirs.State == grapnel.TenancyGone:
		return true, r.receive(ctx, c, t)
	case t.State == grapnel.TenancyArrived && same && theirs.State == grapnel.TenancySealed:
		return false, nil // the other cell will let go
	case t.State == grapnel.TenancyArrived && known:
		// The tenant stayed there, or that cell has begun another move.
		return true, c.Store.(store.Moving).Drop(ctx, tenant, move)
	case t.State == grapnel.TenancyArrived:
		return false, fmt.Errorf("cell %s has no state of the tenant that came from it", other.Name)
	case same && theirs.State == grapnel.TenancyArrived:
		return false, nil // the other cell will open the tenant
	case known:
		return r.erase(ctx, c, t)
	}
	return false, fmt.Errorf("cell %s has no state of the tenant that moved there", other.Name)
}

// seal ends the closing state once nothing of the tenant is in flight.
func (r *Directory) seal(ctx context.Context, c Cell, t grapnel.Tenancy) error {
	quiet, err := c.Engine.Quiet(ctx, t.Tenant)
	if err != nil || !quiet {
		return err
	}
	return r.put(ctx, c, t, grapnel.TenancySealed, nil)
}

// put stores another state of the same move.
func (r *Directory) put(ctx context.Context, c Cell, t grapnel.Tenancy, to grapnel.TenancyState, audit *grapnel.AuditEntry) error {
	from := t.State
	t.State, t.Since = to, r.now()
	_, err := c.Engine.PutTenancy(ctx, t, from, audit)
	return err
}

// copy copies the tenant's rows to the other cell.
func (r *Directory) copy(ctx context.Context, from, to Cell, t grapnel.Tenancy) error {
	into, ok := to.Store.(store.Moving)
	if !ok {
		return errors.New("tenants cannot move to cell " + to.Name)
	}
	arriving := grapnel.Tenancy{Tenant: t.Tenant, State: grapnel.TenancyArrived, Move: t.Move, Other: from.Name, Since: r.now()}
	began := r.now()
	done, err := into.Import(ctx, from.Store, arriving, func(rows int64) { r.note(t.Tenant, func(p *progress) { p.rows = rows }) })
	if err != nil {
		return fmt.Errorf("copying failed: %w", err)
	}
	r.log.Info("tenant copied and compared", "tenant", t.Tenant, "move", t.Move, "from", from.Name, "to", to.Name, "rows", done.Rows,
		"events", done.Events, "waiting", done.Waits, "over", done.Over, "took", r.now().Sub(began).Round(time.Millisecond))
	return nil
}

// receive opens the tenant in its new cell.
func (r *Directory) receive(ctx context.Context, c Cell, t grapnel.Tenancy) error {
	entry := grapnel.AuditEntry{At: r.now(), Tenant: t.Tenant, Actor: grapnel.ActorItself, Verb: grapnel.VerbMove,
		Reason: "came from cell " + t.Other + " to cell " + c.Name}
	if err := r.put(ctx, c, t, grapnel.TenancyHere, &entry); err != nil {
		return err
	}
	r.log.Info("move finished", "tenant", t.Tenant, "move", t.Move, "from", t.Other, "to", c.Name)
	return nil
}

// erase deletes the rows that a tenant has left behind.
func (r *Directory) erase(ctx context.Context, c Cell, t grapnel.Tenancy) (over bool, err error) {
	for ctx.Err() == nil {
		n, err := c.Store.(store.Moving).Erase(ctx, t.Tenant, r.bounds.Rows)
		if err != nil {
			return false, err
		}
		if n < r.bounds.Rows {
			return true, nil
		}
		backoff.Wait(ctx.Done(), r.bounds.Pause)
	}
	return false, ctx.Err()
}
