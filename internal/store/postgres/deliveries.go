package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// The columns of pending and of finished deliveries, in one shape.
const (
	waitingShape = `d.seq, d.event, d.target, d.kind, d.position, d.created, d.replay_of, d.took, d.attempts, d.status_code, 'pending' AS status,
		d.class, d.code, d.reason, d.head, d.blocked, d.due, d.anchor, NULL::bigint AS finished, NULL::bytea AS body`
	overShape = `d.seq, d.event, d.target, d.kind, d.position, d.created, d.replay_of, d.took, d.attempts, d.status_code, d.status,
		d.class, d.code, d.reason, false AS head, false AS blocked, NULL::bigint AS due, NULL::bigint AS anchor, d.finished, d.body`
	showColumns = `d.seq, d.event, e.id, t.endpoint, k.tenant, k.type, e.key, d.position, d.created, d.replay_of, d.took, d.attempts,
		d.status_code, d.status, d.class, d.code, d.reason, d.head, d.blocked, coalesce(d.due, -4611686018427387904),
		coalesce(d.anchor, -4611686018427387904), coalesce(d.finished, -4611686018427387904), d.body,
		coalesce(m.note, ''), coalesce(m.discarded, -4611686018427387904), coalesce(m.discard_reason, ''),
		coalesce(m.replayed, -4611686018427387904), coalesce(m.replayed_by, ''), coalesce(m.replayed_as, 0), coalesce(m.replay_result, '')`
	// One event at a time, so that each is looked up in its own day only.
	showJoins = ` d CROSS JOIN LATERAL (SELECT id, key FROM event WHERE seq = d.event OFFSET 0) e JOIN kind k ON k.number = d.kind JOIN target t ON t.number = d.target
		LEFT JOIN mark m ON m.delivery = d.seq`

	deliveriesQuery = "SELECT " + showColumns + " FROM (SELECT " + waitingShape + " FROM pending d WHERE seq = ANY($1) UNION ALL SELECT " +
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
	return []any{&d.Seq, &d.EventSeq, &d.EventID, &d.EndpointID, &d.Tenant, &d.Type, &d.Key, &d.Position, &r.created, &d.ReplayOf,
		&d.Last.Duration,
		&d.AttemptsMade, &d.Last.StatusCode, &d.Status, &d.Last.Class, &d.ReasonCode, &d.Reason, &d.Waiting.Head, &d.Waiting.Blocked, &r.due,
		&r.anchor, &r.finished, &r.body, &d.Mark.Note, &r.discarded, &d.Mark.DiscardReason, &r.replayed, &d.Mark.ReplayedBy, &d.Mark.ReplayedAs,
		&d.Mark.ReplayResult}
}

// readDeliveries calls take with each row; body contains the attempt that finished it.
func readDeliveries(rows asked, take func(d grapnel.Delivery, body []byte)) error {
	var r shownRow
	return rows.each(r.into(), func() {
		d := r.Delivery
		d.CreatedAt, d.FinishedAt = codec.Moment(r.created), decide.Moment(r.finished)
		d.Waiting.Due, d.Waiting.Anchor = decide.Moment(r.due), decide.Moment(r.anchor)
		d.NextAttemptAt = d.Waiting.Due
		d.Mark.DiscardedAt, d.Mark.ReplayedAt = decide.Moment(r.discarded), decide.Moment(r.replayed)
		take(d, r.body)
	})
}

// Delivery returns attempts in the order in which they were recorded.
func (s *Store) Delivery(ctx context.Context, scope store.Scope, seq int64) (*grapnel.Delivery, error) {
	var found *grapnel.Delivery
	err := s.snapshot(ctx, s.reading, func(ctx context.Context, tx pgx.Tx) error {
		var last []byte
		one := ask(ctx, tx, deliveriesQuery, []int64{seq})
		err := readDeliveries(one, func(d grapnel.Delivery, body []byte) { found, last = &d, body })
		if err != nil || found == nil || !scope.Allows(found.Tenant) {
			found = nil
			return err
		}
		var body []byte
		add := func() error {
			a, err := codec.DecodeAttempt(body)
			found.Attempts = append(found.Attempts, a)
			return err
		}
		if err = ask(ctx, tx, attemptsQuery, seq).try([]any{&body}, add); err == nil && last != nil {
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

const (
	eventByIDQuery = "SELECT " + eventColumns + ", e.first, e.last, e.intake FROM event e JOIN kind k ON k.number = e.kind" +
		" WHERE e.id = $1 AND ($2 = '' OR k.tenant = $2) LIMIT 2"
	// newestAgain sorts: the primary key's order would read the redeliveries of all events.
	newestAgain  = "(SELECT delivery FROM redelivery WHERE event = $1 ORDER BY delivery + 0 DESC LIMIT $4) r"
	ofEventQuery = "SELECT " + showColumns + " FROM (SELECT " + waitingShape + ` FROM pending d WHERE event = $1 AND seq BETWEEN $2 AND $3
		UNION ALL SELECT ` + waitingShape + ` FROM ` + newestAgain + ` JOIN pending d ON d.seq = r.delivery
		UNION ALL SELECT ` + overShape + ` FROM finished d WHERE event = $1 AND seq BETWEEN $2 AND $3
		UNION ALL SELECT ` + overShape + ` FROM ` + newestAgain + ` JOIN finished d ON d.seq = r.delivery)` + showJoins + " ORDER BY d.seq"
)

// Event treats an empty tenant as any tenant that the scope allows.
func (s *Store) Event(ctx context.Context, scope store.Scope, tenant, id string) (e *grapnel.Event, ds []grapnel.Delivery, err error) {
	tenant, some := scope.Narrow(tenant)
	if !some {
		return nil, nil, store.ErrNotFound("event")
	}
	err = s.snapshot(ctx, s.reading, func(ctx context.Context, tx pgx.Tx) error {
		var r eventRow
		var first, last int64
		var intake []byte
		found := 0
		err := ask(ctx, tx, eventByIDQuery, id, tenant).each(append(r.into(), &first, &last, &intake), func() { found++ })
		switch {
		case err != nil:
			return err
		case found == 0:
			return store.ErrNotFound("event")
		case found > 1:
			return store.ErrSeveral
		}
		if e = s.thaw(&r); e == nil {
			return codec.ErrMangled
		}
		if intake != nil {
			if e.Intake, err = codec.DecodeIntake(intake, e.ID); err != nil {
				return err
			}
		}
		rows := ask(ctx, tx, ofEventQuery, e.Seq, first, last, store.MostRedeliveries)
		return readDeliveries(rows, func(d grapnel.Delivery, _ []byte) { ds = append(ds, d) })
	})
	if err != nil {
		return nil, nil, err
	}
	return e, ds, nil
}
