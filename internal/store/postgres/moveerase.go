package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
)

// The rows that a tenant leaves behind are deleted in pages, like expired rows: no reader needs
// them, and other tenants write to the same tables. The rows of a cancelled import are deleted in
// one transaction, like their import.

const (
	// uncount takes the tenant out of the counts. Imbalance then neither expects nor counts its
	// deliveries.
	uncount = `WITH gone AS (DELETE FROM tally WHERE tenant = $1 RETURNING made - pending - delivered - failed - dropped - discarded - skipped AS n)
		UPDATE ledger SET newest = ` + newestSQL + `, purged = purged - (SELECT coalesce(sum(n), 0) FROM gone)`
	// nameKnown sets the kind of records that an earlier program stored without one; without their
	// events it could no longer be found.
	nameKnown = "UPDATE known k SET kind = e.kind FROM event e WHERE k.kind IS NULL AND e.seq = k.seq AND e.kind IN (SELECT number FROM kind WHERE tenant = $1)"
	counts    = "SELECT EXISTS (SELECT FROM tally WHERE tenant = $1)"
	// eraseAlone lets one caller after another erase a tenant's rows. One that waited for another's
	// deletions would count them as none, and take its page for the last.
	eraseAlone  = "SELECT FROM tenancy WHERE tenant = $1 FOR UPDATE"
	boundsQuery = "SELECT first, last FROM tenancy WHERE tenant = $1"
	// restoreTenant deletes the tenant's state and returns the earlier one.
	restoreTenant = `WITH was AS (DELETE FROM tenancy WHERE tenant = $1 RETURNING before)
		SELECT before FROM was WHERE before <> ''`
	putBack = "INSERT INTO tenancy SELECT (json_populate_record(NULL::tenancy, $1::text::json)).*"
)

// erased are the tables to empty, in order. Documents come first: until they are deleted, readers
// of all tenants' documents find them in two cells. A table comes after those whose rows are found
// by it, and known, whose rows have to be searched for, comes last. A delivery's attempts, marks
// and redeliveries are deleted with it.
var erased = []string{"document", "audit", "answer", "aside", "total", "total_type", "replay_item", "replay_progress", "replay", "lease",
	"pending",
	"finished", "lane", "event", "known"}

// erase is the statement that deletes at most limit rows.
func (m *moving) erase(of *owned, limit int) string {
	key, with := cmp.Or(m.key, m.names()[0]), ""
	if m.table == "pending" || m.table == "finished" {
		for _, hangs := range []string{"attempt", "mark", "redelivery"} {
			with += fmt.Sprintf(", of_%[1]s AS (DELETE FROM %[1]s WHERE delivery IN (SELECT seq FROM page))", hangs)
		}
	}
	if m.table == "event" {
		for i, table := range namings {
			with += fmt.Sprintf(", of_name%d AS (DELETE FROM %s WHERE seq IN (SELECT seq FROM page))", i, table)
		}
	}
	return of.fill(fmt.Sprintf("WITH page AS MATERIALIZED (SELECT x.%s FROM %s x WHERE %s LIMIT %d)%s DELETE FROM %s WHERE (%s) IN (SELECT * FROM page)",
		strings.ReplaceAll(key, ", ", ", x."), m.source(), m.where, limit, with, m.table, key))
}

// eraseSome deletes at most limit rows, and returns how many.
func eraseSome(ctx context.Context, tx pgx.Tx, of *owned, limit int) (removed int, err error) {
	for _, table := range erased {
		m := &movings[slices.IndexFunc(movings, func(m moving) bool { return m.table == table })]
		if removed >= limit {
			break
		}
		tag, err := tx.Exec(ctx, m.erase(of, limit-removed), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return removed, fmt.Errorf("erasing %s: %w", table, err)
		}
		removed += int(tag.RowsAffected())
	}
	return removed, nil
}

// behind are the rows that a tenant has left behind, or has arrived with.
func behind(ctx context.Context, tx pgx.Tx, tenant string) (*owned, error) {
	of, err := find(ctx, tx, tenant)
	if err == nil {
		err = tx.QueryRow(ctx, boundsQuery, tenant).Scan(&of.first, &of.last)
	}
	return of, err
}

// Erase counts the rows of all tables in erased, without the attempts, marks and redeliveries of
// deliveries.
func (s *Store) Erase(ctx context.Context, tenant string, limit int) (removed int, err error) {
	if limit <= 0 {
		return 0, ctx.Err()
	}
	err = s.inChore(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, beginShared, lockClass, lockConfiguration); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, eraseAlone, tenant); err != nil {
			return err
		}
		is, err := tenancyOf(ctx, tx, tenant)
		if err == nil && is.State != grapnel.TenancyGone {
			err = grapnel.Errorf(grapnel.CodeConflict, "tenant %s has not moved away", tenant)
		}
		if err != nil {
			return err
		}
		if err := discount(ctx, tx, tenant); err != nil {
			return err
		}
		of, err := behind(ctx, tx, tenant)
		if err == nil {
			removed, err = eraseSome(ctx, tx, of, limit)
		}
		return err
	})
	return result(&removed, err)
}

// discount corrects the counts before the first rows are deleted.
func discount(ctx context.Context, tx pgx.Tx, tenant string) error {
	var some bool
	if err := tx.QueryRow(ctx, counts, tenant).Scan(&some); err != nil || !some {
		return err
	}
	b := new(pgx.Batch)
	b.Queue(nameKnown, tenant)
	b.Queue(uncount, tenant)
	return tx.SendBatch(ctx, b).Close()
}

// Drop is one transaction, as Import is. No other caller uses the rows it deletes, so it blocks
// none.
func (s *Store) Drop(ctx context.Context, tenant, move string) error {
	leave, err := s.onlyOne(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return s.inChore(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b := new(pgx.Batch)
		b.Queue(movePatience)
		b.Queue("SELECT " + planned)
		b.Queue(aloneLock, lockClass, lockMoves)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if there, err := droppable(ctx, tx, tenant, move); !there || err != nil {
			return err
		}
		of, err := behind(ctx, tx, tenant)
		if err != nil {
			return err
		}
		page := s.bounds.DropPage
		for n := page; n == page; {
			if n, err = eraseSome(ctx, tx, of, page); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, aloneLock, lockClass, lockConfiguration); err != nil {
			return err
		}
		if there, err := droppable(ctx, tx, tenant, move); !there || err != nil {
			return err
		}
		return s.forget(ctx, tx, tenant)
	})
}

// droppable says whether a tenant has arrived by this move.
func droppable(ctx context.Context, tx pgx.Tx, tenant, move string) (bool, error) {
	is, err := tenancyOf(ctx, tx, tenant)
	switch {
	case err != nil:
		return false, err
	case is.State == grapnel.TenancyArrived && is.Move == move:
		return true, nil
	case is.State == "" || is.State == grapnel.TenancyGone:
		return false, nil // it was dropped before
	}
	return false, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is %s", tenant, is.State)
}

// forget deletes the last of a tenant's rows here, its configuration and counts, and restores its
// earlier state.
func (s *Store) forget(ctx context.Context, tx pgx.Tx, tenant string) error {
	if err := discount(ctx, tx, tenant); err != nil {
		return err
	}
	var before string // empty: it had no state
	if err := tx.QueryRow(ctx, restoreTenant, tenant).Scan(&before); err != nil && !isNone(err) {
		return err
	}
	b := new(pgx.Batch)
	for _, sql := range unconfigure {
		b.Queue(sql, tenant)
	}
	if before != "" {
		b.Queue(putBack, before)
	}
	b.Queue(sealThose)
	b.Queue(bumpVersion)
	return tx.SendBatch(ctx, b).Close()
}
