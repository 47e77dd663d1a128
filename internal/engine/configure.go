package engine

import (
	"context"
	"time"

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
	conf, broken := newConfiguration(c, e.config.Load())
	if broken != nil {
		e.log.Error("filters that do not compile match nothing", "error", broken)
	}
	e.config.Store(conf)
	return nil
}

// change writes configuration and makes it current before it returns: the core has taken in every endpoint that changed, so
// when pausing, disabling or deleting is answered, no further attempt starts.
func (e *Engine) change(ctx context.Context, write func() (store.Put, error)) (store.Put, error) {
	if err := e.lockConfig(ctx); err != nil {
		return store.Put{}, err
	}
	defer e.unlockConfig()
	put, err := write()
	if err != nil || put.Answer != nil {
		return put, err
	}
	before := e.config.Load()
	// The change is durable: a caller that has gone away must not keep it from taking effect.
	ctx = context.WithoutCancel(ctx)
	if err := e.reload(ctx); err != nil {
		return put, err
	}
	conf := e.config.Load()
	for i := range conf.endpoints {
		ep := &conf.endpoints[i]
		if old := before.byID[ep.ID]; old == nil || changed(old, ep) {
			if err := e.await(ctx, input{Input: core.Configured{Endpoint: ep, Newest: conf.newest}}); err != nil {
				return put, err
			}
		}
	}
	return put, nil
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

// changed says whether the core has to know. A named policy can change under an endpoint that did not.
func changed(old, ep *grapnel.Endpoint) bool {
	return old.Revision != ep.Revision || ep.PolicyName != ""
}

// PutEndpoint creates an endpoint or replaces the revision it carries.
func (e *Engine) PutEndpoint(ctx context.Context, scope store.Scope, ep grapnel.Endpoint, once *store.Once) (store.Put, error) {
	return e.change(ctx, func() (store.Put, error) { return e.store.PutEndpoint(ctx, scope, ep, once) })
}

// DeleteEndpoint stops an endpoint for good. What waits for it ends as dropped, a page at a time.
func (e *Engine) DeleteEndpoint(ctx context.Context, scope store.Scope, id string) error {
	_, err := e.change(ctx, func() (store.Put, error) {
		ep := e.config.Load().endpoint(scope, id)
		if ep == nil {
			return store.Put{}, store.ErrNotFound("endpoint")
		}
		gone := *ep
		gone.DeletedAt, gone.UpdatedAt = e.now(), e.now()
		return e.store.PutEndpoint(ctx, scope, gone, nil)
	})
	return err
}

// forget removes a deleted endpoint for which nothing waits any more.
func (e *Engine) forget(ctx context.Context, id string) error {
	if err := e.lockConfig(ctx); err != nil {
		return err
	}
	defer e.unlockConfig()
	if err := e.store.RemoveEndpoint(ctx, id); err != nil {
		return err
	}
	return e.reload(ctx)
}

// PutPolicy creates or replaces a named policy. Endpoints that name it follow it from now on.
func (e *Engine) PutPolicy(ctx context.Context, scope store.Scope, p grapnel.NamedPolicy, once *store.Once) (store.Put, error) {
	return e.change(ctx, func() (store.Put, error) { return e.store.PutPolicy(ctx, scope, p, once) })
}

// DeletePolicy removes a named policy that no endpoint uses.
func (e *Engine) DeletePolicy(ctx context.Context, scope store.Scope, id string) error {
	_, err := e.change(ctx, func() (store.Put, error) {
		conf := e.config.Load()
		for _, p := range conf.policies {
			for _, ep := range conf.endpoints {
				if p.ID == id && ep.PolicyName == p.Name && ep.Tenant == p.Tenant && ep.DeletedAt.IsZero() {
					return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "the policy is used by endpoint %s", ep.ID)
				}
			}
		}
		return store.Put{}, e.store.DeletePolicy(ctx, scope, id)
	})
	return err
}

// PutKey creates or replaces an API key.
func (e *Engine) PutKey(ctx context.Context, scope store.Scope, k grapnel.Key, once *store.Once) (store.Put, error) {
	return e.change(ctx, func() (store.Put, error) { return e.store.PutKey(ctx, scope, k, once) })
}

// DeleteKey revokes an API key at once.
func (e *Engine) DeleteKey(ctx context.Context, scope store.Scope, id string) error {
	_, err := e.change(ctx, func() (store.Put, error) { return store.Put{}, e.store.DeleteKey(ctx, scope, id) })
	return err
}

// Endpoint returns one that exists and is in scope.
func (e *Engine) Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool) {
	ep := e.config.Load().endpoint(scope, id)
	if ep == nil {
		return grapnel.Endpoint{}, false
	}
	return *ep, true
}

// Endpoints returns those in scope, sorted by id.
func (e *Engine) Endpoints(scope store.Scope) []grapnel.Endpoint {
	var eps []grapnel.Endpoint
	for _, ep := range e.config.Load().endpoints {
		if ep.DeletedAt.IsZero() && scope.Allows(ep.Tenant) {
			eps = append(eps, ep)
		}
	}
	return eps
}

// Policies returns the named policies in scope.
func (e *Engine) Policies(scope store.Scope) []grapnel.NamedPolicy {
	var ps []grapnel.NamedPolicy
	for _, p := range e.config.Load().policies {
		if scope.Allows(p.Tenant) {
			ps = append(ps, p)
		}
	}
	return ps
}

// Keys returns the API keys in scope.
func (e *Engine) Keys(scope store.Scope) []grapnel.Key {
	_, one := scope.One()
	var ks []grapnel.Key
	for _, k := range e.config.Load().keys {
		if !one || scope.Allows(k.Tenant) {
			ks = append(ks, k)
		}
	}
	return ks
}

// KeyByHash finds a key by the hash of its text.
func (e *Engine) KeyByHash(hash [32]byte) (grapnel.Key, bool) {
	conf := e.config.Load()
	at, ok := conf.byHash[hash]
	if !ok {
		return grapnel.Key{}, false
	}
	return conf.keys[at], true
}

// Held returns the ids of endpoints for which nothing is attempted now.
func (e *Engine) Held() []string {
	var ids []string
	for _, ep := range e.config.Load().endpoints {
		if ep.Status != grapnel.EndpointEnabled {
			ids = append(ids, ep.ID)
		}
	}
	return ids
}

// Health says how an endpoint is doing; the zero Health when the engine does not run.
func (e *Engine) Health(id string) (h grapnel.Health) {
	asked := input{ask: func(c *core.Core, now time.Time) { h = c.Health(now, id) }}
	if e.await(context.Background(), asked) != nil {
		return grapnel.Health{}
	}
	return h
}
