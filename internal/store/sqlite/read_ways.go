package sqlite

import (
	"context"
	"math"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// DeliveryList returns at most Limit deliveries; Limit 0 returns none.
//
// One filter chooses the index; the others check the rows that it yields. If it is unknown which of
// two filters leaves fewer rows, failed deliveries or those of a type, both are tried in turn, each
// time for longer. That takes a few times as long as the better one alone.
func (s *reader) DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) ([]grapnel.Delivery, error) {
	return rows.Reading(ctx, s.snapshot, func(r *sqlite3.Conn) ([]grapnel.Delivery, error) {
		if q.Limit <= 0 {
			return nil, nil
		}
		l := newLister(ctx, s.database, r, scope, q)
		ways, err := l.ways()
		if err != nil || len(ways) == 0 {
			return nil, err
		}
		for most := s.bounds.FirstLook; ; most *= 4 {
			for _, way := range ways {
				if len(ways) == 1 {
					most = math.MaxInt
				}
				n := 0
				list, resume, err := l.read(way, func() bool { n++; return n > most }, nil)
				if resume == 0 || err != nil {
					return list, err
				}
			}
		}
	})
}

// ways are the ways in which the list can be read.
func (l *lister) ways() (ways []way, err error) {
	within, err := l.events.events(l.r)
	if err != nil || within.empty() {
		return nil, err
	}
	ofEvents := l.query.Key != "" || l.query.Source != "" || l.query.Type != "" && l.query.Type != "*"
	if !ofEvents || l.selective() {
		ways = append(ways, func() ([]*stream, error) { return l.byEnd(within) })
	}
	if ofEvents {
		ways = append(ways, func() ([]*stream, error) { return l.byEvent(within) })
	}
	return ways, nil
}

// selective says whether the query's conditions on outcomes may leave few deliveries.
func (l *lister) selective() bool {
	return l.narrow() || l.query.DeadLetters || len(l.query.Status) > 0 && !slices.Contains(l.query.Status, grapnel.Delivered)
}

// byEnd lists by outcome and target.
func (l *lister) byEnd(within window) (streams []*stream, err error) {
	if l.within, err = l.deliveries(within); err != nil {
		return nil, err
	}
	if streams, err = l.byTarget(); err != nil {
		return nil, err
	}
	// A redelivery may be outside of the range, even if its event is inside.
	later := window{from: l.within.below, below: everything(l.query.Before).below}
	if !later.empty() {
		streams = append(streams, l.column(redeliveredQuery, later))
	}
	return streams, nil
}

// byEvent goes from events to their deliveries. Redeliveries have other row ids. It leaves out
// events whose deliveries begin at Before or above: a search that gave up among them would return
// Before again, and its caller would not come to an end.
func (l *lister) byEvent(within window) ([]*stream, error) {
	all := everything(l.query.Before)
	if l.query.Before > 0 {
		there, err := stored(l.r, oldestEventQuery, newestEventQuery)
		if err != nil {
			return nil, err
		}
		below, err := originAbove(l.r, there, func(made window) bool { return made.from >= all.below })
		if err != nil {
			return nil, err
		}
		within = within.and(window{below: below})
	}
	events, err := l.events.stream(l.ctx, l.r, l.bounds, within, l.look)
	if err != nil {
		return nil, err
	}
	return []*stream{l.madeBy(events, all), l.column(redeliveredQuery, all)}, nil
}
