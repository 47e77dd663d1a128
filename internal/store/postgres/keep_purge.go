package postgres

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// slack is how far a clock may have been set back without delaying a purge.
const slack = int64(time.Hour / time.Microsecond)

const (
	// oldEventsQuery looks up the kind of each event, so a page reads as many kinds as events,
	// however many kinds exist.
	oldEventsQuery = `SELECT e.seq, k.tenant, k.type, e.accepted, e.first, e.last, e.made
		FROM (SELECT * FROM event WHERE seq > $1 ORDER BY seq LIMIT $2) e
		CROSS JOIN LATERAL (SELECT tenant, type FROM kind WHERE number = e.kind OFFSET 0) k ORDER BY e.seq`
	// partsQuery looks up the deliveries of each event separately, and so in its own day.
	partsQuery = `SELECT u.event, p.seq, NULL::bigint, 0, '', '', 0 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) u(event, first, last)
			CROSS JOIN LATERAL (SELECT seq FROM pending WHERE event = u.event AND seq = ANY(ARRAY(SELECT generate_series(u.first, u.last))) OFFSET 0) p
		UNION ALL SELECT r.event, p.seq, NULL, 0, '', '', 0 FROM redelivery r JOIN pending p ON p.seq = r.delivery WHERE r.event = ANY($1)
		UNION ALL SELECT u.event, f.seq, f.finished, f.target, f.status, (SELECT tenant FROM kind WHERE number = f.kind), f.attempts
			FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) u(event, first, last) CROSS JOIN LATERAL (SELECT * FROM finished
				WHERE event = u.event AND seq BETWEEN u.first AND u.last AND seq = ANY(ARRAY(SELECT generate_series(u.first, u.last))) OFFSET 0) f
		UNION ALL SELECT r.event, f.seq, f.finished, f.target, f.status, (SELECT tenant FROM kind WHERE number = f.kind), f.attempts
			FROM redelivery r CROSS JOIN LATERAL (SELECT * FROM finished WHERE seq = r.delivery OFFSET 0) f WHERE r.event = ANY($1)
		ORDER BY 1, 2`
)

// oldEvent is an event whose retention has passed.
type oldEvent struct {
	seq, first, last int64
	made             int
	before           int64 // deliveries finished before this are deleted
}

// part is a delivery of an oldEvent.
type part struct {
	event, seq int64
	finished   *int64 // nil: it is pending
	target     int32
	status     grapnel.Status
	tenant     string
	attempts   int
}

// into is what a row of partsQuery is read into.
func (p *part) into() []any {
	return []any{&p.event, &p.seq, &p.finished, &p.target, &p.status, &p.tenant, &p.attempts}
}

// Purge reads the events by row id, which is about the order of their acceptance, until it reaches
// young ones. A call whose Keep is that of the last one goes on where that reached its limit.
// Otherwise each call would read all old events again that have to stay.
func (s *keeper) Purge(ctx context.Context, keep store.Keep, limit int) (removed int, err error) {
	if err := s.merge(ctx, keep.Now); err != nil {
		return 0, err
	}
	if keep.Slack > 0 {
		if removed, err = s.clearDays(ctx, &keep); err != nil || removed >= limit {
			return removed, err
		}
	}
	least := slices.Min(retentions(&keep)) // a longer one also lasts longer with its extra time
	now, latest := codec.Micros(keep.Now), codec.Micros(keep.Now.Add(-least-keep.Late(least)))
	s.round.mu.Lock()
	defer s.round.mu.Unlock()
	if !reflect.DeepEqual(s.round.keep, keep) {
		s.round.keep, s.round.last = keep, -1
	}
	for last := s.round.last; removed < limit; {
		var old []oldEvent
		var e oldEvent
		var tenant, eventType string
		var accepted int64
		looked, young := 0, true
		into := []any{&e.seq, &tenant, &eventType, &accepted, &e.first, &e.last, &e.made}
		err := rows.Ask(ctx, s.chores, oldEventsQuery, last, s.bounds.PurgePage).Each(into, func() {
			looked, last = looked+1, e.seq
			young = young && accepted >= latest+slack && accepted <= now // later ones are of a clock that was ahead
			kept := keep.Of(tenant, eventType)
			if e.before = codec.Micros(keep.Now.Add(-kept - keep.Late(kept))); accepted < e.before {
				old = append(old, e)
			}
		})
		if err != nil {
			return removed, readError(ctx, err)
		}
		n, err := s.removeOld(ctx, old, keep.Shortest(), limit-removed)
		removed += n
		switch {
		case err != nil, removed >= limit: // some of these events may be left
			return removed, err
		case looked < s.bounds.PurgePage || young:
			s.round.last = -1
			return removed, nil
		}
		s.round.last = last
	}
	return removed, nil
}

// removal is the set of rows deleted by one transaction.
type removal struct {
	events, deliveries []int64
	tallies            map[tallyOf]*tally
	highest            map[int32]int64 // row id of these deliveries, by target
	counted            int             // as Purge counts
	attempts           int             // of these deliveries
}

// removeOld deletes expired rows of some events, at most limit deliveries.
func (s *keeper) removeOld(ctx context.Context, old []oldEvent, long time.Duration, limit int) (removed int, err error) {
	r, err := s.removePage(ctx, old, long, limit)
	return r.counted, err
}

// removePage does so, and returns the rows that it has deleted.
func (s *keeper) removePage(ctx context.Context, old []oldEvent, long time.Duration, limit int) (r *removal, err error) {
	r = new(removal)
	if len(old) == 0 {
		return r, nil
	}
	err = s.inChore(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b := new(pgx.Batch)
		b.Queue(beginShared, lockClass, lockConfiguration)
		b.Queue(aloneLock, lockClass, lockRemoval)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		parts := make(map[int64][]part)
		var p part
		if err := rows.Ask(ctx, tx, partsQuery, rows.Column(old, func(e oldEvent) int64 { return e.seq }),
			rows.Column(old, func(e oldEvent) int64 { return e.first }), rows.Column(old, func(e oldEvent) int64 { return e.last })).
			Each(p.into(), func() {
				parts[p.event] = append(parts[p.event], p)
			}); err != nil {
			return err
		}
		r = decideRemoval(old, parts, limit)
		if len(r.events) == 0 && len(r.deliveries) == 0 {
			return nil
		}
		return tx.SendBatch(ctx, r.batch(long)).Close()
	})
	if err != nil {
		r = new(removal)
	}
	return r, err
}

func decideRemoval(old []oldEvent, parts map[int64][]part, limit int) *removal {
	r := &removal{tallies: make(map[tallyOf]*tally), highest: make(map[int32]int64)}
	for _, e := range old {
		if r.counted >= limit {
			break
		}
		left := 0
		for _, p := range parts[e.seq] {
			if p.finished == nil || *p.finished >= e.before || r.counted >= limit {
				left++
				continue
			}
			*store.Entry(r.tallies, tallyOf{p.target, p.tenant}).of(p.status)--
			r.highest[p.target] = max(r.highest[p.target], p.seq)
			r.deliveries = append(r.deliveries, p.seq)
			r.counted, r.attempts = r.counted+1, r.attempts+p.attempts
		}
		if e.made == 0 {
			r.counted++
		}
		if left == 0 {
			r.events = append(r.events, e.seq)
		}
	}
	return r
}

func (r *removal) batch(long time.Duration) *pgx.Batch {
	b := new(pgx.Batch)
	if len(r.events) > 0 {
		b.Queue("DELETE FROM event WHERE seq = ANY($1)", r.events)
		b.Queue(dropNames, r.events)
	}
	if len(r.deliveries) > 0 {
		b.Queue(forgetLanes, r.deliveries, long.Microseconds())
		b.Queue(marksLock, r.deliveries)
		for _, drop := range []string{"DELETE FROM mark WHERE delivery = ANY($1)", "DELETE FROM finished WHERE seq = ANY($1)",
			"DELETE FROM attempt WHERE delivery = ANY($1)", "DELETE FROM redelivery WHERE delivery = ANY($1)"} {
			b.Queue(drop, r.deliveries)
		}
		t := &tx{tallies: r.tallies}
		flushTallies(t, b)
		b.Queue(countPurged, len(r.deliveries), slices.Max(r.deliveries))
		notePurged(b, r.highest)
	}
	return b
}
