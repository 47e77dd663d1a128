package sqlite

import (
	"bytes"
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// DeliverySearch searches the data of the deliveries that a DeliveryList would show. Corrupt data
// contain no text. If it is unknown which of two filters leaves fewer rows, it tries both, each for
// a part of the time, and takes the one that comes further.
func (s *reader) DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) (list []grapnel.Delivery, resume int64, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		list, resume = nil, 0
		if q.Limit <= 0 {
			return nil
		}
		l := s.newLister(ctx, r, scope, q)
		l.look = newLook(&s.bounds, s.now, q.Within)
		ways, err := l.ways()
		if err != nil {
			return err
		}
		data := search{readEvent: s.readEvent, r: r, text: []byte(text), look: l.look}
		for i, way := range ways {
			l.look.begin(len(ways))
			found, rest, err := l.read(way, l.look.enough, data.contains)
			if err != nil {
				return err
			}
			if i == 0 || rest < resume {
				list, resume = found, rest
			}
			if rest == 0 || len(found) == q.Limit {
				list, resume = found, rest
				return nil
			}
		}
		return nil
	})
	return list, resume, err
}

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
	blocks      int
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

// spent says whether no further block may be looked into. Some blocks are looked into in any case,
// so that a search that goes on comes to an end.
func (k *look) spent() bool {
	if k == nil {
		return false
	}
	k.blocks++
	return k.blocks > k.leastBlocks && k.blocks%4 == 0 && k.late()
}

// search looks for a text.
type search struct {
	readEvent func(*sqlite3.Stmt) (*grapnel.Event, error)
	r         *sqlite3.Conn
	text      []byte
	look      *look
	event     int64 // the last examined one: deliveries of one event follow each other
	found     bool
}

func (s *search) contains(event int64) (bool, error) {
	if len(s.text) == 0 {
		return true, nil
	}
	if s.event == event {
		return s.found, nil
	}
	e, err := first(s.r.Query(eventQuery).Int(event), nil, s.readEvent)
	if err != nil {
		return false, err
	}
	if s.event, s.found = event, false; e != nil {
		s.look.bytes += len(e.Data)
		s.found = bytes.Contains(e.Data, s.text)
	}
	return s.found, nil
}
