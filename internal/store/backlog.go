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
