package cells

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// A move takes a tenant from one cell to another. Where it stands is in the two stores and nowhere else; each step is made by looking at both,
// and making the same step twice does nothing the second time. So a server that dies in the middle is followed by any other that serves both.
//
//	cell it leaves     other cell
//	closing                           nothing begins any more; once it is quiet:
//	sealed                            nothing changes any more
//	sealed             arrived        a copy, compared; both sealed
//	gone               arrived        from here on there is no way back
//	gone               here           and what was left behind is removed
//
// The step to gone is the one that decides, and it is one write in one store. Who changes their mind (Stay) makes another write there, and of
// the two the first counts.

// carryOn is how often is looked whether there is something to carry on, and how long a step waits for the one before it; afterTrouble is how
// long to wait after what did not work.
const (
	carryOn      = 200 * time.Millisecond
	afterTrouble = time.Second
)

// erasePage is how many rows one transaction removes of a tenant that has gone.
const erasePage = 500

// MovePrefix begins ids of moves.
const MovePrefix = "mov"

// Move begins to take a tenant to another cell, and says where it is.
func (r *Room) Move(ctx context.Context, tenant, to string, by grapnel.By) (grapnel.Residence, error) {
	if _, there := r.Named(to); !there {
		return grapnel.Residence{}, grapnel.Invalid("/to", "there is no cell %q; this server has %v", to, r.Cells())
	}
	from, is, err := r.whereNow(ctx, tenant)
	switch {
	case err != nil:
		return is, err
	case !is.Settled():
		return is, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is on its way to cell %s already", tenant, is.To)
	case is.Cell == to:
		return is, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is in cell %s already", tenant, to)
	}
	for _, name := range []string{from.Name, to} {
		if c, _ := r.Named(name); !movable(c) {
			return is, grapnel.Invalid("/to", "tenants move between PostgreSQL databases only, and cell %s is none", name)
		}
	}
	now := r.now()
	next := grapnel.Tenancy{Tenant: tenant, State: grapnel.TenancyClosing, Move: grapnel.NewID(MovePrefix, now, r.random), Other: to, Since: now}
	entry := grapnel.AuditEntry{At: now, Tenant: tenant, Actor: by.Actor, Verb: grapnel.VerbMove, Reason: because("to cell "+to, by.Reason)}
	if _, err = from.Engine.PutTenancy(ctx, next, grapnel.TenancyHere, &entry); err != nil {
		return is, err
	}
	r.log.Info("a tenant begins to move", "tenant", tenant, "move", next.Move, "from", from.Name, "to", to)
	return r.Where(tenant), nil
}

// Stay gives a move up, as long as the cell that the tenant leaves has not let go.
func (r *Room) Stay(ctx context.Context, tenant string, by grapnel.By) (grapnel.Residence, error) {
	from, is, err := r.whereNow(ctx, tenant)
	if err != nil {
		return is, err
	}
	t, _ := from.Engine.Tenancy(tenant)
	if t.State != grapnel.TenancyClosing && t.State != grapnel.TenancySealed {
		return is, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is in cell %s, and no move is under way that could be given up", tenant, is.Cell)
	}
	now, state := r.now(), t.State
	entry := grapnel.AuditEntry{At: now, Tenant: tenant, Actor: by.Actor, Verb: grapnel.VerbStay, Reason: because("not to cell "+t.Other, by.Reason)}
	t.State, t.Since = grapnel.TenancyHere, now
	if _, err = from.Engine.PutTenancy(ctx, t, state, &entry); err != nil {
		return is, err
	}
	r.log.Info("a tenant stays", "tenant", tenant, "move", t.Move, "in", from.Name)
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

// whereNow says where a tenant is, by what the stores say at this moment, and which cell has it.
func (r *Room) whereNow(ctx context.Context, tenant string) (Cell, grapnel.Residence, error) {
	for _, c := range r.cells {
		if err := c.Engine.CatchUp(ctx); err != nil {
			return Cell{}, grapnel.Residence{}, &grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "cell " + c.Name + " cannot be asked where its tenants are", Err: err}
		}
	}
	is := r.Where(tenant)
	from, served := r.Named(is.Cell)
	if !served {
		return from, is, grapnel.Moved(tenant, is.Cell)
	}
	return from, is, nil
}

// Run carries moves on until ctx ends, those of which this server's node leads the cell.
func (r *Room) Run(ctx context.Context) {
	defer r.carriers.Wait()
	if len(r.cells) == 1 && !movable(r.cells[0]) {
		return
	}
	tick := time.NewTicker(carryOn)
	defer tick.Stop()
	for {
		for i := range r.cells {
			if c := r.cells[i]; c.Engine.Leads() {
				for _, t := range c.Engine.Tenancies() {
					if t.State != grapnel.TenancyHere && r.begin(c, t) {
						r.carriers.Go(func() { r.carry(ctx, c, t) })
					}
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// carried is a part of a move: what one cell has to do for it.
type carried struct{ cell, tenant, move string }

// begin says whether a part of a move is to be carried on by a new carrier.
func (r *Room) begin(c Cell, t grapnel.Tenancy) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	part := carried{c.Name, t.Tenant, t.Move}
	if r.carrying[part] {
		return false
	}
	r.carrying[part] = true
	return true
}

// carry makes one step after the other until the part of the move is over. What has gone and is erased stays noted as carried, for its state
// never tells; everything else may come up again.
func (r *Room) carry(ctx context.Context, c Cell, t grapnel.Tenancy) {
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
			r.log.Warn("a move does not go on; it is tried again", "tenant", t.Tenant, "move", t.Move, "cell", c.Name, "error", err)
		}
		said = trouble
		r.note(t.Tenant, func(p *progress) { p.trouble = trouble })
		if over || !c.Engine.Leads() {
			break
		}
		wait := carryOn
		if err != nil {
			wait = afterTrouble
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.moves, t.Tenant)
	if now, _ := c.Engine.Tenancy(t.Tenant); now.Move != t.Move || now.State != grapnel.TenancyGone || !c.Engine.Leads() {
		delete(r.carrying, carried{c.Name, t.Tenant, t.Move})
	}
}

func (r *Room) note(tenant string, change func(*progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.moves[tenant]
	change(&p)
	r.moves[tenant] = p
}

// step does what a cell can do now for a move of which it knows, and says whether there is nothing more to be done.
func (r *Room) step(ctx context.Context, c Cell, tenant, move string) (over bool, err error) {
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
	case t.State == grapnel.TenancySealed && same && theirs.State == grapnel.TenancyArrived:
		return false, r.letGo(ctx, c, t)
	case t.State == grapnel.TenancySealed:
		return false, r.copy(ctx, c, other, t)
	case t.State == grapnel.TenancyArrived && same && theirs.State == grapnel.TenancyGone:
		return true, r.receive(ctx, c, t)
	case t.State == grapnel.TenancyArrived && same && theirs.State == grapnel.TenancySealed:
		return false, nil // it is about to let go
	case t.State == grapnel.TenancyArrived && known:
		// It has stayed, or moves anew.
		return true, c.Store.(store.Moving).Drop(ctx, tenant, move)
	case t.State == grapnel.TenancyArrived:
		return false, fmt.Errorf("cell %s knows nothing of the tenant that has come from it", other.Name)
	case same && theirs.State == grapnel.TenancyArrived:
		return false, nil // it is about to be opened there
	case known:
		return r.erase(ctx, c, t)
	}
	return false, fmt.Errorf("cell %s knows nothing of the tenant that has gone there", other.Name)
}

// seal ends the time in which what has begun is finished.
func (r *Room) seal(ctx context.Context, c Cell, t grapnel.Tenancy) error {
	quiet, err := c.Engine.Quiet(ctx, t.Tenant)
	if err != nil || !quiet {
		return err
	}
	return r.put(ctx, c, t, grapnel.TenancySealed, nil)
}

// put says that a tenant is in another state of the same move.
func (r *Room) put(ctx context.Context, c Cell, t grapnel.Tenancy, to grapnel.TenancyState, audit *grapnel.AuditEntry) error {
	from := t.State
	t.State, t.Since = to, r.now()
	_, err := c.Engine.PutTenancy(ctx, t, from, audit)
	return err
}

// copy brings all that is of the tenant to the other cell.
func (r *Room) copy(ctx context.Context, from, to Cell, t grapnel.Tenancy) error {
	into, ok := to.Store.(store.Moving)
	if !ok {
		return errors.New("tenants cannot be taken to cell " + to.Name)
	}
	arriving := grapnel.Tenancy{Tenant: t.Tenant, State: grapnel.TenancyArrived, Move: t.Move, Other: from.Name, Since: r.now()}
	began := r.now()
	done, err := into.Import(ctx, from.Store, arriving, func(rows int64) { r.note(t.Tenant, func(p *progress) { p.rows = rows }) })
	if err != nil {
		return fmt.Errorf("nothing was copied: %w", err)
	}
	r.log.Info("a tenant has been copied and compared", "tenant", t.Tenant, "move", t.Move, "from", from.Name, "to", to.Name, "rows", done.Rows,
		"events", done.Events, "waiting", done.Waits, "over", done.Over, "took", r.now().Sub(began).Round(time.Millisecond))
	return nil
}

// letGo is the step from which there is no way back.
func (r *Room) letGo(ctx context.Context, c Cell, t grapnel.Tenancy) error {
	return r.put(ctx, c, t, grapnel.TenancyGone, nil)
}

// receive opens the tenant in the cell that it has come to.
func (r *Room) receive(ctx context.Context, c Cell, t grapnel.Tenancy) error {
	entry := grapnel.AuditEntry{At: r.now(), Tenant: t.Tenant, Actor: grapnel.ActorItself, Verb: grapnel.VerbMove, Reason: "came from cell " + t.Other + " to cell " + c.Name}
	if err := r.put(ctx, c, t, grapnel.TenancyHere, &entry); err != nil {
		return err
	}
	r.log.Info("a tenant has moved", "tenant", t.Tenant, "move", t.Move, "from", t.Other, "to", c.Name)
	return nil
}

// erase removes what a tenant has left behind.
func (r *Room) erase(ctx context.Context, c Cell, t grapnel.Tenancy) (over bool, err error) {
	for ctx.Err() == nil {
		n, err := c.Store.(store.Moving).Erase(ctx, t.Tenant, erasePage)
		if err != nil {
			return false, err
		}
		if n < erasePage {
			return true, nil
		}
		// Others write to the same tables; they are to get most of the time.
		select {
		case <-time.After(r.pause):
		case <-ctx.Done():
		}
	}
	return false, ctx.Err()
}

// erasePause is how long others have the store to themselves between two pages.
const erasePause = 50 * time.Millisecond
