package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// reload reads the configuration from the store and makes it the current one.
func (e *Engine) reload(ctx context.Context) error {
	c, err := e.store.Config(ctx)
	if err != nil {
		return err
	}
	conf, broken := newConfiguration(c)
	e.use(conf, broken)
	return nil
}

// use makes a configuration the current one.
func (e *Engine) use(conf *configuration, broken error) {
	if broken != nil {
		e.log.Error("filters that do not compile match nothing", "error", broken)
	}
	e.config.Store(conf)
}

// change is one change of the configuration: write makes it durable, apply makes it in a copy of the current configuration and
// returns the endpoints of which the core has to know.
type change struct {
	write func() (store.Put, error)
	apply func(*configuration, store.Put) (changed []string, err error)
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
	version, newest, unread := e.store.Version(ctx)
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
	conf := e.config.Load().next(version, newest)
	changed, broken := c.apply(conf, put)
	e.use(conf, broken)
	for _, id := range changed {
		if ep := conf.at(id); ep != nil {
			if err := e.await(ctx, input{Input: core.Configured{Endpoint: ep, Newest: newest}}); err != nil {
				return put, err
			}
		}
	}
	return put, nil
}

// CatchUp takes in what other nodes have changed of the configuration. Somebody may be reading it at this moment, from before the change that
// the caller means: then it is read once more.
func (e *Engine) CatchUp(ctx context.Context) error {
	version, _, err := e.store.Version(ctx)
	for err == nil {
		conf := e.config.Load()
		if conf.version >= version {
			return nil
		}
		err = e.refreshed(ctx, conf.version)
	}
	return err
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
	for {
		put, err := e.change(ctx, change{
			write: func() (store.Put, error) {
				along.Tell = e.config.Load().tellStatus(&ep, at, along.Audit)
				return e.putEndpoint(ctx, scope, ep, along)
			},
			apply: func(c *configuration, put store.Put) ([]string, error) {
				ep.Revision = put.Revision
				return []string{ep.ID}, c.setEndpoints(with(c.endpoints, ep, endpointID), ep.ID)
			},
		})
		if !errors.Is(err, store.ErrStale) {
			e.told(along.Tell, put.Told)
			if ep.Queue != nil && e.ready != nil {
				e.ready(ep.ID) // it may hand out again, or not any more
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
		apply: func(c *configuration, _ store.Put) ([]string, error) {
			return nil, c.setEndpoints(without(c.endpoints, id, endpointID), "")
		},
	})
	return err
}

// PutSource creates a source or replaces the revision it carries.
func (e *Engine) PutSource(ctx context.Context, scope store.Scope, src grapnel.Source, along store.With) (store.Put, error) {
	return e.change(ctx, change{
		write: func() (store.Put, error) { return e.store.PutSource(ctx, scope, src, along) },
		apply: func(c *configuration, put store.Put) ([]string, error) {
			src.Revision = put.Revision
			c.sources = with(c.sources, src, sourceID)
			return nil, nil
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
		apply: func(c *configuration, _ store.Put) ([]string, error) {
			c.sources = without(c.sources, id, sourceID)
			return nil, nil
		},
	})
}

// readerOf is the id of an endpoint that is bound to a source; empty: none is.
func (c *configuration) readerOf(source string) string {
	for i := range c.endpoints {
		if ep := &c.endpoints[i]; ep.Source == source && ep.DeletedAt.IsZero() {
			return ep.ID
		}
	}
	return ""
}

// PutPolicy creates or replaces a named policy. Endpoints that name it follow it from now on.
func (e *Engine) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, once *store.Once) (store.Put, error) {
	return e.change(ctx, change{
		write: func() (store.Put, error) { return e.store.PutPolicy(ctx, scope, p, once) },
		apply: func(c *configuration, put store.Put) ([]string, error) {
			p.Revision = put.Revision
			return c.setPolicies(with(c.policies, p, policyID), p)
		},
	})
}

// DeletePolicy removes a named policy that no endpoint uses.
func (e *Engine) DeletePolicy(ctx context.Context, scope store.Scope, id string) error {
	_, err := e.change(ctx, change{
		write: func() (store.Put, error) {
			if user := e.config.Load().userOf(id); user != "" {
				return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "the policy is used by endpoint %s", user)
			}
			return store.Put{}, e.store.DeletePolicy(ctx, scope, id)
		},
		apply: func(c *configuration, _ store.Put) ([]string, error) {
			c.policies = without(c.policies, id, policyID)
			return nil, nil
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
	for i := range c.endpoints {
		if ep := &c.endpoints[i]; ep.PolicyName == c.policies[at].Name && ep.Tenant == c.policies[at].Tenant && ep.DeletedAt.IsZero() {
			return ep.ID
		}
	}
	return ""
}

// PutKey creates or replaces an API key.
func (e *Engine) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, once *store.Once) (store.Put, error) {
	return e.change(ctx, change{
		write: func() (store.Put, error) { return e.store.PutKey(ctx, scope, k, once) },
		apply: func(c *configuration, _ store.Put) ([]string, error) {
			c.setKeys(with(c.keys, k, keyID))
			return nil, nil
		},
	})
}

// DeleteKey revokes an API key at once.
func (e *Engine) DeleteKey(ctx context.Context, scope store.Scope, id string) error {
	_, err := e.change(ctx, change{
		write: func() (store.Put, error) { return store.Put{}, e.store.DeleteKey(ctx, scope, id) },
		apply: func(c *configuration, _ store.Put) ([]string, error) {
			c.setKeys(without(c.keys, id, keyID))
			return nil, nil
		},
	})
	return err
}
