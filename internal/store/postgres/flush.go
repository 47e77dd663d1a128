package postgres

import (
	"cmp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/policy"
)

// The written rows, one statement per table. Rows that transactions without a common lane may both
// write are sorted, so that their locks have one order.
const (
	addEvents = `INSERT INTO event (seq, id, kind, key, accepted, occurred, first, last, made, content_type, packed, sum, metadata, data, intake,
			tenant)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::int[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::int[],
			$10::text[], $11::smallint[], $12::bigint[], $13::bytea[], $14::bytea[], $15::bytea[], $16::text[])`
	addPending = `INSERT INTO pending (seq, target, event, kind, lane, position, created, replay_of, due, anchor, head, trigger,
			wide, took, attempts, status_code, blocked, class, code, reason)
		SELECT u.seq, u.target, u.event, u.kind, u.lane, u.position, u.created, u.replay_of, nullif(u.due, -4611686018427387904),
			nullif(u.anchor, -4611686018427387904), u.head, u.trigger, NULL, 0, 0, 0, false, '', '', ''
		FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
			$10::bigint[], $11::bool[], $12::text[])
			u(seq, target, event, kind, lane, position, created, replay_of, due, anchor, head, trigger)`
	changePending = `UPDATE pending p SET due = nullif(u.due, -4611686018427387904), anchor = nullif(u.anchor, -4611686018427387904),
			wide = nullif(u.wide, -4611686018427387904), attempts = u.attempts, head = u.head, blocked = u.blocked, trigger = u.trigger,
			code = u.code, reason = u.reason, status_code = u.status_code, class = u.class, took = u.took
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::bool[], $7::bool[], $8::text[], $9::text[],
			$10::text[], $11::int[], $12::text[], $13::bigint[])
			u(seq, due, anchor, wide, attempts, head, blocked, trigger, code, reason, status_code, class, took)
		WHERE p.seq = u.seq`
	dropPending = "DELETE FROM pending WHERE seq = ANY($1)"
	addFinished = `INSERT INTO finished (seq, target, event, kind, lane, position, created, finished, replay_of, took, attempts, status_code,
			status, class, code, reason, body)
		SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
			$9::bigint[], $10::bigint[], $11::int[], $12::int[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bytea[])`
	addAttempts     = "INSERT INTO attempt (delivery, number, body) SELECT * FROM unnest($1::bigint[], $2::int[], $3::bytea[])"
	addRedeliveries = "INSERT INTO redelivery (delivery, event) SELECT * FROM unnest($1::bigint[], $2::bigint[])"
	setLanes        = "UPDATE lane l SET last = u.last FROM unnest($1::bigint[], $2::bigint[]) u(number, last) WHERE l.number = u.number"
	setStandings    = `INSERT INTO standing AS s (endpoint, number, body) SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])
		ON CONFLICT (endpoint) DO UPDATE SET number = excluded.number, body = excluded.body WHERE s.number < excluded.number`
	addAudit = `INSERT INTO audit (at, tenant, actor, verb, endpoint, delivery, reason)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) ON CONFLICT DO NOTHING`
	bumpVersion = "UPDATE configuration SET version = version + 1"
)

// column returns one field of many rows.
func column[R, V any](rows []R, field func(R) V) []V {
	values := make([]V, len(rows))
	for i, r := range rows {
		values[i] = field(r)
	}
	return values
}

func numberOf(p *place) int64 { return p.seq }

func laneOfPlace(p *place) int64 {
	if p.lane == nil {
		return 0
	}
	return p.lane.number
}

// flush queues everything that the transaction writes.
func (t *tx) flush(b *pgx.Batch) {
	for _, queue := range t.first {
		queue(b)
	}
	t.flushEvents(b)
	t.flushLanes(b)
	t.flushPending(b)
	t.flushFinished(b)
	if len(t.attempts) > 0 {
		b.Queue(addAttempts, column(t.attempts, func(a attempt) int64 { return a.delivery }),
			column(t.attempts, func(a attempt) int32 { return a.number }), column(t.attempts, func(a attempt) []byte { return a.body }))
	}
	if len(t.redeliveries) > 0 {
		b.Queue(addRedeliveries, column(t.redeliveries, func(r redelivery) int64 { return r.delivery }),
			column(t.redeliveries, func(r redelivery) int64 { return r.event }))
	}
	for _, queue := range t.also {
		queue(b)
	}
	t.flushRepeated(b)
	if len(t.standings) > 0 {
		endpoints := sortedKeys(t.standings, strings.Compare)
		b.Queue(setStandings, endpoints, column(endpoints, func(e string) int64 { return t.standings[e].number }),
			column(endpoints, func(e string) []byte { return t.standings[e].body }))
	}
	t.flushAudit(b)
	t.flushTallies(b)
	t.flushTotals(b)
	t.flushAnswers(b)
	if t.bumped {
		b.Queue(bumpVersion)
	}
}

func (t *tx) flushEvents(b *pgx.Batch) {
	if len(t.newEvents) > 0 {
		rows := t.newEvents
		slices.SortFunc(rows, func(x, y *incoming) int { return byName(eventName{x.ID, x.Tenant}, eventName{y.ID, y.Tenant}) })
		b.Queue(addEvents, column(rows, func(e *incoming) int64 { return e.Seq }), column(rows, func(e *incoming) string { return e.ID }),
			column(rows, func(e *incoming) int32 { return e.kind }), column(rows, func(e *incoming) string { return e.Key }),
			column(rows, func(e *incoming) int64 { return codec.Micros(e.AcceptedAt) }),
			column(rows, func(e *incoming) int64 { return codec.Micros(e.OccurredAt) }),
			column(rows, func(e *incoming) int64 { return e.first }), column(rows, func(e *incoming) int64 { return e.last }),
			column(rows, func(e *incoming) int32 { return int32(len(e.targets)) }),
			column(rows, func(e *incoming) string { return e.ContentType }),
			column(rows, func(e *incoming) int16 { return int16(e.frozen.Packed) }),
			column(rows, func(e *incoming) int64 { return e.frozen.Sum }), column(rows, func(e *incoming) []byte { return e.frozen.Metadata }),
			column(rows, func(e *incoming) []byte { return e.frozen.Data }), column(rows, func(e *incoming) []byte { return e.frozen.Intake }),
			column(rows, func(e *incoming) string { return e.Tenant }))
	}
	t.flushKnown(b)
}

// flushLanes returns unused positions: their event already existed.
func (t *tx) flushLanes(b *pgx.Batch) {
	var numbers, given []int64
	for _, l := range t.lanes {
		if l.drawn != l.given && l.drawn != 0 {
			numbers, given = append(numbers, l.number), append(given, l.given)
		}
	}
	if len(numbers) > 0 {
		b.Queue(setLanes, numbers, given)
	}
}

func (t *tx) flushPending(b *pgx.Batch) {
	fresh := slices.DeleteFunc(t.fresh, func(p *place) bool { return t.places[p.seq] != p })
	if len(fresh) > 0 {
		b.Queue(addPending, column(fresh, numberOf), column(fresh, func(p *place) int32 { return p.target }),
			column(fresh, func(p *place) int64 { return p.event }), column(fresh, func(p *place) int32 { return p.kind }),
			column(fresh, laneOfPlace), column(fresh, func(p *place) int64 { return p.position }),
			column(fresh, func(p *place) int64 { return p.created }), column(fresh, func(p *place) int64 { return p.replayOf }),
			column(fresh, func(p *place) int64 { return p.due }), column(fresh, func(p *place) int64 { return p.anchor }),
			column(fresh, func(p *place) bool { return p.head }), texts(fresh, func(p *place) grapnel.Trigger { return p.trigger }))
	}
	var changed []*place
	for _, p := range t.places {
		if p.dirty && !p.fresh {
			changed = append(changed, p)
		}
	}
	if len(changed) > 0 {
		slices.SortFunc(changed, func(x, y *place) int { return cmp.Compare(x.seq, y.seq) })
		b.Queue(changePending, column(changed, numberOf), column(changed, func(p *place) int64 { return p.due }),
			column(changed, func(p *place) int64 { return p.anchor }), column(changed, func(p *place) int64 { return p.wide }),
			column(changed, func(p *place) int32 { return p.attempts }), column(changed, func(p *place) bool { return p.head }),
			column(changed, func(p *place) bool { return p.blocked }), texts(changed, func(p *place) grapnel.Trigger { return p.trigger }),
			texts(changed, func(p *place) grapnel.ReasonCode { return p.code }), texts(changed, func(p *place) string { return p.reason }),
			column(changed, func(p *place) int32 { return p.last.statusCode }), texts(changed, func(p *place) policy.Class { return p.last.class }),
			column(changed, func(p *place) int64 { return p.last.took }))
	}
	if gone := slices.DeleteFunc(column(t.gone, numberOf), t.needs.took); len(gone) > 0 {
		b.Queue(dropPending, gone)
	}
	t.flushLeases(b)
}

func (t *tx) flushFinished(b *pgx.Batch) {
	rows := t.finished
	if len(rows) == 0 {
		return
	}
	b.Queue(addFinished, column(rows, func(f finished) int64 { return f.seq }), column(rows, func(f finished) int32 { return f.target }),
		column(rows, func(f finished) int64 { return f.event }), column(rows, func(f finished) int32 { return f.kind }),
		column(rows, func(f finished) int64 { return laneOfPlace(f.place) }), column(rows, func(f finished) int64 { return f.position }),
		column(rows, func(f finished) int64 { return f.created }), column(rows, func(f finished) int64 { return f.at }),
		column(rows, func(f finished) int64 { return f.replayOf }), column(rows, func(f finished) int64 { return f.place.last.took }),
		column(rows, func(f finished) int32 { return f.place.attempts }), column(rows, func(f finished) int32 { return f.place.last.statusCode }),
		texts(rows, func(f finished) grapnel.Status { return f.status }),
		texts(rows, func(f finished) policy.Class { return f.place.last.class }),
		texts(rows, func(f finished) grapnel.ReasonCode { return f.code }), texts(rows, func(f finished) string { return f.reason }),
		column(rows, func(f finished) []byte { return f.body }))
}

func (t *tx) flushAudit(b *pgx.Batch) {
	if len(t.audit) == 0 {
		return
	}
	// Entries keep their order, and so their row ids. Two calls that write the same entries write them
	// in the same order.
	of := func(field func(*grapnel.AuditEntry) string) []string { return texts(t.audit, field) }
	b.Queue(addAudit, column(t.audit, func(e *grapnel.AuditEntry) int64 { return codec.Micros(e.At) }),
		of(func(e *grapnel.AuditEntry) string { return e.Tenant }), of(func(e *grapnel.AuditEntry) string { return e.Actor }),
		of(func(e *grapnel.AuditEntry) string { return string(e.Verb) }), of(func(e *grapnel.AuditEntry) string { return e.Endpoint }),
		of(func(e *grapnel.AuditEntry) string { return e.Delivery }), of(func(e *grapnel.AuditEntry) string { return e.Reason }))
}
