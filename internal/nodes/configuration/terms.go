package configuration

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/store"
)

// sessions are the calls in progress that end when their key loses the right to make them. None is
// missed: adopt publishes a configuration and then reads the list, and WhileKey adds a session to
// the list and then reads the current configuration.
type sessions struct {
	mu  sync.Mutex
	all map[*session]struct{}
}

type session struct {
	valid func(*Snapshot) bool
	end   context.CancelFunc
}

// routes find the endpoints that want an event. They are prepared at the first event, so a series
// of changes without events prepares nothing.
type routes struct {
	before    *match.Router // of an earlier configuration, whose filters are compiled
	endpoints []*Placed
	broken    func(error)
	once      sync.Once
	ready     atomic.Pointer[match.Router]
	audiences func() map[string]*audience // by tenant: the subscribers of operational events
}

// operational are the types of operational events that outcomes cause.
var operational = [...]string{grapnel.EventDeliveryFailed, grapnel.EventEndpointFailing, grapnel.EventEndpointRecovered}

// audience has the subscribers of each type in operational within a tenant. Two are enough to know
// whether there is one besides the endpoint that an event is about.
type audience [len(operational)]struct{ one, another string }

// Snapshot is the whole configuration at one version. It never changes: a change makes the next
// one, which copies a list instead of reading and decoding everything again.
type Snapshot struct {
	Version   int64
	Newest    int64     // row id of the newest delivery when the snapshot was made
	endpoints []*Placed // sorted by id; deleted ones are included until they are removed
	sources   []grapnel.Source
	policies  []grapnel.NamedPolicy
	types     []grapnel.EventType
	passing   namedTypes // those whose delivered events retain nothing
	checked   namedTypes // those that are compared with their schemas
	keys      []grapnel.Key
	byHash    map[[32]byte]int // into keys
	access    []grapnel.AccessRecord
	terms     map[string]*grapnel.Terms     // by tenant, from access
	ends      map[string]*grapnel.TenantEnd // likewise
	routes    *routes
	queues    int // endpoints that are queues
}

// Placed is an endpoint, ready for use. It never changes and is shared by all snapshots in which it
// is the same. So one change among thousands of endpoints copies only their pointers.
type Placed struct {
	grapnel.Endpoint              // its policy is resolved
	Target           store.Target // the delivery that an event creates for it
}

// namedTypes are event types by tenant and name.
type namedTypes map[string]map[string]*grapnel.EventType

func typeID(t *grapnel.EventType) string { return t.ID }

// Accepts returns nil, or why nothing is created for a tenant: it is being deleted.
func (c *Snapshot) Accepts(tenant string) error {
	if c.ends[tenant] == nil {
		return nil
	}
	return grapnel.Errorf(grapnel.CodeTenantEnds, "Tenant %s is being deleted; nothing is accepted for it.", tenant)
}

// endsSince returns the tenants that are being deleted now and were not before, or the other way
// round.
func (c *Snapshot) endsSince(before *Snapshot) (tenants []string) {
	for tenant := range c.ends {
		if before.ends[tenant] == nil {
			tenants = append(tenants, tenant)
		}
	}
	for tenant := range before.ends {
		if c.ends[tenant] == nil {
			tenants = append(tenants, tenant)
		}
	}
	return tenants
}

// Gone returns the tenants whose data key was destroyed since another configuration, and those whose
// deletion has finished since then.
func (c *Snapshot) Gone(before *Snapshot) (tenants []string) {
	for tenant, was := range before.ends {
		if is := c.ends[tenant]; is == nil || is.KeyGone && !was.KeyGone {
			tenants = append(tenants, tenant)
		}
	}
	return tenants
}
