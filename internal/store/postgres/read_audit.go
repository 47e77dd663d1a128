package postgres

import (
	"cmp"
	"context"
	"math"

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
	f.text(auditQuery).value(below(q.Before))
	f.equal("tenant", tenant).equal("endpoint", q.Endpoint).equal("delivery", q.Delivery)
	f.text(" ORDER BY seq DESC LIMIT ").value(q.Limit)
	var e grapnel.AuditEntry
	var at int64
	into := []any{&e.Seq, &at, &e.Tenant, &e.Actor, &e.Verb, &e.Endpoint, &e.Delivery, &e.Reason}
	err = f.ask(ctx, s.reading).Each(into, func() {
		e.At = codec.Moment(at)
		list = append(list, e)
	})
	return list, readError(ctx, err)
}

// below is the row id below which a list begins.
func below(before int64) int64 { return cmp.Or(max(before, 0), math.MaxInt64) }
