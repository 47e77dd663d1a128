package sqlite

import (
	"context"
	"math"
	"strings"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// ofTenant are the rows of a tenant in a table, by their key. where has the tenant's name as ?1 and
// its number as ?2.
type ofTenant struct {
	table, key, where string
	before            string // what the transaction does before it deletes a row
	cached            bool   // the writer's memory has something of these rows
}

// ownTargets are the targets of which only the tenant has counts.
const ownTargets = `(SELECT y.target FROM tally y WHERE y.tenant = ?2 AND NOT EXISTS
	(SELECT 1 FROM tally o WHERE o.target = y.target AND o.tenant <> ?2))`

// tenantRows are deleted in this order, once the tenant has no event. Counts say which targets are
// the tenant's, so targets go before them, and rows with a target's number before the target: the
// number may be given again. Deliveries that no count has any more are not counted as purged
// either, so the sums of all others still agree (Imbalance).
var tenantRows = []ofTenant{
	{table: "replay_item", key: "made", where: "replay IN (SELECT number FROM replay WHERE tenant = ?1)"},
	{table: "replay_progress", key: "replay", where: "replay IN (SELECT number FROM replay WHERE tenant = ?1)"},
	{table: "replay", key: "number", where: "tenant = ?1"},
	{table: "document", key: "rowid", where: "tenant = ?1"},
	{table: "aside", key: "number", where: "tenant = ?1"},
	{table: "answer", key: "rowid", where: "key >= '" + store.PassKeys("") + "' || ?1 || '/' AND key < '" + store.PassKeys("") + "' || ?1 || '0'"},
	{table: "audit", key: "seq", where: "tenant = ?1 AND (verb <> 'erase' OR actor = '') AND seq < (SELECT max(seq) FROM audit)"},
	{table: "total_hour", key: "hour, target, tenant", where: "tenant = ?2"},
	{table: "total_day", key: "target, day, tenant", where: "tenant = ?2"},
	{table: "total_type", cached: true, key: "whole, hour, tenant, type", where: "tenant = ?2"},
	{table: "source_block", key: "source, block", where: `source IN (SELECT k.source FROM kind k WHERE k.tenant = ?1 AND k.source <> ''
		AND NOT EXISTS (SELECT 1 FROM kind o WHERE o.source = k.source AND o.source <> '' AND o.tenant <> ?1))`},
	{table: "lane", cached: true, key: "target, key", where: "target IN " + ownTargets},
	{table: "target_outcome", cached: true, key: "outcome, target", where: "target IN " + ownTargets},
	{table: "target", cached: true, key: "number", where: "number IN " + ownTargets},
	{table: "tally", cached: true, key: "target, tenant, status", where: "tenant = ?2",
		before: "UPDATE ledger SET purged = purged - (SELECT made - n FROM tally WHERE (target, tenant, status) = (?, ?, ?))"},
	{table: "kind", cached: true, key: "number", where: "tenant = ?1"},
	{table: "data_key", key: "rowid", where: "tenant = ?1"},
	{table: "tenant", cached: true, key: "number", where: "name = ?1"},
}

func (o *ofTenant) find() string {
	return "SELECT " + o.key + " FROM " + o.table + " WHERE " + o.where + " LIMIT ?3"
}

func (o *ofTenant) drop() string {
	return "DELETE FROM " + o.table + " WHERE (" + o.key + ") = (?" + strings.Repeat(", ?", strings.Count(o.key, ",")) + ")"
}

const (
	tenantWaitsQuery = "SELECT EXISTS (SELECT 1 FROM tally WHERE tenant = (SELECT number FROM tenant WHERE name = ?) AND status = 1 AND n > 0)"
	laterEventQuery  = "SELECT 1 FROM event e CROSS JOIN kind k ON k.number = e.kind WHERE e.seq > ? AND k.tenant = ? LIMIT 1"
	emptyAuditQuery  = "UPDATE audit SET reason = '' WHERE tenant = ? AND reason <> ''"
	newestAuditQuery = `UPDATE audit SET actor = '', verb = 'erase', endpoint = NULL, delivery = NULL, reason = ''
		WHERE tenant = ? AND verb <> 'erase' AND seq = (SELECT max(seq) FROM audit)`
)

// EraseTenant looks for rows on connections for reading, and deletes a few in each transaction. The
// bytes stay in the files until Reclaim.
func (s *keeper) EraseTenant(ctx context.Context, e store.TenantErasure) (done store.TenantErased, err error) {
	if err := e.Check(); err != nil {
		return done, err
	}
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	if err := s.read(ctx, func(r *sqlite3.Conn) error { return tenantEnded(r, e.Tenant) }); err != nil {
		return done, err
	}
	newest, err := rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (int64, error) { return rows.One(r, lastEventQuery) })
	if err == nil {
		err = s.eraseEvents(ctx, &e, newest, &done)
	}
	if err != nil || done.More {
		return done, err
	}
	for i := range tenantRows {
		of, limit := &tenantRows[i], e.Limit-done.Rows
		n, err := s.eraseRows(ctx, of, &e, limit, newest)
		if done.Rows += n; err != nil {
			return done, err
		}
		if n == limit {
			done.More = true
			return done, nil
		}
	}
	s.sealer.Forget(e.Tenant)
	return done, s.write(ctx, &change{shrinks: true, do: func(t *tx) error {
		if err := t.conn.Query(emptyAuditQuery).Text(e.Tenant).Run(); err != nil {
			return err
		}
		return t.conn.Query(newestAuditQuery).Text(e.Tenant).Run()
	}})
}

// tenantEnded fails if the tenant has something that does not end by itself.
func tenantEnded(r *sqlite3.Conn, tenant string) error {
	waits, err := rows.Integer(r.Query(tenantWaitsQuery).Text(tenant))
	if waits == 1 && err == nil {
		err = store.ErrTenantHas("a pending delivery")
	}
	for _, of := range objectKinds[:accessRecords] {
		if err != nil {
			return err
		}
		var has int64
		has, err = rows.Integer(r.Query("SELECT EXISTS (SELECT 1 FROM " + of.table + " WHERE tenant = ?)").Text(tenant))
		if has == 1 && err == nil {
			err = store.ErrTenantHas("an object: " + of.what)
		}
	}
	return err
}

// eraseEvents removes events with their deliveries as Purge does, whatever their age. A later call
// looks into the block of the newest event again, which may get further events.
func (s *keeper) eraseEvents(ctx context.Context, e *store.TenantErasure, newest int64, done *store.TenantErased) error {
	f := &searcher{limit: e.Limit, last: math.MaxInt64, kinds: make(map[int64]int64)}
	if err := s.read(ctx, func(r *sqlite3.Conn) error { return f.learnTenant(r, e.Tenant) }); err != nil || len(f.kinds) == 0 {
		return err
	}
	block, more := e.After>>rows.BlockBits, true
	for ; more && f.limit > 0; block++ {
		if err := s.snapshot(ctx, func(r *sqlite3.Conn) (err error) {
			block, more, err = f.block(r, block)
			return err
		}); err != nil {
			return err
		}
		done.After = min(block, newest>>rows.BlockBits) << rows.BlockBits
	}
	done.More = f.limit <= 0
	_, err := s.removeParts(ctx, f.found, func(t *tx, part []oldEvent) (removed int, err error) {
		removed, err = purgeAll(t, part, math.MinInt64)
		for i := range part {
			if err == nil && part[i].gone {
				err = t.q.dropKnown.Int(part[i].seq).Run()
			}
		}
		return removed, err
	})
	for i := range f.found {
		of := &f.found[i]
		done.Deliveries, done.Attempts = done.Deliveries+of.over, done.Attempts+of.attempts
		if of.gone {
			done.Events++
		}
	}
	s.purge.deferred = s.purge.deferred || len(f.found) > 0
	return err
}

// learnTenant makes all events of a tenant expired.
func (f *searcher) learnTenant(r *sqlite3.Conn, tenant string) (err error) {
	q := r.Query(kindsTenantQuery).Text(tenant)
	for q.More(&err) {
		f.kinds[q.Integer(0)] = math.MaxInt64
	}
	return err
}

// eraseRows deletes at most limit rows of a table. The keys are read as texts: SQLite compares a
// text with a column as the column's type says.
func (s *keeper) eraseRows(ctx context.Context, of *ofTenant, e *store.TenantErasure, limit int, newest int64) (erased int, err error) {
	var keys [][]string
	if err := s.read(ctx, func(r *sqlite3.Conn) error {
		number, err := rows.Integer(r.Query(tenantQuery).Text(e.Tenant))
		if err != nil {
			return err
		}
		keys, err = rows.Each(r.Query(of.find()).Text(e.Tenant).Int(number).Int(int64(limit)), func(q *sqlite3.Stmt) (key []string, _ error) {
			for i := range 1 + strings.Count(of.key, ",") {
				key = append(key, q.String(i))
			}
			return key, nil
		})
		return err
	}); err != nil {
		return 0, err
	}
	return s.inParts(len(keys), func(most int) (n int, err error) {
		part := keys[erased : erased+most]
		err = s.write(ctx, &change{shrinks: true, do: func(t *tx) error { return eraseKeys(t, of, e.Tenant, part, newest) }})
		if err == nil {
			erased += most
		}
		return most, err
	})
}

// eraseKeys deletes rows by their keys. If the writer's memory may have some of them, it first
// writes the rows that it owes, and forgets all.
func eraseKeys(t *tx, of *ofTenant, tenant string, keys [][]string, newest int64) error {
	if of.cached {
		if err := t.combine(t.unflushed.number, t.needed); err != nil {
			return err
		}
		later, err := rows.Integer(t.conn.Query(laterEventQuery).Int(newest).Text(tenant))
		if later == 1 && err == nil {
			err = store.ErrTenantHas("a publisher")
		}
		if err != nil {
			return err
		}
		t.names.forget()
		t.accounts.forget()
		t.types.forget()
		t.outcomes.forget()
	}
	for _, key := range keys {
		for _, sql := range []string{of.before, of.drop()} {
			if sql == "" {
				continue
			}
			if err := t.conn.Query(sql).Texts(key...).Run(); err != nil {
				return err
			}
		}
	}
	return nil
}
