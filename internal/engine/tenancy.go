package engine

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Tenants can be taken from this store to another (package cells). Of one that is not open here nothing begins: events are refused, its endpoints
// are left by the core, as those are that another node decides about. That spares receivers repetitions, and lets a move begin when nothing is
// under way. What makes it safe is the store, which refuses to write anything of a tenant that is sealed.

// open says whether things of a tenant may begin here.
func (c *configuration) open(tenant string) bool {
	return len(c.tenancies) == 0 || c.tenancies[tenant].State.Open()
}

// setTenancies takes in what is known of tenants.
func (c *configuration) setTenancies(all []grapnel.Tenancy) {
	c.tenancies = make(map[string]grapnel.Tenancy, len(all))
	for _, t := range all {
		c.tenancies[t.Tenant] = t
	}
}

// away is the error for something of a tenant that is not open here; nil: it is.
func (c *configuration) away(tenant string) error {
	switch t := c.tenancies[tenant]; {
	case t.State.Open():
		return nil
	case t.State == grapnel.TenancyGone:
		return grapnel.Moved(tenant, t.Other)
	}
	return store.ErrSealed
}

// allHere is the error for a batch in which one event is of a tenant that is not open here.
func (c *configuration) allHere(events []store.Incoming) error {
	if len(c.tenancies) == 0 {
		return nil
	}
	for i := range events {
		if err := c.away(events[i].Event.Tenant); err != nil {
			return err
		}
	}
	return nil
}

// decides says whether this engine decides about an endpoint now.
func (e *Engine) decides(ep *grapnel.Endpoint) bool {
	return e.shards.has(ep.ID) && e.config.Load().open(ep.Tenant)
}

// turned are the tenants that have become open, or closed, since another configuration.
func (c *configuration) turned(before *configuration) (opened, closed map[string]bool) {
	if len(c.tenancies) == 0 && len(before.tenancies) == 0 {
		return nil, nil
	}
	opened, closed = map[string]bool{}, map[string]bool{}
	for tenant, is := range c.tenancies {
		was := before.tenancies[tenant]
		switch {
		case is.State == was.State && is.Move == was.Move:
		case is.State.Open():
			opened[tenant] = true
		case was.State.Open():
			closed[tenant] = true
		}
	}
	for tenant, was := range before.tenancies {
		if _, known := c.tenancies[tenant]; !known && !was.State.Open() {
			opened[tenant] = true // what had arrived was dropped
		}
	}
	return opened, closed
}

// close has the core leave what is of tenants that are not open any more.
func (e *Engine) close(ctx context.Context, conf *configuration, closed map[string]bool) error {
	if len(closed) == 0 {
		return nil
	}
	return e.await(ctx, input{ask: func(*core.Core, time.Time) {
		for _, ep := range conf.endpoints {
			if closed[ep.Tenant] {
				e.step(core.Leave{Endpoint: ep.ID})
			}
		}
	}})
}

// standingsOf reads what is on record of endpoints of tenants that have become open, once the core has left what it may still be leaving.
func (e *Engine) standingsOf(ctx context.Context, conf *configuration, opened map[string]bool) (map[string]store.Standing, error) {
	if len(opened) == 0 {
		return nil, nil
	}
	var ids []string
	for _, ep := range conf.endpoints {
		if opened[ep.Tenant] {
			ids = append(ids, ep.ID)
		}
	}
	if err := e.departed(ctx, ids); err != nil {
		return nil, err
	}
	all, err := e.readStandings(ctx)
	standings := map[string]store.Standing{}
	for _, id := range ids {
		if st, there := all[id]; there {
			e.metrics.stands(&st)
			standings[id] = st
		}
	}
	return standings, err
}

// readStandings reads what is on record of all endpoints.
func (e *Engine) readStandings(ctx context.Context) (map[string]store.Standing, error) {
	all, err := within(ctx, func() ([]store.Standing, error) { return e.store.Standings(ctx) })
	standings := make(map[string]store.Standing, len(all))
	for i := range all {
		standings[all[i].Endpoint] = all[i]
	}
	return standings, err
}

// departed waits until none of some endpoints is being left any more.
func (e *Engine) departed(ctx context.Context, ids []string) error {
	for {
		next := e.departures.next()
		leaving := false
		err := e.await(ctx, input{ask: func(c *core.Core, _ time.Time) { leaving = slices.ContainsFunc(ids, c.Leaving) }})
		if err != nil || !leaving {
			return err
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.over:
			return errStopping
		}
	}
}

// noteSeal takes note that the store has refused a write of an endpoint because its tenant is sealed. This node may not know that yet: the next
// round of keep reads it.
func (e *Engine) noteSeal(endpoint string, sealed bool) {
	if sealed && e.shards != nil {
		e.sealed.Store(endpoint, true)
	}
}

// left takes note that the core has left an endpoint.
func (e *Engine) left(endpoint string) {
	if e.shards != nil {
		conf := e.config.Load()
		ep := conf.at(endpoint)
		_, sealed := e.sealed.LoadAndDelete(endpoint)
		e.shards.left(endpoint, !sealed && (ep == nil || conf.open(ep.Tenant)))
	}
	e.departures.happened()
}

// departures tells who waits that the core has left an endpoint.
type departures struct {
	mu   sync.Mutex
	wait chan struct{} // closed at the next one; nil: nobody waits
}

func (d *departures) next() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wait == nil {
		d.wait = make(chan struct{})
	}
	return d.wait
}

func (d *departures) happened() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wait != nil {
		close(d.wait)
		d.wait = nil
	}
}

// Tenancy says what is known here of where a tenant is; false: nothing.
func (e *Engine) Tenancy(tenant string) (grapnel.Tenancy, bool) {
	t, known := e.config.Load().tenancies[tenant]
	return t, known
}

// Tenancies returns all that is known here of where tenants are, sorted by tenant.
func (e *Engine) Tenancies() []grapnel.Tenancy {
	var all []grapnel.Tenancy
	for _, t := range e.config.Load().tenancies {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b grapnel.Tenancy) int { return strings.Compare(a.Tenant, b.Tenant) })
	return all
}

// Renumbered returns the numbers here of deliveries that may have had a number in another store, before their tenants came from there.
func (e *Engine) Renumbered(delivery int64) []int64 {
	var all []int64
	for _, t := range e.Tenancies() {
		for _, s := range t.Shifts {
			if s.First <= delivery && delivery <= s.Last {
				all = append(all, delivery+s.By)
			}
		}
	}
	return all
}

// Tenants returns the tenants that anything in the configuration is of, sorted; those that have gone are not.
func (e *Engine) Tenants() []string {
	conf := e.config.Load()
	there := map[string]bool{}
	for _, ep := range conf.endpoints {
		there[ep.Tenant] = true
	}
	for i := range conf.sources {
		there[conf.sources[i].Tenant] = true
	}
	for i := range conf.policies {
		there[conf.policies[i].Tenant] = true
	}
	for i := range conf.keys {
		there[conf.keys[i].Tenant] = true
	}
	delete(there, "")
	var all []string
	for tenant := range there {
		if conf.tenancies[tenant].State != grapnel.TenancyGone {
			all = append(all, tenant)
		}
	}
	slices.Sort(all)
	return all
}

// PutTenancy changes where a tenant is said to be, and returns once every node knows it.
func (e *Engine) PutTenancy(ctx context.Context, t grapnel.Tenancy, from grapnel.TenancyState, audit *grapnel.AuditEntry) (store.Put, error) {
	moving, ok := e.store.(store.Moving)
	if !ok {
		return store.Put{}, grapnel.Errorf(grapnel.CodeInvalid, "tenants cannot be taken to or from this store: it is not PostgreSQL")
	}
	if err := e.lockConfig(ctx); err != nil {
		return store.Put{}, err
	}
	put, err := moving.PutTenancy(ctx, t, from, audit)
	if err == nil {
		// It may be durable: a caller that has gone away must not keep it from taking effect.
		err = e.resync(context.WithoutCancel(ctx))
	}
	e.unlockConfig()
	if err == nil && e.shards != nil {
		err = e.shards.confirm(context.WithoutCancel(ctx))
	}
	return put, err
}

// Leads says whether this node does what one has to do for all that share the store.
func (e *Engine) Leads() bool { return e.shards.leads() }

// Quiet says whether nothing of a tenant that is not open here is under way any more, on whichever node.
func (e *Engine) Quiet(ctx context.Context, tenant string) (bool, error) {
	quiet, err := e.OwnQuiet(ctx, tenant)
	if err != nil || !quiet || e.shards == nil {
		return quiet, err
	}
	return e.shards.quiet(ctx, tenant)
}

// OwnQuiet is Quiet as far as this node knows. One that has not heard yet that the tenant is closed cannot say that it is.
func (e *Engine) OwnQuiet(ctx context.Context, tenant string) (bool, error) {
	if err := e.CatchUp(ctx); err != nil {
		return false, err
	}
	conf := e.config.Load()
	if conf.open(tenant) {
		return false, nil
	}
	quiet := true
	err := e.await(ctx, input{ask: func(c *core.Core, _ time.Time) {
		for _, ep := range conf.endpoints {
			if ep.Tenant == tenant && c.Has(ep.ID) {
				quiet = false
			}
		}
	}})
	return quiet, err
}
