package postgres

import (
	"cmp"
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

const auditQuery = "SELECT seq, at, tenant, actor, verb, endpoint, delivery, reason FROM audit WHERE seq < "

// AuditList returns at most Limit entries; no limit: none.
func (s *reader) AuditList(ctx context.Context, scope store.Scope, q store.AuditQuery) (list []grapnel.AuditEntry, err error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some || q.Limit <= 0 {
		return nil, ctx.Err()
	}
	var f filter
	f.text(auditQuery).value(below(q.Before)).text(" AND seq > ").value(q.After)
	f.equal("tenant", tenant).equal("endpoint", q.Endpoint).equal("delivery", q.Delivery)
	order := " ORDER BY seq DESC LIMIT "
	if q.Oldest {
		order = " ORDER BY seq LIMIT "
	}
	f.text(order).value(q.Limit)
	var e grapnel.AuditEntry
	var at int64
	into := []any{&e.Seq, &at, &e.Tenant, &e.Actor, &e.Verb, &e.Endpoint, &e.Delivery, &e.Reason}
	err = f.ask(ctx, s.reading).Each(into, func() {
		e.At = codec.Moment(at)
		list = append(list, e)
	})
	return list, readError(ctx, err)
}

// AuditEnd waits for the transactions that are adding entries, and holds up others for the time of
// one query. Without that, an entry with a lower row id could be committed later: a transaction
// takes its row ids before it commits.
func (s *reader) AuditEnd(ctx context.Context) (end int64, err error) {
	ctx, done := s.reading.bound(ctx)
	defer done()
	// A snapshot of an earlier statement would miss entries that were committed before the lock.
	err = pgx.BeginTxFunc(ctx, s.reading, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		b := new(pgx.Batch)
		b.Queue(lockPatience)
		b.Queue("LOCK TABLE audit IN SHARE MODE")
		b.Queue("SELECT coalesce(max(seq), 0) FROM audit").QueryRow(func(row pgx.Row) error { return row.Scan(&end) })
		return tx.SendBatch(ctx, b).Close()
	})
	if stateOf(err) == stateLocked {
		return 0, &grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "audit entries are being written", Err: err}
	}
	return end, readError(ctx, err)
}

// below is the row id below which a list begins.
func below(before int64) int64 { return cmp.Or(max(before, 0), math.MaxInt64) }
