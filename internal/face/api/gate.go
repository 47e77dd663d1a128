package api

import (
	"net/netip"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/allowance"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Gate holds what the callers of all routes share: the memory for bodies of requests, and the
// counts of refused keys.
type Gate struct {
	bounds Bounds

	mu        sync.Mutex
	bytes     int64            // memory of bodies under way
	shares    map[string]int64 // the same by the key's tenant; "": keys without a tenant
	strangers strangers
	seen      map[sighting]struct{}
	stats     Stats

	refusals *allowance.Tenants // answers of 4xx, by whose requests they were; see slow
}

// mostInDebt is the number of tenants beyond which those within their allowance are forgotten.
const mostInDebt = 1024

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
	return &Gate{bounds: b, shares: map[string]int64{}, seen: map[sighting]struct{}{},
		strangers: strangers{bounds: b, from: map[netip.Addr]*stranger{}},
		refusals:  allowance.New(time.Duration(b.RefusalBurst)*b.RefusalPause, mostInDebt)}
}

// Stats returns the numbers of now.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.BodyBytes = g.bytes
	return s
}

// held is the memory that the bodies of one request take.
type held struct {
	tenant string
	bytes  int64
}

// hold reserves memory for a body. A tenant may hold at most as much as remains free after it: half
// of the budget if it is alone, a third if another one holds as much. So there is always memory for
// one tenant more.
func (g *Gate) hold(tenant string, bytes int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if share := g.shares[tenant] + bytes; share > g.bounds.Bodies-g.bytes-bytes {
		return &grapnel.Error{Code: grapnel.CodeOverloaded, RetryAfter: g.bounds.BodyRetry,
			Detail: "Bodies of requests in progress, of this tenant or of all, fill their share of memory. Send fewer at once."}
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

// sighting is a valid key, by its hash, that was used from an address.
type sighting struct {
	hash [32]byte
	from netip.Addr
}

// crowded says whether a key is to be refused without looking it up.
func (g *Gate) crowded(is sighting) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.strangers.from) == 0 {
		return false
	}
	from := g.strangers.known(is.from)
	_, seen := g.seen[is]
	return from != nil && from.late >= g.bounds.WrongLate && !seen
}

// saw remembers that a key is valid from an address.
func (g *Gate) saw(is sighting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, seen := g.seen[is]; seen {
		return
	}
	if len(g.seen) >= g.bounds.Seen {
		clear(g.seen) // they are seen again
	}
	g.seen[is] = struct{}{}
}

// tooMany counts a wrong key. If its refusal has to be delayed, it returns the entry of the
// address, and answers follows.
func (g *Gate) tooMany(from netip.Addr, now time.Time) *stranger {
	g.mu.Lock()
	defer g.mu.Unlock()
	is := g.strangers.at(from, now)
	is.wrong = max(0, is.wrong-now.Sub(is.tried).Seconds()/g.bounds.WrongDelay.Seconds()) + 1
	is.tried = now
	if is.wrong <= float64(g.bounds.Wrong) {
		return nil
	}
	is.late++
	return is
}

// answers ends the delay of a refusal, in the entry where it began: the address may have another
// one by now.
func (g *Gate) answers(is *stranger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	is.late--
}

// refused counts a request that was refused because of its key. It returns how many refusals the
// next log line stands for; 0: write none. Refusals of one address share a line per StrangerLog,
// because anybody can cause any number of them.
func (g *Gate) refused(code grapnel.Code, from netip.Addr, now time.Time) (requests int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch code {
	case codeForbidden:
		g.stats.Forbidden++
	case codeUnauthenticated:
		g.stats.Unauthenticated++
	case grapnel.CodeRateLimited:
		g.stats.Slowed++
	default: // the key was not judged
		return 0
	}
	is := g.strangers.at(from, now)
	is.last = now
	requests, _ = is.refusals.Add(now, g.bounds.StrangerLog)
	return requests
}
