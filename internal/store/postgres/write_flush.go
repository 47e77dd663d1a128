package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
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
	eventFields = rows.Fields[*incoming]{
		rows.Value("seq", "bigint", func(e *incoming) int64 { return e.Seq }),
		rows.Value("id", "text", func(e *incoming) string { return e.ID }),
		rows.Value("tenant", "text", func(e *incoming) string { return e.Tenant }),
		rows.Value("kind", "integer", func(e *incoming) int32 { return e.kind }),
		rows.Value("key", "text", func(e *incoming) string { return e.Key }),
		rows.Value("accepted", "bigint", func(e *incoming) int64 { return codec.Micros(e.AcceptedAt) }),
		rows.Value("occurred", "bigint", func(e *incoming) int64 { return codec.Micros(e.OccurredAt) }),
		rows.Value("first", "bigint", func(e *incoming) int64 { return e.first }),
		rows.Value("last", "bigint", func(e *incoming) int64 { return e.last }),
		rows.Value("made", "integer", func(e *incoming) int32 { return int32(len(e.targets)) }),
		rows.Value("content_type", "text", func(e *incoming) string { return e.ContentType }),
		rows.Value("packed", "smallint", func(e *incoming) int16 { return int16(e.frozen.Packed) }),
		rows.Value("sum", "bigint", func(e *incoming) int64 { return e.frozen.Sum }),
		rows.Value("metadata", "bytea", func(e *incoming) []byte { return e.frozen.Metadata }),
		rows.Value("data", "bytea", func(e *incoming) []byte { return e.frozen.Data }),
		rows.Value("intake", "bytea", func(e *incoming) []byte { return e.frozen.Intake }),
	}
	attemptFields = rows.Fields[attempt]{
		rows.Value("delivery", "bigint", func(a attempt) int64 { return a.delivery }),
		rows.Value("number", "integer", func(a attempt) int32 { return a.number }),
		rows.Value("body", "bytea", func(a attempt) []byte { return a.body }),
	}
	redeliveryFields = rows.Fields[redelivery]{
		rows.Value("delivery", "bigint", func(r redelivery) int64 { return r.delivery }),
		rows.Value("event", "bigint", func(r redelivery) int64 { return r.event }),
	}
	auditFields = rows.Fields[*grapnel.AuditEntry]{
		rows.Value("at", "bigint", func(e *grapnel.AuditEntry) int64 { return codec.Micros(e.At) }),
		rows.Readable("tenant", func(e *grapnel.AuditEntry) string { return e.Tenant }),
		rows.Readable("actor", func(e *grapnel.AuditEntry) string { return e.Actor }),
		rows.Readable("verb", func(e *grapnel.AuditEntry) grapnel.Verb { return e.Verb }),
		rows.Readable("endpoint", func(e *grapnel.AuditEntry) string { return e.Endpoint }),
		rows.Readable("delivery", func(e *grapnel.AuditEntry) string { return e.Delivery }),
		rows.Readable("reason", func(e *grapnel.AuditEntry) string { return e.Reason }),
	}

	addEvents       = eventFields.Insert("event", "")
	addAttempts     = attemptFields.Insert("attempt", "")
	addRedeliveries = redeliveryFields.Insert("redelivery", "")
	addAudit        = auditFields.Insert("audit", " ON CONFLICT DO NOTHING")
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
	addPending.Queue(b, slices.DeleteFunc(t.fresh, func(p *place) bool { return t.places[p.Seq] != p }))
	var changed []*place
	for _, p := range t.places {
		if p.dirty && !p.fresh {
			changed = append(changed, p)
		}
	}
	slices.SortFunc(changed, func(x, y *place) int { return cmp.Compare(x.Seq, y.Seq) })
	changePending.Queue(b, changed)
	if gone := slices.DeleteFunc(rows.Column(t.gone, numberOf), t.needs.took); len(gone) > 0 {
		b.Queue(dropPending, gone)
	}
	if len(t.released) > 0 {
		b.Queue(dropLeases, t.released)
	}
	addLeases.Queue(b, t.leased)
}
