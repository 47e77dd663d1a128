package sqlite

import "time"

// look is how much one search has read. Its bounds are for rows, for the data in which it looks for
// a text, and for the time, which includes the time for blocks without a match.
type look struct {
	bounds      *Bounds
	now         func() time.Time
	began       time.Time
	limit       time.Duration // for all ways together
	least       int           // deliveries, and
	leastBlocks int           // blocks, that are looked into in any case
	every       int           // deliveries between two looks at the clock
	within      time.Duration
	deliveries  int
	bytes       int
	blocks      int64
}

// hurried divides what a search looks into in any case, if its caller has less time than the bounds
// allow: callers make many such searches.
const hurried = 24

func newLook(b *Bounds, now func() time.Time, within time.Duration) *look {
	k := &look{bounds: b, now: now, limit: b.SearchFor, least: b.LeastSearched, leastBlocks: b.LeastBlocks, every: 16}
	if within > 0 && within < k.limit {
		k.limit, k.least, k.leastBlocks, k.every = within, max(k.least/hurried, 1), max(k.leastBlocks/hurried, 1), 4
	}
	return k
}

// begin begins to count, for one of several ways.
func (k *look) begin(ways int) {
	k.began, k.within = k.now(), k.limit/time.Duration(ways)
	k.deliveries, k.bytes, k.blocks = 0, 0, 0
}

func (k *look) late() bool { return k.now().Sub(k.began) > k.within }

// enough says whether no further row may be read; otherwise it counts one.
func (k *look) enough() bool {
	b, n := k.bounds, k.deliveries
	k.deliveries++
	switch {
	case n >= b.Searched, int64(k.bytes) >= b.SearchedBytes:
		return true
	case n < k.least, n%k.every != 0:
		return false
	}
	return k.late()
}

// spent counts blocks that were looked into, and says whether no further one may be. Some blocks are
// looked into in any case, so that a search that goes on comes to an end.
func (k *look) spent(more int64) bool {
	if k == nil {
		return false
	}
	k.blocks += more
	return k.blocks > int64(k.leastBlocks) && k.late()
}
