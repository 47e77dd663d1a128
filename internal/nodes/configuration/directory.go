package configuration

import (
	"maps"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/store"
)

// These answers come from memory: from the configuration.

// Endpoint returns an endpoint that exists and is in scope.
func (b *Book) Endpoint(scope store.Scope, id string) (grapnel.Endpoint, bool) {
	ep := b.Snapshot().Endpoint(scope, id)
	if ep == nil {
		return grapnel.Endpoint{}, false
	}
	return *ep, true
}

// Endpoints returns the endpoints in scope, sorted by id.
func (b *Book) Endpoints(scope store.Scope) (eps []grapnel.Endpoint) {
	b.EachEndpoint(scope, func(ep *grapnel.Endpoint) bool {
		eps = append(eps, *ep)
		return true
	})
	return eps
}

// EachEndpoint shows the endpoints in scope, sorted by id, until see returns false. It copies none:
// a look at the names of ten thousand would cost more for the copies than for the look.
func (b *Book) EachEndpoint(scope store.Scope, see func(*grapnel.Endpoint) bool) {
	for _, ep := range b.Snapshot().endpoints {
		if ep.DeletedAt.IsZero() && scope.Covers(ep.Tenant, ep.ID) && !see(&ep.Endpoint) {
			return
		}
	}
}

// Queue returns a queue by the tenant and its name, or by its id, whatever tenant is given. With an
// empty tenant it finds a name that only one queue in scope has.
func (b *Book) Queue(scope store.Scope, tenant, name string) (grapnel.Endpoint, bool) {
	var found *grapnel.Endpoint
	conf := b.Snapshot()
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

// Source returns a source that is in scope.
func (b *Book) Source(scope store.Scope, id string) (grapnel.Source, bool) {
	src := find(b.Snapshot().sources, id, sourceID)
	if src == nil || !scope.Allows(src.Tenant) {
		return grapnel.Source{}, false
	}
	return *src, true
}

// Sources returns the sources in scope, sorted by id.
func (b *Book) Sources(scope store.Scope) []grapnel.Source {
	return those(b.Snapshot().sources, func(s *grapnel.Source) bool { return scope.Allows(s.Tenant) })
}

// Policies returns the named policies in scope.
func (b *Book) Policies(scope store.Scope) []grapnel.NamedPolicy {
	return those(b.Snapshot().policies, func(p *grapnel.NamedPolicy) bool { return scope.Allows(p.Tenant) })
}

// Keys returns the API keys in scope.
func (b *Book) Keys(scope store.Scope) []grapnel.Key {
	_, one := scope.One()
	return those(b.Snapshot().keys, func(k *grapnel.Key) bool { return !one || scope.Allows(k.Tenant) })
}

// Holds says whether a pass is valid, as far as revocations are concerned.
func (b *Book) Holds(p *pass.Pass) bool { return p.Holds(b.Snapshot()) }

// MakerKey is the key whose session a pass is; false: there is none any more.
func (b *Book) MakerKey(p *pass.Pass) (grapnel.Key, bool) { return p.MakerKey(b.Snapshot()) }

// Key is the key with an id; nil: none.
func (c *Snapshot) Key(id string) *grapnel.Key { return find(c.keys, id, keyID) }

// Access is the access record with an id; one without content if there is none.
func (c *Snapshot) Access(id string) *grapnel.AccessRecord {
	if r := find(c.access, id, accessID); r != nil {
		return r
	}
	return &grapnel.AccessRecord{}
}

// Access is the access record with an id; one without content if there is none.
func (b *Book) Access(id string) *grapnel.AccessRecord { return b.Snapshot().Access(id) }

// Terms are the operator's settings for a tenant.
func (b *Book) Terms(tenant string) grapnel.Terms { return b.Snapshot().Terms(tenant) }

// Sender is how messages reach the contacts of customers; nothing of it is set if they do not.
func (b *Book) Sender() grapnel.Sender {
	return valueOf(b.Access(grapnel.SenderID).Sender)
}

// valueOf is what a part of a record holds; zero of none, as after an edit whose caller left before
// its turn.
func valueOf[T any](part *T) (v T) {
	if part != nil {
		v = *part
	}
	return v
}

// Endings lists the records of ended sessions of a tenant; empty: those of all tenants together.
func (b *Book) Endings(tenant string) []grapnel.AccessRecord {
	return those(b.Snapshot().access, func(r *grapnel.AccessRecord) bool { return r.Ended != nil && r.Tenant == tenant })
}

// HasKey says whether there is a key with an id.
func (b *Book) HasKey(id string) bool { return b.Snapshot().Key(id) != nil }

// KeyByHash finds a key by the hash of its text.
func (b *Book) KeyByHash(hash [32]byte) (grapnel.Key, bool) {
	conf := b.Snapshot()
	at, ok := conf.byHash[hash]
	if !ok {
		return grapnel.Key{}, false
	}
	return conf.keys[at], true
}

// Current returns an error while the configuration in memory may be out of date.
func (b *Book) Current() error { return b.o.Current() }

// Caller finds a caller's key by its hash. It fails while this node does not know which keys are
// valid now.
func (b *Book) Caller(hash [32]byte) (key grapnel.Key, known bool, err error) {
	if err := b.Current(); err != nil {
		return grapnel.Key{}, false, err
	}
	key, known = b.KeyByHash(hash)
	return key, known, nil
}

// Queues returns the queues in scope, sorted by id.
func (b *Book) Queues(scope store.Scope) []grapnel.Endpoint {
	conf := b.Snapshot()
	if conf.queues == 0 {
		return nil
	}
	var all []grapnel.Endpoint
	for _, ep := range conf.endpoints {
		if ep.Queue != nil && ep.DeletedAt.IsZero() && scope.Allows(ep.Tenant) {
			all = append(all, ep.Endpoint)
		}
	}
	return all
}

// Tenants returns the tenants that own a part of the configuration, sorted.
func (b *Book) Tenants() []string {
	conf := b.Snapshot()
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
	for i := range conf.types {
		there[conf.types[i].Tenant] = true
	}
	for i := range conf.keys {
		there[conf.keys[i].Tenant] = true
	}
	for i := range conf.access {
		there[conf.access[i].Tenant] = true
	}
	delete(there, "")
	return slices.Sorted(maps.Keys(there))
}
