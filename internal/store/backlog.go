package store

import (
	"cmp"
	"slices"
	"time"
)

// Backlog counts the pending deliveries and the dead letters of an endpoint.
type Backlog struct {
	Endpoint string
	Pending  int64 // exact: the sum of Ready, Scheduled, Leased, Blocked and Waiting if More is false
	Ready    int64 // heads that are due
	Leased   int64 // heads that consumers lease, expired leases included
	Blocked  int64 // heads that their policy holds
	Waiting  int64 // behind the heads of their lanes; 0 if More
	Later    int64 // heads that are due after the last part of Ahead
	Ahead    [AheadParts]int64
	Oldest   time.Time // creation of the head with the lowest row id among those that were counted
	More     bool      // heads were not all counted: each number but Pending and Dead is a lower bound
	Dead     int64     // deliveries that DeliveryQuery.DeadLetters selects
	DeadMore bool      // Dead is a lower bound
}

// Scheduled is the number of heads that are due later and have no lease.
func (b *Backlog) Scheduled() int64 {
	n := b.Later
	for _, more := range b.Ahead {
		n += more
	}
	return n
}

// The parts of the next 24 hours: five minutes each for an hour, then an hour each. Part i is
// before AheadEnd(i), and the first begins after now.
const (
	fineParts  = 12
	AheadParts = fineParts + 23
)

// AheadEnd is the end of a part, from now.
func AheadEnd(part int) time.Duration {
	if part < fineParts {
		return time.Duration(part+1) * time.Hour / fineParts
	}
	return time.Duration(part-fineParts+2) * time.Hour
}

// PartOf is the part of a due time: 0 for ready, AheadParts+1 for later, else the number of a part
// of Ahead plus 1.
func PartOf(at, now time.Time) int {
	if !at.After(now) {
		return 0
	}
	part, _ := slices.BinarySearchFunc(aheadEnds[:], at.Sub(now), func(end, d time.Duration) int {
		if end <= d {
			return -1
		}
		return 1
	})
	return part + 1
}

// AddPart counts n heads of a part as PartOf numbers it. Less than nothing becomes nothing.
func (b *Backlog) AddPart(part int, n int64) {
	sum := &b.Later
	switch {
	case part == 0:
		sum = &b.Ready
	case part <= AheadParts:
		sum = &b.Ahead[part-1]
	}
	*sum = max(*sum+n, 0)
}

var aheadEnds = func() (ends [AheadParts]time.Duration) {
	for i := range ends {
		ends[i] = AheadEnd(i)
	}
	return ends
}()

// Settle sets Waiting once all heads that may be counted are: at most `most`, of which there were
// `counted`.
func (b *Backlog) Settle(counted, most int64) {
	b.More = counted >= most && most < b.Pending
	if !b.More {
		b.Waiting = b.Pending - b.Ready - b.Scheduled() - b.Leased - b.Blocked
	}
}

// Shares divides a limit among endpoints with these numbers of rows. What a small one does not need
// goes to larger ones, so only those that have more than an equal part are cut.
func Shares(rows []int64, limit int64) []int64 {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rows[a], rows[b]) })
	shares := make([]int64, len(rows))
	for i, at := range order {
		shares[at] = min(rows[at], limit/int64(len(rows)-i))
		limit -= shares[at]
	}
	return shares
}

// TenantCount counts the pending deliveries and the dead letters of a tenant.
type TenantCount struct {
	Pending  int64
	Dead     int64 // deliveries that DeliveryQuery.DeadLetters selects
	DeadMore bool  // Dead is a lower bound
	// Active is the beginning of the latest hour in which the tenant's totals changed, of old ones
	// the day; zero: they never did.
	Active time.Time
}

// TenantCounter adds up the counts of tenants from those of their endpoints.
type TenantCounter struct {
	by     map[string]*TenantCount
	of     []*TenantCount // parallel to failed
	failed []int64
}

// NewTenantCounter takes the tenants that are asked for.
func NewTenantCounter(tenants []string) *TenantCounter {
	c := &TenantCounter{by: make(map[string]*TenantCount, len(tenants))}
	for _, name := range tenants {
		c.by[name] = new(TenantCount)
	}
	return c
}

// Wants says whether a tenant is asked for.
func (c *TenantCounter) Wants(tenant string) bool { return c.by[tenant] != nil }

// Add counts an endpoint of a tenant that is asked for.
func (c *TenantCounter) Add(tenant string, pending, failed int64, active time.Time) {
	t := c.by[tenant]
	t.Pending += pending
	if active.After(t.Active) {
		t.Active = active
	}
	c.of, c.failed = append(c.of, t), append(c.failed, failed)
}

// Letters counts the dead letters among the failed deliveries of each endpoint, in the order in
// which they were added: at most limit, which Shares divides.
func (c *TenantCounter) Letters(limit int64, count func(shares []int64) ([]int64, error)) (map[string]TenantCount, error) {
	shares := Shares(c.failed, limit)
	dead, err := count(shares)
	if err != nil {
		return nil, err
	}
	for i, t := range c.of {
		t.Dead += dead[i]
		t.DeadMore = t.DeadMore || dead[i] == shares[i] && shares[i] < c.failed[i]
	}
	all := make(map[string]TenantCount, len(c.by))
	for name, t := range c.by {
		all[name] = *t
	}
	return all, nil
}
