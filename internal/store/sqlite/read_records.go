package sqlite

import (
	"context"
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// AuditList returns at most Limit entries; no limit: none.
func (s *reader) AuditList(ctx context.Context, scope store.Scope, q store.AuditQuery) ([]grapnel.AuditEntry, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]grapnel.AuditEntry, error) {
		var some bool
		if q.Tenant, some = scope.Narrow(q.Tenant); !some {
			return nil, nil
		}
		sql, values := auditQuery(q)
		entries := r.Query(sql).Texts(values...).Int(everything(q.Before).below).Int(q.After).Int(int64(min(max(q.Limit, 0), math.MaxInt32)))
		return rows.Each(entries, func(q *sqlite3.Stmt) (grapnel.AuditEntry, error) {
			return grapnel.AuditEntry{
				Seq: q.Integer(0), At: codec.Moment(q.Integer(1)), Tenant: q.String(2), Actor: q.String(3), Verb: grapnel.Verb(q.String(4)),
				Endpoint: q.String(5), Delivery: q.String(6), Reason: q.String(7),
			}, nil
		})
	})
}

// AuditEnd is the row id of the newest entry: there is one writer, and row ids rise.
func (s *reader) AuditEnd(ctx context.Context) (int64, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (int64, error) { return rows.One(r, auditEndQuery) })
}

const auditEndQuery = "SELECT coalesce(max(seq), 0) FROM audit"

// auditQuery is the SQL of a list with the values of its filters; the last three values are: below,
// above, limit.
func auditQuery(q store.AuditQuery) (sql string, values []string) {
	var f rows.Filters
	f.Equal("delivery", q.Delivery)
	f.Equal("endpoint", q.Endpoint)
	f.Equal("tenant", q.Tenant)
	f.All = append(f.All, "seq < ?", "seq > ?")
	order := " ORDER BY seq DESC LIMIT ?"
	if q.Oldest {
		order = " ORDER BY seq LIMIT ?"
	}
	return "SELECT seq, at, tenant, actor, verb, endpoint, delivery, reason FROM audit" + f.Where() + order, f.Values
}

// Recall returns the stored answer of a key.
func (s *reader) Recall(ctx context.Context, key string, now time.Time) (*store.Answer, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (*store.Answer, error) { return live(r.Query(answerQuery), key, now) })
}

const standingsQuery = "SELECT endpoint, number, body FROM standing ORDER BY endpoint"

// Standings are sorted by endpoint.
func (s *reader) Standings(ctx context.Context) ([]store.Standing, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]store.Standing, error) {
		return rows.Each(r.Query(standingsQuery), func(q *sqlite3.Stmt) (one store.Standing, err error) {
			one.Endpoint, one.Number = q.String(0), q.Integer(1)
			one.Standing, err = codec.DecodeStanding(0, q.Bytes(2))
			return one, err
		})
	})
}

// Imbalance compares counts that are maintained in different ways: created deliveries are counted
// up only, pending and finished ones up and down.
func (s *reader) Imbalance(ctx context.Context) (int64, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (int64, error) { return rows.One(r, imbalanceQuery) })
}

// Lease finds a lease by its token.
func (s *reader) Lease(ctx context.Context, token string) (grapnel.Lease, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (grapnel.Lease, error) {
		return rows.First(r.Query(leaseOfQuery).Text(token), store.ErrNotFound("lease"), func(q *sqlite3.Stmt) (grapnel.Lease, error) {
			return readLease(q, q.String(12)), nil
		})
	})
}

// LeaseList returns leases in the order of their ends.
func (s *reader) LeaseList(ctx context.Context, queue string, limit int) ([]grapnel.Lease, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]grapnel.Lease, error) {
		target, err := rows.Integer(r.Query(targetQuery).Text(queue))
		if err != nil || target == 0 || limit <= 0 {
			return nil, err
		}
		return readLeases(r.Query(leasesQuery).Int(target), queue, limit)
	})
}
