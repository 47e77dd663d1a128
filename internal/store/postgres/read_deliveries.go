package postgres

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// The columns of pending and of finished deliveries, in one shape.
const (
	waitingShape = `d.seq, d.event, d.target, d.kind, d.position, d.created, d.replay_of, d.took, d.attempts, d.status_code, 'pending' AS status,
		d.class, d.code, d.reason, d.head, d.blocked, d.due, d.anchor, NULL::bigint AS finished, NULL::bytea AS body`
	overShape = `d.seq, d.event, d.target, d.kind, d.position, d.created, d.replay_of, d.took, d.attempts, d.status_code, d.status,
		d.class, d.code, d.reason, false AS head, false AS blocked, NULL::bigint AS due, NULL::bigint AS anchor, d.finished, d.body`
	showColumns = `d.seq, d.event, t.endpoint, k.tenant, k.type, d.position, d.created, d.replay_of, d.took, d.attempts,
		d.status_code, d.status, d.class, d.code, d.reason, d.head, d.blocked, coalesce(d.due, -4611686018427387904),
		coalesce(d.anchor, -4611686018427387904), coalesce(d.finished, -4611686018427387904), d.body,
		coalesce(m.note, ''), coalesce(m.discarded, -4611686018427387904), coalesce(m.discard_reason, ''),
		coalesce(m.replayed, -4611686018427387904), coalesce(m.replayed_by, ''), coalesce(m.replayed_as, 0), coalesce(m.replay_result, '')`
	// Names are looked up row by row, so that the order stays: a hash of all of them would lose it.
	showJoins = ` d CROSS JOIN LATERAL (SELECT tenant, type FROM kind WHERE number = d.kind OFFSET 0) k
		CROSS JOIN LATERAL (SELECT endpoint FROM target WHERE number = d.target OFFSET 0) t LEFT JOIN mark m ON m.delivery = d.seq`
	// shownEvents is a statement of its own: a join would plan and lock the events of all days.
	shownEvents = "SELECT seq, id, key, packed FROM event WHERE seq = ANY($1)"

	// deliveriesQuery names event, whose rows are read next in the same transaction: the lock of the
	// name keeps a clearing of a day (exclusively) out of both. It reads none of its tables.
	deliveriesQuery = "SELECT " + showColumns + " FROM (SELECT " + waitingShape +
		" FROM pending d WHERE seq = ANY($1) AND NOT EXISTS (SELECT FROM ONLY event) UNION ALL SELECT " +
		overShape + " FROM finished d WHERE seq = ANY($1))" + showJoins + " ORDER BY d.seq"
	attemptsQuery = "SELECT body FROM attempt WHERE delivery = $1 ORDER BY number"
)

// shownRow is a delivery as the database returns it.
type shownRow struct {
	grapnel.Delivery
	created, due, anchor, finished, discarded, replayed int64
	body                                                []byte
}

func (r *shownRow) into() []any {
	d := &r.Delivery
	return []any{&d.Seq, &d.EventSeq, &d.EndpointID, &d.Tenant, &d.Type, &d.Position, &r.created, &d.ReplayOf,
		&d.Last.Duration,
		&d.AttemptsMade, &d.Last.StatusCode, &d.Status, &d.Last.Class, &d.ReasonCode, &d.Reason, &d.Waiting.Head, &d.Waiting.Blocked, &r.due,
		&r.anchor, &r.finished, &r.body, &d.Mark.Note, &r.discarded, &d.Mark.DiscardReason, &r.replayed, &d.Mark.ReplayedBy, &d.Mark.ReplayedAs,
		&d.Mark.ReplayResult}
}

// readDeliveries calls take with each row; body contains the attempt that finished it. It returns
// the row ids of all rows, in their order. A row whose event was deleted in between is not taken:
// it was deleted, too.
func (s *database) readDeliveries(ctx context.Context, db rows.Queries, got rows.Asked,
	take func(d grapnel.Delivery, body []byte)) (seqs []int64, err error) {
	type shown struct {
		grapnel.Delivery
		body []byte
	}
	var all []shown
	var r shownRow
	err = got.Each(r.into(), func() {
		d := r.Delivery
		d.CreatedAt, d.FinishedAt = codec.Moment(r.created), decide.Moment(r.finished)
		d.Waiting.Due, d.Waiting.Anchor = decide.Moment(r.due), decide.Moment(r.anchor)
		d.NextAttemptAt = d.Waiting.Due
		d.Mark.DiscardedAt, d.Mark.ReplayedAt = decide.Moment(r.discarded), decide.Moment(r.replayed)
		all = append(all, shown{d, r.body})
	})
	if err != nil {
		return nil, err
	}
	events := make(map[int64]*shownEvent, len(all))
	for i := range all {
		events[all[i].EventSeq] = nil
	}
	if err := readShown(ctx, db, events); err != nil {
		return nil, err
	}
	for i := range all {
		d := &all[i]
		seqs = append(seqs, d.Seq)
		if e := events[d.EventSeq]; e != nil {
			d.EventID, d.Key = e.id, e.key
			d.Reason = s.packer.OpenReason(ctx, d.Seq, d.Reason)
			take(d.Delivery, d.body)
		}
	}
	return seqs, nil
}

// shownEvent is what a delivery shows of its event.
type shownEvent struct {
	id, key string
	packed  int64
}

// readShown fills in the events with the row ids that are in the map; those deleted stay nil.
func readShown(ctx context.Context, db rows.Queries, events map[int64]*shownEvent) error {
	if len(events) == 0 {
		return nil
	}
	var seq int64
	var e shownEvent
	return rows.Ask(ctx, db, shownEvents, sortedKeys(events, cmp.Compare[int64])).Each([]any{&seq, &e.id, &e.key, &e.packed}, func() {
		found := e
		events[seq] = &found
	})
}

// Delivery returns attempts in the order in which they were recorded.
func (s *reader) Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error) {
	var found *grapnel.Delivery
	err := s.snapshot(ctx, s.reading, func(ctx context.Context, tx pgx.Tx) error {
		var last []byte
		one := rows.Ask(ctx, tx, deliveriesQuery, []int64{seq})
		_, err := s.readDeliveries(ctx, tx, one, func(d grapnel.Delivery, body []byte) { found, last = &d, body })
		if err != nil || found == nil || !scope.Allows(found.Tenant) {
			found = nil
			return err
		}
		var body []byte
		add := func() error {
			a, err := s.packer.DecodeAttempt(ctx, seq, body)
			found.Attempts = append(found.Attempts, a)
			return err
		}
		if err = rows.Ask(ctx, tx, attemptsQuery, seq).Try([]any{&body}, add); err == nil && last != nil {
			body = last
			err = add()
		}
		return err
	})
	if err == nil && found == nil {
		err = store.ErrNotFound("delivery")
	}
	return found, err
}

// The ranges and row ids are arguments, so that the planner leaves out the other days. For an empty
// array it leaves out none, so each array has a row id that is in the range as well.
const (
	// eventByIDQuery looks into the days that can have the id (calendar.span).
	eventByIDQuery = "SELECT " + eventColumns + ", e.first, e.last, e.intake FROM event e JOIN kind k ON k.number = e.kind WHERE e.id = $1" +
		" AND ($2 = '' OR k.tenant = $2) AND (e.seq >= $3 AND e.seq < $4 OR e.seq = ANY($5)) LIMIT 2"
	namesQuery   = "SELECT seq FROM event_name WHERE id = $1 AND ($2 = '' OR tenant = $2)"
	againsQuery  = "SELECT delivery FROM redelivery WHERE event = $1 ORDER BY delivery + 0 DESC LIMIT $2"
	ofEventQuery = "SELECT " + showColumns + " FROM (SELECT " + waitingShape + ` FROM pending d WHERE event = $1
			AND (seq BETWEEN $2 AND $3 OR seq = ANY($4))
		UNION ALL SELECT ` + overShape + ` FROM finished d WHERE event = $1 AND (seq BETWEEN $2 AND $3 OR seq = ANY($4)))` + showJoins +
		" ORDER BY d.seq"
)

// Event treats an empty tenant as any tenant that the scope allows.
func (s *reader) Event(ctx context.Context, scope store.Scope, tenant, id string) (e *grapnel.Event, ds []grapnel.Delivery, err error) {
	tenant, some := scope.Narrow(tenant)
	if !some {
		return nil, nil, store.ErrNotFound("event")
	}
	err = s.snapshot(ctx, s.reading, func(ctx context.Context, tx pgx.Tx) error {
		var r eventRow
		var first, last int64
		var intake []byte
		names, err := rows.FirstColumn[int64](rows.Ask(ctx, tx, namesQuery, id, tenant))
		if err != nil {
			return err
		}
		from, to := s.days.known.Load().span(id)
		found := 0
		byID := rows.Ask(ctx, tx, eventByIDQuery, id, tenant, from, to, append(names, from))
		err = byID.Each(append(r.into(), &first, &last, &intake), func() { found++ })
		switch {
		case err != nil:
			return err
		case found == 0:
			return store.ErrNotFound("event")
		case found > 1:
			return store.ErrSeveral
		}
		if e = s.thaw(ctx, &r); e.Damaged {
			return codec.Damaged(id)
		}
		if intake != nil {
			if e.Intake, err = s.packer.DecodeIntake(ctx, intake, e.Tenant, e.ID); err != nil {
				return err
			}
		}
		again, err := rows.FirstColumn[int64](rows.Ask(ctx, tx, againsQuery, e.Seq, store.MostRedeliveries))
		if err != nil {
			return err
		}
		rows := rows.Ask(ctx, tx, ofEventQuery, e.Seq, first, last, append(again, first))
		_, err = s.readDeliveries(ctx, tx, rows, func(d grapnel.Delivery, _ []byte) { ds = append(ds, d) })
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return e, ds, nil
}
