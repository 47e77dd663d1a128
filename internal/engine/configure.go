package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// reload reads the whole configuration from the store and makes it the current one.
func (e *Engine) reload(ctx context.Context) error {
	c, err := within(ctx, func() (store.Config, error) { return e.store.Config(ctx) })
	if err != nil {
		return err
	}
	if before := e.config.Load(); before != nil {
		e.adopt(before.replaced(c))
		return nil
	}
	e.adopt(newConfiguration(c, func(err error) { e.log.Error("filters that do not compile match nothing", "error", err) }))
	e.settled.Store(e.config.Load())
	return nil
}

// change is one change of the configuration: write makes it durable, apply says what it has changed.
type change struct {
	write func() (store.Put, error)
	apply func(store.Put) store.ConfigChanges
}

// change makes a change and returns once it has taken effect: the core has taken in every endpoint that changed, so when
// pausing, disabling or deleting is answered, no further attempt starts, on whichever node.
func (e *Engine) change(ctx context.Context, c change) (store.Put, error) {
	put, err := e.changeHere(ctx, c)
	if err == nil && put.Answer == nil && e.shards != nil {
		err = e.shards.confirm(context.WithoutCancel(ctx))
	}
	return put, err
}

// changeHere makes a change and returns once it has taken effect on this node.
func (e *Engine) changeHere(ctx context.Context, c change) (store.Put, error) {
	if err := e.lockConfig(ctx); err != nil {
		return store.Put{}, err
	}
	defer e.unlockConfig()
	put, err := c.write()
	if put.Answer != nil {
		return put, err
	}
	// The change may be durable: a caller that has gone away must not keep it from taking effect.
	ctx = context.WithoutCancel(ctx)
	version, newest, unread := e.version(ctx)
	expected := e.config.Load().version
	if err == nil {
		expected++
	}
	if unread != nil || version != expected {
		// A change was made whose answer was lost, this one or one before it.
		if lost := e.resync(ctx); lost != nil {
			// This error and no other: who tries again at a conflict, or at something stale, would find the same one for ever.
			return put, fmt.Errorf("the configuration could not be read again: %w", errors.Join(lost, hidden(err)))
		}
		return put, err
	}
	if err != nil {
		return put, err
	}
	d := c.apply(put)
	d.Version, d.Newest = version, newest
	e.adopt(e.config.Load().next(d))
	return put, e.settle(ctx)
}

// version is the store's, read under the lock of the configuration.
func (e *Engine) version(ctx context.Context) (version, newest int64, err error) {
	ctx, cancel := e.reading(ctx)
	defer cancel()
	is, err := within(ctx, func() ([2]int64, error) {
		version, newest, err := e.store.Version(ctx)
		return [2]int64{version, newest}, err
	})
	return is[0], is[1], err
}

// settle has the core take in how the current configuration differs from the last one that it has taken in, and rouses those who wait at
// queues. The caller has locked the configuration. If it fails, whoever calls CatchUp or settle next goes on with it.
func (e *Engine) settle(ctx context.Context) error {
	before, conf := e.settled.Load(), e.config.Load()
	if before == conf {
		return nil
	}
	opened, closed := conf.turned(before)
	if err := e.close(ctx, conf, closed); err != nil {
		return err
	}
	standings, err := e.standingsOf(ctx, conf, opened)
	if err != nil {
		return err
	}
	changed, queues := conf.differs(before, opened)
	if len(changed) > 0 {
		if err := e.await(ctx, input{ask: func(*core.Core, time.Time) {
			for _, ep := range changed {
				// Of others another node decides, or their tenant is not open here. Whoever takes the shard, or opens the tenant, reads the
				// newest configuration then.
				if e.decides(ep) {
					e.step(core.Configured{Endpoint: ep, Newest: conf.newest, Standing: standings[ep.ID]})
				}
			}
		}}); err != nil {
			return err
		}
	}
	e.settled.Store(conf)
	e.rouse(queues)
	return nil
}

// CatchUp takes in every change of the configuration that was committed before the call. It reads without the lock, so that it does not wait
// for a change that is being committed here.
func (e *Engine) CatchUp(ctx context.Context) error {
	conf := e.config.Load()
	d, complete, err := e.store.Changes(ctx, conf.version)
	if err != nil || conf.version >= d.Version && e.settled.Load() == conf {
		return err
	}
	if err := e.lockConfig(ctx); err != nil {
		return err
	}
	defer e.unlockConfig()
	ctx = context.WithoutCancel(ctx)
	now := e.config.Load()
	switch {
	case now.version >= d.Version: // somebody else has taken it in, or is about to
	case complete: // every piece is as it was at d.Version, so it does not matter whether now has some of the changes already
		e.adopt(now.next(d))
	default:
		return e.resync(ctx)
	}
	ctx, cancel := e.reading(ctx)
	defer cancel()
	return e.settle(ctx)
}

// hidden is an error of which only the words are left, so that nobody acts on what it was.
func hidden(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

// lockConfig waits until nobody changes the configuration. It is a channel and not a mutex because what happens under it
// waits for the store and the core, and a caller may go away meanwhile.
func (e *Engine) lockConfig(ctx context.Context) error {
	select {
	case e.configuring <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Engine) unlockConfig() { <-e.configuring }

// PutEndpoint creates an endpoint or replaces the revision it carries. That it was disabled, or is no longer, is told to others in the same
// transaction.
func (e *Engine) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, along store.With) (store.Put, error) {
	at := e.now()
	var before *grapnel.Endpoint
	for {
		put, err := e.change(ctx, change{
			write: func() (store.Put, error) {
				before = e.config.Load().at(ep.ID)
				along.Tell = e.config.Load().tellStatus(&ep, at, along.Audit)
				return e.putEndpoint(ctx, scope, ep, along)
			},
			apply: func(put store.Put) (d store.ConfigChanges) {
				ep.Revision = put.Revision
				d.Endpoints.Written = []grapnel.Endpoint{ep}
				return d
			},
		})
		if !errors.Is(err, store.ErrStale) {
			e.told(along.Tell, put.Told)
			if err == nil && put.Answer == nil {
				e.incidents.status(before, &ep, along.Audit)
			}
			return put, err
		}
	}
}

// putEndpoint makes the change durable, and counts what was told with it.
func (e *Engine) putEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, along store.With) (store.Put, error) {
	e.pending.begin()
	put, err := e.store.PutEndpoint(ctx, scope, ep, along)
	var told []share
	if put.Told != nil {
		told = made(nil, along.Tell.Events, *put.Told)
	}
	e.pending.end(nil, told, err)
	return put, err
}

// DeleteEndpoint stops an endpoint for good. What waits for it ends as dropped, a page at a time.
func (e *Engine) DeleteEndpoint(ctx context.Context, scope store.Scope, id string, by grapnel.By) error {
	for {
		ep, ok := e.Endpoint(scope, id)
		if !ok {
			return store.ErrNotFound("endpoint")
		}
		ep.DeletedAt, ep.UpdatedAt = e.now(), e.now()
		// Somebody may change it at the same moment; then it is the newer one that goes.
		_, err := e.PutEndpoint(ctx, scope, ep, store.With{Audit: &grapnel.AuditEntry{At: ep.UpdatedAt, Tenant: ep.Tenant,
			Actor: by.Actor, Verb: grapnel.VerbDelete, Endpoint: id, Reason: by.Reason}})
		if grapnel.CodeOf(err) != grapnel.CodeConflict {
			return err
		}
	}
}

// forget removes a deleted endpoint for which nothing waits any more.
func (e *Engine) forget(ctx context.Context, id string) error {
	_, err := e.change(ctx, change{
		write: func() (store.Put, error) { return store.Put{}, e.store.RemoveEndpoint(ctx, id) },
		apply: func(store.Put) (d store.ConfigChanges) {
			d.Endpoints.Removed = []string{id}
			return d
		},
	})
	return err
}

// PutSource creates a source or replaces the revision it carries.
func (e *Engine) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, along store.With) (store.Put, error) {
	return e.change(ctx, change{
		write: func() (store.Put, error) { return e.store.PutSource(ctx, scope, src, along) },
		apply: func(put store.Put) (d store.ConfigChanges) {
			src.Revision = put.Revision
			d.Sources.Written = []grapnel.Source{src}
			return d
		},
	})
}

// DeleteSource stops a source for good. What it took in stays.
func (e *Engine) DeleteSource(ctx context.Context, scope store.Scope, id string, along store.With) (store.Put, error) {
	return e.change(ctx, change{
		write: func() (store.Put, error) {
			if user := e.config.Load().readerOf(id); user != "" {
				return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "endpoint %s takes only what comes in through this source", user)
			}
			return e.store.DeleteSource(ctx, scope, id, along)
		},
		apply: func(store.Put) (d store.ConfigChanges) {
			d.Sources.Removed = []string{id}
			return d
		},
	})
}

// readerOf is the id of an endpoint that is bound to a source; empty: none is.
func (c *configuration) readerOf(source string) string {
	for _, ep := range c.endpoints {
		if ep.Source == source && ep.DeletedAt.IsZero() {
			return ep.ID
		}
	}
	return ""
}

// PutPolicy creates or replaces a named policy. Endpoints that name it follow it from now on.
func (e *Engine) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, with store.With) (store.Put, error) {
	return e.change(ctx, change{
		write: func() (store.Put, error) { return e.store.PutPolicy(ctx, scope, p, with) },
		apply: func(put store.Put) (d store.ConfigChanges) {
			p.Revision = put.Revision
			d.Policies.Written = []grapnel.NamedPolicy{p}
			return d
		},
	})
}

// DeletePolicy removes a named policy that no endpoint uses.
func (e *Engine) DeletePolicy(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := e.change(ctx, change{
		write: func() (store.Put, error) {
			if user := e.config.Load().userOf(id); user != "" {
				return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "the policy is used by endpoint %s", user)
			}
			return store.Put{}, e.store.DeletePolicy(ctx, scope, id, with)
		},
		apply: func(store.Put) (d store.ConfigChanges) {
			d.Policies.Removed = []string{id}
			return d
		},
	})
	return err
}

// userOf is the id of an endpoint that names a policy; empty: none does.
func (c *configuration) userOf(policy string) string {
	at, there := slices.BinarySearchFunc(c.policies, policy, byID(policyID))
	if !there {
		return ""
	}
	for _, ep := range c.endpoints {
		if ep.PolicyName == c.policies[at].Name && ep.Tenant == c.policies[at].Tenant && ep.DeletedAt.IsZero() {
			return ep.ID
		}
	}
	return ""
}

// PutKey creates or replaces an API key.
func (e *Engine) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, with store.With) (store.Put, error) {
	return e.change(ctx, change{
		write: func() (store.Put, error) { return e.store.PutKey(ctx, scope, k, with) },
		apply: func(store.Put) (d store.ConfigChanges) {
			d.Keys.Written = []grapnel.Key{k}
			return d
		},
	})
}

// DeleteKey revokes an API key at once.
func (e *Engine) DeleteKey(ctx context.Context, scope store.Scope, id string, with store.With) error {
	_, err := e.change(ctx, change{
		write: func() (store.Put, error) { return store.Put{}, e.store.DeleteKey(ctx, scope, id, with) },
		apply: func(store.Put) (d store.ConfigChanges) {
			d.Keys.Removed = []string{id}
			return d
		},
	})
	return err
}
