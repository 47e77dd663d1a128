package engine

import (
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// What is in memory is answered from there: the configuration, and what the core knows of endpoints.

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
			eps = append(eps, ep.Endpoint)
		}
	}
	return eps
}

// Queue returns the queue of a tenant by its name or, whoever's it is, by its id. An empty tenant finds a name that only one queue in
// scope has.
func (e *Engine) Queue(scope store.Scope, tenant, name string) (grapnel.Endpoint, bool) {
	var found *grapnel.Endpoint
	conf := e.config.Load()
	for _, ep := range conf.endpoints {
		switch {
		case ep.Queue == nil || !ep.DeletedAt.IsZero() || !scope.Allows(ep.Tenant):
		case ep.ID == name:
			return ep.Endpoint, true
		case ep.Queue.Name != name || tenant != "" && ep.Tenant != tenant:
		case found != nil:
			return grapnel.Endpoint{}, false
		default:
			found = &ep.Endpoint
		}
	}
	if found == nil {
		return grapnel.Endpoint{}, false
	}
	return *found, true
}

// Source returns one that is in scope.
func (e *Engine) Source(scope store.Scope, id string) (grapnel.Source, bool) {
	sources := e.config.Load().sources
	at, there := slices.BinarySearchFunc(sources, id, byID(sourceID))
	if !there || !scope.Allows(sources[at].Tenant) {
		return grapnel.Source{}, false
	}
	return sources[at], true
}

// Sources returns those in scope, sorted by id.
func (e *Engine) Sources(scope store.Scope) []grapnel.Source {
	var all []grapnel.Source
	for _, s := range e.config.Load().sources {
		if scope.Allows(s.Tenant) {
			all = append(all, s)
		}
	}
	return all
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

// Caller finds the key of who calls, unless this node does not know which keys are valid now.
func (e *Engine) Caller(hash [32]byte) (key grapnel.Key, known bool, err error) {
	if err := e.Current(); err != nil {
		return grapnel.Key{}, false, err
	}
	key, known = e.KeyByHash(hash)
	return key, known, nil
}

// Held returns the ids of endpoints for which nothing is attempted now but what people ask for and probes, sorted.
func (e *Engine) Held() []string {
	ids := e.OwnOpen()
	if e.shards != nil {
		ids = append(ids, e.shards.open()...)
	}
	for _, ep := range e.config.Load().endpoints {
		if ep.Status != grapnel.EndpointEnabled {
			ids = append(ids, ep.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Health says how an endpoint is doing; the zero Health when the engine does not run.
func (e *Engine) Health(id string) grapnel.Health { return e.Healths([]string{id})[0] }

// Healths is Health of several endpoints at one instant. The core is asked once for all of them.
func (e *Engine) Healths(ids []string) []grapnel.Health {
	all := e.OwnHealths(ids)
	if e.shards != nil {
		e.shards.healths(ids, all)
	}
	return all
}
