package postgres

import (
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// ofTenant are the rows of a tenant in a table; the tenant is $1.
type ofTenant struct{ table, where string }

// ownTargets are the targets of which only the tenant has counts.
const ownTargets = `(SELECT y.target FROM tally y WHERE y.tenant = $1 AND NOT EXISTS
	(SELECT FROM tally o WHERE o.target = y.target AND o.tenant <> $1))`

// tenantRows are deleted in this order, once the tenant has no event. Counts say which targets are
// the tenant's, so they go after all that has targets.
var tenantRows = []ofTenant{
	{"replay_item", "replay IN (SELECT number FROM replay WHERE tenant = $1)"},
	{"replay_progress", "replay IN (SELECT number FROM replay WHERE tenant = $1)"},
	{"replay", "tenant = $1"},
	{"document", "tenant = $1"},
	{"aside", "tenant = $1"},
	{"answer", "key >= '" + store.PassKeys("") + "' || $1 || '/' AND key < '" + store.PassKeys("") + "' || $1 || '0'"},
	{"audit", "tenant = $1 AND (verb <> 'erase' OR actor = '') AND seq < (SELECT max(seq) FROM audit)"},
	{"total", "tenant = $1"},
	{"total_type", "tenant = $1"},
	{"event_name", "tenant = $1"}, // of events that were deleted with their day
	{"lane", "target IN " + ownTargets},
	{"target", "number IN " + ownTargets},
	{table: "tally"}, // see dropTallies
}

func (o *ofTenant) drop() string {
	return "DELETE FROM " + o.table + " WHERE ctid = ANY(ARRAY(SELECT ctid FROM " + o.table + " WHERE " + o.where + " LIMIT $2))"
}

// dropTallies deletes all rows of a target together: a delivery may be counted in one and out in
// another. Deliveries that no count has any more are not counted as purged either, so the sums of
// all others still agree (Imbalance).
const dropTallies = `WITH gone AS (DELETE FROM tally WHERE tenant = $1 AND target = ANY(ARRAY(SELECT DISTINCT target FROM tally WHERE tenant = $1 LIMIT $2))
		RETURNING target, made - pending - delivered - failed - dropped - discarded - skipped AS purged),
	counted AS (UPDATE ledger SET purged = purged - (SELECT coalesce(sum(purged), 0) FROM gone)::bigint WHERE EXISTS (SELECT FROM gone))
	SELECT count(DISTINCT target) FROM gone`

const (
	tenantWaits    = "SELECT EXISTS (SELECT FROM tally WHERE tenant = $1 GROUP BY tenant HAVING sum(pending) > 0)"
	kindsOfTenant  = "SELECT number FROM kind WHERE tenant = $1"
	eventsOfTenant = "SELECT seq, first, last, made FROM event WHERE seq > $1 AND kind = ANY($2) ORDER BY seq LIMIT $3"
	laterEvents    = "SELECT EXISTS (SELECT FROM event WHERE seq > $1 AND kind = ANY(ARRAY(SELECT number FROM kind WHERE tenant = $2)))"
	ofSources      = "SELECT EXISTS (SELECT FROM kind WHERE tenant = $1 AND source <> '')"
	// forgetKnown looks at a page of all Known records, and up each one's event in its own day.
	forgetKnown = `WITH page AS MATERIALIZED (SELECT key, seq, until FROM known WHERE (until, seq) > ($1, $2) ORDER BY until, seq LIMIT $3),
		gone AS (DELETE FROM known WHERE key = ANY(ARRAY(SELECT p.key FROM page p CROSS JOIN LATERAL
			(SELECT kind FROM event WHERE seq = p.seq OFFSET 0) e WHERE e.kind = ANY($4))) RETURNING 1)
		SELECT (SELECT count(*) FROM gone), until, seq FROM page ORDER BY until DESC, seq DESC LIMIT 1`
	dropKinds = "DELETE FROM kind WHERE tenant = $1"
	dropKey   = "DELETE FROM data_key WHERE tenant = $1"
	// sameEntries removes those that differ in their reasons alone: they would be equal without.
	sameEntries = `DELETE FROM audit a WHERE tenant = $1 AND verb = 'erase' AND EXISTS (SELECT FROM audit b WHERE b.tenant = $1 AND b.seq > a.seq
		AND (b.at, b.actor, b.verb, b.endpoint, b.delivery) = (a.at, a.actor, a.verb, a.endpoint, a.delivery))`
	emptyEntries = "UPDATE audit SET reason = '' WHERE tenant = $1 AND verb = 'erase' AND reason <> ''"
	emptyNewest  = `UPDATE audit SET actor = '', verb = 'erase', endpoint = '', delivery = '', reason = ''
		WHERE tenant = $1 AND verb <> 'erase' AND seq = (SELECT max(seq) FROM audit)`
	nextVersion = "UPDATE configuration SET version = version + 1"
	// forgetChanges deletes the ids of all objects that are no longer there.
	forgetChanges = `DELETE FROM configuration_change WHERE id NOT IN (SELECT id FROM endpoint UNION ALL SELECT id FROM source
		UNION ALL SELECT id FROM policy UNION ALL SELECT id FROM event_type UNION ALL SELECT id FROM api_key UNION ALL SELECT id FROM access_record)`
)

// EraseTenant deletes a page in each transaction. The last one gives the configuration a new
// version that no list of changes has. So each node reads all of it (Config) before it accepts
// another event, and forgets the numbers of names.
func (s *keeper) EraseTenant(ctx context.Context, e store.TenantErasure) (done store.TenantErased, err error) {
	if err := e.Check(); err != nil {
		return done, err
	}
	if err := s.tenantEnded(ctx, e.Tenant); err != nil {
		return done, err
	}
	kinds, err := rows.FirstColumn[int32](rows.Ask(ctx, s.chores, kindsOfTenant, e.Tenant))
	if err == nil && e.After == 0 && len(kinds) > 0 {
		done.Rows, err = s.forgetKnown(ctx, e.Tenant, kinds)
	}
	if err != nil {
		return done, readError(ctx, err)
	}
	if done.After = e.After; len(kinds) > 0 {
		if err := s.eraseEvents(ctx, &e, kinds, &done); err != nil || done.More {
			return done, err
		}
	}
	left := e.Limit
	for i := range tenantRows {
		n, err := s.eraseRows(ctx, &tenantRows[i], e.Tenant, left)
		done.Rows, left = done.Rows+n, left-n
		if err != nil {
			return done, err
		}
		if left == 0 {
			done.More = true
			return done, nil
		}
	}
	n, err := s.eraseNames(ctx, e.Tenant, done.After)
	s.names.forget()
	s.sealer.Forget(e.Tenant)
	done.Rows += n
	return done, err
}

// tenantEnded fails if the tenant has something that does not end by itself.
func (s *keeper) tenantEnded(ctx context.Context, tenant string) error {
	for _, of := range []struct{ what, query string }{{"a pending delivery", tenantWaits},
		{"an endpoint", hasObject(&endpoints)}, {"a source", hasObject(&sources)}, {"a policy", hasObject(&policies)},
		{"an event type", hasObject(&eventTypes)}, {"a key", hasObject(&keys)}} {
		var has bool
		if err := s.chores.QueryRow(ctx, of.query, tenant).Scan(&has); err != nil {
			return readError(ctx, err)
		}
		if has {
			return store.ErrTenantHas(of.what)
		}
	}
	return nil
}

func hasObject(of *objects) string {
	return "SELECT EXISTS (SELECT FROM " + of.table + " WHERE tenant = $1)"
}

// forgetKnown deletes the Known records of the tenant's events: they have no index by event, so all
// of them are looked at, once.
func (s *keeper) forgetKnown(ctx context.Context, tenant string, kinds []int32) (gone int, err error) {
	var some bool
	if err := s.chores.QueryRow(ctx, ofSources, tenant).Scan(&some); err != nil || !some {
		return 0, err
	}
	for until, seq := int64(math.MinInt64), int64(0); ; {
		var n int
		err := s.chores.QueryRow(ctx, forgetKnown, until, seq, s.bounds.SweepPage, kinds).Scan(&n, &until, &seq)
		if rows.IsNone(err) {
			return gone, nil
		}
		if gone += n; err != nil {
			return gone, err
		}
	}
}

// eraseEvents removes events with their deliveries as Purge does, whatever their age.
func (s *keeper) eraseEvents(ctx context.Context, e *store.TenantErasure, kinds []int32, done *store.TenantErased) error {
	for removed := 0; removed < e.Limit; {
		page, old := min(s.bounds.PurgePage, e.Limit-removed), []oldEvent(nil)
		of := oldEvent{before: math.MaxInt64}
		if err := rows.Ask(ctx, s.chores, eventsOfTenant, done.After, kinds, page).Each([]any{&of.seq, &of.first, &of.last, &of.made},
			func() { old = append(old, of) }); err != nil {
			return readError(ctx, err)
		}
		r, err := s.removePage(ctx, old, math.MinInt64, e.Limit-removed)
		if err != nil {
			return err
		}
		done.Events, done.Deliveries, done.Attempts = done.Events+len(r.events), done.Deliveries+len(r.deliveries), done.Attempts+r.attempts
		for i := range old {
			if !slices.Contains(r.events, old[i].seq) {
				break
			}
			done.After = old[i].seq
		}
		if removed += max(r.counted, len(r.events)); len(old) < page && len(r.events) == len(old) {
			return nil
		}
		if len(r.events)+len(r.deliveries) == 0 {
			return store.ErrTenantHas("a pending delivery") // which came meanwhile
		}
	}
	done.More = true
	return nil
}

// eraseRows deletes at most limit rows of a table.
func (s *keeper) eraseRows(ctx context.Context, of *ofTenant, tenant string, limit int) (erased int, err error) {
	for erased < limit {
		page, n := min(limit-erased, s.bounds.SweepPage), 0
		err := s.inChore(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, aloneLock, lockClass, lockTotals); err != nil {
				return err
			}
			if of.where == "" {
				return tx.QueryRow(ctx, dropTallies, tenant, page).Scan(&n)
			}
			tag, err := tx.Exec(ctx, of.drop(), tenant, page)
			n = int(tag.RowsAffected())
			return err
		})
		if err != nil {
			return erased, err
		}
		if erased += n; n < page {
			break
		}
	}
	return erased, nil
}

// eraseNames deletes the kinds of a tenant's events, unless one of these came meanwhile, and what
// remains.
func (s *keeper) eraseNames(ctx context.Context, tenant string, after int64) (erased int, err error) {
	err = s.inChore(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, aloneLock, lockClass, lockConfiguration); err != nil {
			return err
		}
		var later bool
		if err := tx.QueryRow(ctx, laterEvents, after, tenant).Scan(&later); err != nil || later {
			if err == nil {
				err = store.ErrTenantHas("a publisher")
			}
			return err
		}
		for _, sql := range []string{dropKinds, dropKey} {
			tag, err := tx.Exec(ctx, sql, tenant)
			if erased += int(tag.RowsAffected()); err != nil {
				return err
			}
		}
		b := new(pgx.Batch)
		for _, sql := range []string{sameEntries, emptyEntries, emptyNewest} {
			b.Queue(sql, tenant)
		}
		if erased > 0 {
			b.Queue(nextVersion)
			b.Queue(forgetChanges)
		}
		return tx.SendBatch(ctx, b).Close()
	})
	return result(&erased, err)
}
