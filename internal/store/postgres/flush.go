package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// The written rows, one statement per table. Rows that transactions without a common lane may both
// write are sorted, so that their locks have one order.
const (
	dropPending  = "DELETE FROM pending WHERE seq = ANY($1)"
	setLanes     = "UPDATE lane l SET last = u.last FROM unnest($1::bigint[], $2::bigint[]) u(number, last) WHERE l.number = u.number"
	setStandings = `INSERT INTO standing AS s (endpoint, number, body) SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[])
		ON CONFLICT (endpoint) DO UPDATE SET number = excluded.number, body = excluded.body WHERE s.number < excluded.number`
	bumpVersion = "UPDATE configuration SET version = version + 1"
)

// The columns of other tables.
var (
	eventFields = fields[*incoming]{
		value("seq", "bigint", func(e *incoming) int64 { return e.Seq }),
		value("id", "text", func(e *incoming) string { return e.ID }),
		value("tenant", "text", func(e *incoming) string { return e.Tenant }),
		value("kind", "integer", func(e *incoming) int32 { return e.kind }),
		value("key", "text", func(e *incoming) string { return e.Key }),
		value("accepted", "bigint", func(e *incoming) int64 { return codec.Micros(e.AcceptedAt) }),
		value("occurred", "bigint", func(e *incoming) int64 { return codec.Micros(e.OccurredAt) }),
		value("first", "bigint", func(e *incoming) int64 { return e.first }),
		value("last", "bigint", func(e *incoming) int64 { return e.last }),
		value("made", "integer", func(e *incoming) int32 { return int32(len(e.targets)) }),
		value("content_type", "text", func(e *incoming) string { return e.ContentType }),
		value("packed", "smallint", func(e *incoming) int16 { return int16(e.frozen.Packed) }),
		value("sum", "bigint", func(e *incoming) int64 { return e.frozen.Sum }),
		value("metadata", "bytea", func(e *incoming) []byte { return e.frozen.Metadata }),
		value("data", "bytea", func(e *incoming) []byte { return e.frozen.Data }),
		value("intake", "bytea", func(e *incoming) []byte { return e.frozen.Intake }),
	}
	attemptFields = fields[attempt]{
		value("delivery", "bigint", func(a attempt) int64 { return a.delivery }),
		value("number", "integer", func(a attempt) int32 { return a.number }),
		value("body", "bytea", func(a attempt) []byte { return a.body }),
	}
	redeliveryFields = fields[redelivery]{
		value("delivery", "bigint", func(r redelivery) int64 { return r.delivery }),
		value("event", "bigint", func(r redelivery) int64 { return r.event }),
	}
	auditFields = fields[*grapnel.AuditEntry]{
		value("at", "bigint", func(e *grapnel.AuditEntry) int64 { return codec.Micros(e.At) }),
		readable("tenant", func(e *grapnel.AuditEntry) string { return e.Tenant }),
		readable("actor", func(e *grapnel.AuditEntry) string { return e.Actor }),
		readable("verb", func(e *grapnel.AuditEntry) grapnel.Verb { return e.Verb }),
		readable("endpoint", func(e *grapnel.AuditEntry) string { return e.Endpoint }),
		readable("delivery", func(e *grapnel.AuditEntry) string { return e.Delivery }),
		readable("reason", func(e *grapnel.AuditEntry) string { return e.Reason }),
	}

	addEvents       = eventFields.insert("event", "")
	addAttempts     = attemptFields.insert("attempt", "")
	addRedeliveries = redeliveryFields.insert("redelivery", "")
	addAudit        = auditFields.insert("audit", " ON CONFLICT DO NOTHING")
)

// flushLanes returns unused positions: their event already existed.
func flushLanes(t *tx, b *pgx.Batch) {
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

func flushPending(t *tx, b *pgx.Batch) {
	addPending.queue(b, slices.DeleteFunc(t.fresh, func(p *place) bool { return t.places[p.Seq] != p }))
	var changed []*place
	for _, p := range t.places {
		if p.dirty && !p.fresh {
			changed = append(changed, p)
		}
	}
	slices.SortFunc(changed, func(x, y *place) int { return cmp.Compare(x.Seq, y.Seq) })
	changePending.queue(b, changed)
	if gone := slices.DeleteFunc(column(t.gone, numberOf), t.needs.took); len(gone) > 0 {
		b.Queue(dropPending, gone)
	}
	if len(t.released) > 0 {
		b.Queue(dropLeases, t.released)
	}
	addLeases.queue(b, t.leased)
}
