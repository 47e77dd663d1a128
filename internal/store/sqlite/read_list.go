package sqlite

import (
	"cmp"
	"context"
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	redeliveredQuery   = "SELECT delivery FROM redelivery WHERE delivery < ? AND delivery >= ? ORDER BY delivery DESC LIMIT ?"
	firstDeliveryQuery = "SELECT first FROM event WHERE seq >= ? ORDER BY seq LIMIT 1"
	lastDeliveryQuery  = "SELECT first + made FROM event WHERE seq < ? ORDER BY seq DESC LIMIT 1"
	madeByQuery        = "SELECT first, made FROM event WHERE seq = ?"
	nextOriginQuery    = "SELECT seq, first, made FROM event WHERE seq >= ? ORDER BY seq LIMIT 1"
)

// lister makes one list of deliveries.
type lister struct {
	ctx    context.Context
	r      *sqlite3.Conn
	bounds *Bounds
	packer *codec.Packer
	query  store.DeliveryQuery
	events eventFilter
	within window // range of the deliveries created by acceptance
	look   *look  // nil: a list is read to its end
}

// way finds the row ids of all deliveries that may match.
type way func() ([]*stream, error)

// read returns the deliveries of a way that match, and whose event passes has, unless that is nil.
// It ends when the list is full, or when enough says that no further row may be read. resume is the
// last row that was read; 0: no other is left, or has is nil and the list is full.
func (l *lister) read(way way, enough func() bool, has func(event int64) (bool, error)) (list []grapnel.Delivery, resume int64, err error) {
	streams, err := way()
	if err != nil {
		return nil, 0, err
	}
	ended := true
	err = merge(l.ctx, streams, func(seq int64) (bool, error) {
		if len(list) >= l.query.Limit || enough() {
			ended = false
			return false, nil
		}
		resume = seq
		d, err := fetch(l.r, l.packer, seq)
		if err != nil || d == nil || !l.takes(d) {
			return err == nil, err
		}
		found := true
		if has != nil {
			found, err = has(d.EventSeq)
		}
		if found {
			list = append(list, d.Delivery)
		}
		return err == nil && (has != nil || len(list) < l.query.Limit), err
	})
	if at := (gaveUp{}); errors.As(err, &at) {
		return list, at.at, nil
	}
	if ended {
		resume = 0
	}
	return list, resume, err
}

func newLister(ctx context.Context, s *database, r *sqlite3.Conn, scope store.Scope, q store.DeliveryQuery) *lister {
	return &lister{
		ctx: ctx, r: r, bounds: &s.bounds, packer: s.packer, query: q,
		events: eventFilter{scope, q.Events()},
	}
}

func (l *lister) takes(d *row) bool {
	return (l.query.Source == "" || l.query.Source == d.source) && l.query.Takes(&d.Delivery) &&
		l.events.Takes(l.events.scope, d.Tenant, d.Type, d.Key, d.accepted)
}

func (l *lister) column(query string, in window, values ...int64) *stream {
	return columnStream(l.r, l.bounds, query, in, func(q *sqlite3.Stmt) { q.Ints(values...) })
}

// deliveries is the range of the deliveries created when the events of a range were accepted.
func (l *lister) deliveries(events window) (window, error) {
	all := everything(l.query.Before)
	if events == everything(0) {
		return all, nil
	}
	first, err := rows.Integer(l.r.Query(firstDeliveryQuery).Int(events.from))
	if err != nil {
		return all, err
	}
	below, err := rows.Integer(l.r.Query(lastDeliveryQuery).Int(events.below))
	return all.and(window{first, below}), err
}

// madeBy turns a stream of events into a stream of the deliveries created by their acceptance.
func (l *lister) madeBy(events *stream, in window) *stream {
	return newStream(in.below, func(int64) (numbers []int64, err error) {
		for {
			event, err := events.peek()
			if at := (gaveUp{}); errors.As(err, &at) {
				first, err := rows.Integer(l.r.Query(firstDeliveryQuery).Int(at.at))
				if err != nil || first == 0 {
					first = in.below
				}
				return nil, cmp.Or[error](err, gaveUp{min(first, in.below)})
			}
			if err != nil || event == 0 {
				return nil, err
			}
			events.ready = events.ready[1:]
			made, err := createdBy(l.r, event)
			for n := min(made.below, in.below) - 1; n >= made.from; n-- {
				numbers = append(numbers, n)
			}
			if err != nil || len(numbers) > 0 {
				return numbers, err
			}
		}
	})
}

// createdBy is the range of the deliveries created by an event's acceptance.
func createdBy(r *sqlite3.Conn, event int64) (window, error) {
	return rows.First(r.Query(madeByQuery).Int(event), nil, func(q *sqlite3.Stmt) (window, error) {
		return window{q.Integer(0), q.Integer(0) + q.Integer(1)}, nil
	})
}

// originAbove is the row id of the first event for which a condition holds on the row ids of the
// deliveries that its acceptance made. These row ids rise with the events, so the condition holds
// for all later events too. An event without deliveries has the empty range where they would be.
func originAbove(r *sqlite3.Conn, events window, above func(made window) bool) (int64, error) {
	for events.from < events.below {
		middle := events.from + (events.below-events.from)/2
		q := r.Query(nextOriginQuery)
		found, err := q.Int(middle).Row()
		if err != nil {
			return 0, err
		}
		if !found || above(window{q.Integer(1), q.Integer(1) + q.Integer(2)}) {
			events.below = middle
		} else {
			events.from = q.Integer(0) + 1
		}
		q.Reset()
	}
	return events.from, nil
}
