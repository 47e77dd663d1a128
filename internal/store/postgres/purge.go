package postgres

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

const (
	markNote    = "INSERT INTO mark (delivery, note) VALUES ($1, $2) ON CONFLICT (delivery) DO UPDATE SET note = excluded.note"
	markDiscard = `INSERT INTO mark (delivery, discarded, discard_reason) VALUES ($1, $2, $3)
		ON CONFLICT (delivery) DO UPDATE SET discarded = excluded.discarded, discard_reason = excluded.discard_reason`
)

// Annotate changes the mark and nothing else.
func (s *Store) Annotate(ctx context.Context, scope store.Scope, a store.Annotation) error {
	found, err := s.origins(ctx, []int64{a.Delivery})
	if err != nil {
		return err
	}
	of, there := found[a.Delivery]
	if !there || !scope.Allows(of.tenant) {
		return store.ErrNotFound("delivery")
	}
	return s.write(ctx, &change{
		needs: func(n *needs) { n.refers, n.deliveries = true, append(n.deliveries, a.Delivery) },
		do: func(t *tx) error {
			is := t.over[a.Delivery]
			switch {
			case !t.there(of):
				return store.ErrNotFound("delivery")
			case t.seals(of.tenant):
				return store.ErrSealed
			case is == nil:
				return grapnel.Errorf(grapnel.CodeConflict, "the delivery is not over")
			case a.Discard != "" && is.status != grapnel.Failed:
				return grapnel.Errorf(grapnel.CodeConflict, "the delivery is not a dead letter")
			}
			if a.Note != nil {
				t.then(markNote, a.Delivery, *a.Note)
			}
			if a.Discard != "" {
				t.then(markDiscard, a.Delivery, codec.Micros(a.At), a.Discard)
			}
			t.note(a.Audit)
			return nil
		},
	})
}

// purgedAtOnce is how many events one transaction looks at: others that refer to what is over wait for it.
const purgedAtOnce = 500

// slack is how far a clock may have been set back without delaying what is removed.
const slack = int64(time.Hour / time.Microsecond)

const (
	allKindsQuery  = "SELECT number, tenant, type FROM kind WHERE " + unsealed
	oldEventsQuery = "SELECT seq, kind, accepted, first, last, made FROM event WHERE seq > $1 ORDER BY seq LIMIT $2"
	// partsQuery looks for the deliveries of each event by itself, and so in its own day.
	partsQuery = `SELECT u.event, p.seq, NULL::bigint, 0, '', '' FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) u(event, first, last)
			CROSS JOIN LATERAL (SELECT seq FROM pending WHERE event = u.event AND seq = ANY(ARRAY(SELECT generate_series(u.first, u.last))) OFFSET 0) p
		UNION ALL SELECT r.event, p.seq, NULL, 0, '', '' FROM redelivery r JOIN pending p ON p.seq = r.delivery WHERE r.event = ANY($1)
		UNION ALL SELECT u.event, f.seq, f.finished, f.target, f.status, (SELECT tenant FROM kind WHERE number = f.kind)
			FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) u(event, first, last) CROSS JOIN LATERAL (SELECT * FROM finished
				WHERE event = u.event AND seq BETWEEN u.first AND u.last AND seq = ANY(ARRAY(SELECT generate_series(u.first, u.last))) OFFSET 0) f
		UNION ALL SELECT r.event, f.seq, f.finished, f.target, f.status, (SELECT tenant FROM kind WHERE number = f.kind)
			FROM redelivery r CROSS JOIN LATERAL (SELECT * FROM finished WHERE seq = r.delivery OFFSET 0) f WHERE r.event = ANY($1)
		ORDER BY 1, 2`
)

const countPurged = "UPDATE ledger SET purged = purged + $1, newest = greatest(newest, $2)"

// oldEvent is an event that may be removed.
type oldEvent struct {
	seq, first, last int64
	made             int
	before           int64 // what has been over for so long is removed
}

// part is a delivery of such an event.
type part struct {
	event, seq int64
	finished   *int64 // nil: it is not over
	target     int32
	status     grapnel.Status
	tenant     string
}

// Purge goes through the events in the order of their numbers, which is about that of their acceptance, until they are young.
func (s *Store) Purge(ctx context.Context, keep store.Keep, limit int) (removed int, err error) {
	if err := s.merge(ctx, keep.Now); err != nil {
		return 0, err
	}
	if keep.Slack > 0 {
		if removed, err = s.clearDays(ctx, &keep); err != nil || removed >= limit {
			return removed, err
		}
	}
	before, latest, err := cutoffs(ctx, s.pool, &keep, keep.Late)
	if err != nil {
		return removed, readError(ctx, err)
	}
	for last := int64(-1); removed < limit; {
		var old []oldEvent
		rows, err := s.pool.Query(ctx, oldEventsQuery, last, purgedAtOnce)
		if err != nil {
			return removed, readError(ctx, err)
		}
		var e oldEvent
		var kind int32
		var accepted int64
		looked, young := 0, true
		_, err = pgx.ForEachRow(rows, []any{&e.seq, &kind, &accepted, &e.first, &e.last, &e.made}, func() error {
			looked, last = looked+1, e.seq
			young = young && accepted >= latest+slack
			if cut, known := before[kind]; known && accepted < cut {
				e.before = cut
				old = append(old, e)
			}
			return nil
		})
		if err != nil {
			return removed, readError(ctx, err)
		}
		n, err := s.removeOld(ctx, old, limit-removed)
		removed += n
		if err != nil || looked < purgedAtOnce || young {
			return removed, err
		}
	}
	return removed, nil
}

// cutoffs say before when events of each kind must have been accepted, and deliveries been over; and the latest of these. late is how much longer
// what is kept for so long stays.
func cutoffs(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}, keep *store.Keep, late func(kept time.Duration) time.Duration) (before map[int32]int64, latest int64, err error) {
	rows, err := db.Query(ctx, allKindsQuery)
	if err != nil {
		return nil, 0, err
	}
	before, latest = make(map[int32]int64), math.MinInt64/2
	var number int32
	var k kind
	_, err = pgx.ForEachRow(rows, []any{&number, &k.tenant, &k.eventType}, func() error {
		kept := keep.Of(k.tenant, k.eventType)
		before[number] = codec.Micros(keep.Now.Add(-kept - late(kept)))
		latest = max(latest, before[number])
		return nil
	})
	return before, latest, err
}

// onTime is who is not late.
func onTime(time.Duration) time.Duration { return 0 }

// removal is what is removed in one transaction.
type removal struct {
	events, deliveries []int64
	tallies            map[tallyOf]*tally
	counted            int // as Purge counts
}

// removeOld removes what is to be removed of some events, at most limit deliveries.
func (s *Store) removeOld(ctx context.Context, old []oldEvent, limit int) (removed int, err error) {
	if len(old) == 0 {
		return 0, nil
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		b := new(pgx.Batch)
		b.Queue(beginShared, lockClass, lockConfiguration)
		b.Queue(aloneLock, lockClass, lockRemoval)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if old, err = passSealed(ctx, tx, old); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, partsQuery, column(old, func(e oldEvent) int64 { return e.seq }),
			column(old, func(e oldEvent) int64 { return e.first }), column(old, func(e oldEvent) int64 { return e.last }))
		if err != nil {
			return err
		}
		parts := make(map[int64][]part)
		var p part
		if _, err := pgx.ForEachRow(rows, []any{&p.event, &p.seq, &p.finished, &p.target, &p.status, &p.tenant}, func() error {
			parts[p.event] = append(parts[p.event], p)
			return nil
		}); err != nil {
			return err
		}
		r := decideRemoval(old, parts, limit)
		removed = r.counted
		if len(r.events) == 0 && len(r.deliveries) == 0 {
			return nil
		}
		return tx.SendBatch(ctx, r.batch()).Close()
	})
	return removed, asError(err)
}

func decideRemoval(old []oldEvent, parts map[int64][]part, limit int) *removal {
	r := &removal{tallies: make(map[tallyOf]*tally)}
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
			of := tallyOf{p.target, p.tenant}
			if r.tallies[of] == nil {
				r.tallies[of] = new(tally)
			}
			*r.tallies[of].of(p.status)--
			r.deliveries = append(r.deliveries, p.seq)
			r.counted++
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

func (r *removal) batch() *pgx.Batch {
	b := new(pgx.Batch)
	if len(r.events) > 0 {
		b.Queue("DELETE FROM event WHERE seq = ANY($1)", r.events)
	}
	if len(r.deliveries) > 0 {
		b.Queue(marksLock, r.deliveries)
		for _, drop := range []string{"DELETE FROM mark WHERE delivery = ANY($1)", "DELETE FROM finished WHERE seq = ANY($1)",
			"DELETE FROM attempt WHERE delivery = ANY($1)", "DELETE FROM redelivery WHERE delivery = ANY($1)"} {
			b.Queue(drop, r.deliveries)
		}
		t := &tx{tallies: r.tallies}
		t.flushTallies(b)
		b.Queue(countPurged, len(r.deliveries), slices.Max(r.deliveries))
	}
	return b
}
