package api

import (
	"net/netip"
	"sync"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/bounds"
)

// Gate holds what the callers of all cells share: the memory for bodies of requests, and the counts
// of refused keys.
type Gate struct {
	bounds Bounds

	mu        sync.Mutex
	bytes     int64            // memory of bodies under way
	shares    map[string]int64 // the same by the key's tenant; "": keys without a tenant
	strangers strangers
	seen      map[sighting]struct{}
	stats     Stats
}

// Stats are numbers about all callers.
type Stats struct {
	Unauthenticated int64 // requests without a valid key
	Forbidden       int64 // requests whose key lacks the scope
	Slowed          int64 // requests refused unseen: too many wrong keys come from their address
	BodyBytes       int64 // memory that bodies under way take now
}

// NewGate makes the gate of a server.
func NewGate(b Bounds) *Gate {
	b = bounds.Fill(b)
	return &Gate{bounds: b, shares: map[string]int64{}, strangers: strangers{bounds: b, from: map[netip.Addr]*stranger{}}, seen: map[sighting]struct{}{}}
}

// Stats returns the numbers of now.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.BodyBytes = g.bytes
	return s
}

// hold reserves memory for a body. A tenant may hold at most as much as remains free after it: half
// of the budget if it is alone, a third if another one holds as much. So there is always memory for
// one tenant more.
func (g *Gate) hold(tenant string, bytes int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if share := g.shares[tenant] + bytes; share > g.bounds.Bodies-g.bytes-bytes {
		return &grapnel.Error{Code: grapnel.CodeOverloaded, RetryAfter: g.bounds.BodyRetry,
			Detail: "The bodies of requests under way, of this tenant or of all, take the memory that there is for them. Send fewer at once."}
	}
	g.bytes += bytes
	g.shares[tenant] += bytes
	return nil
}

// release returns memory that hold has reserved.
func (g *Gate) release(tenant string, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bytes -= bytes
	if g.shares[tenant] -= bytes; g.shares[tenant] == 0 {
		delete(g.shares, tenant)
	}
}

// held is the memory that the bodies of one request take.
type held struct {
	tenant string
	bytes  int64
}

func (a *api) hold(c *call, bytes int64) error {
	c.held.tenant = c.key.Tenant
	err := a.Gate.hold(c.held.tenant, bytes)
	if err == nil {
		c.held.bytes += bytes
	}
	return err
}

// release returns the memory of a request's body, which must not be used any more.
func (a *api) release(c *call) {
	if c.held.bytes > 0 {
		a.Gate.release(c.held.tenant, c.held.bytes)
		c.held.bytes = 0
	}
}
