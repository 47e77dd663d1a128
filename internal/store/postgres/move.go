package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// A tenant is copied from database to database, table by table, through one transaction here and
// one there; its rows are streamed and not collected in memory. The source database changes the row
// ids while it reads (moverows.go). Then both databases compute a digest of the rows, and the
// digests must be equal.
//
// Two tenants are not copied to one database at the same time, because the second would get the
// same row ids. Other writers continue: the row ids are reserved before the copy.

// movePatience configures transactions that may take hours, and that are idle while the other
// database is busy.
const movePatience = `SELECT set_config('idle_in_transaction_session_timeout', '0', true), set_config('statement_timeout', '0', true),
	set_config('lock_timeout', '0', true), set_config('standard_conforming_strings', 'on', true), set_config('jit', 'off', true)`

// itself returns the store, also through a type that embeds it.
func (s *Store) itself() *Store { return s }

// Import runs an arrival in a transaction of both databases.
func (s *Store) Import(ctx context.Context, from store.Store, t grapnel.Tenancy, progress func(int64)) (store.Imported, error) {
	embedded, is := from.(interface{ itself() *Store })
	if !is {
		return store.Imported{}, grapnel.Errorf(grapnel.CodeInvalid, "tenants come from PostgreSQL databases only")
	}
	if t.Tenant == "" || t.Move == "" {
		return store.Imported{}, grapnel.Errorf(grapnel.CodeInvalid, "tenant and move are required")
	}
	if progress == nil {
		progress = func(int64) {}
	}
	leave, err := s.onlyOne(ctx)
	if err != nil {
		return store.Imported{}, err
	}
	defer leave()
	a := &arrival{store: s, tenancy: t, progress: progress, by: shifts{offsets: make(map[string]int64)}}
	err = embedded.itself().leaving(ctx, func(ctx context.Context, there pgx.Tx) error {
		ctx, done := s.chores.bound(ctx) // ends when either database is replaced
		defer done()
		if a.leaving, err = find(ctx, there, t.Tenant); err != nil {
			return err
		}
		if a.days, err = firstColumn[int64](ask(ctx, there, a.leaving.fill(daysOf), pgx.QueryExecModeSimpleProtocol)); err != nil {
			return err
		}
		// Before the transaction here reads events: otherwise it would wait for that one.
		if err := s.accommodate(ctx, a.days); err != nil {
			return err
		}
		here, err := s.chores.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = here.Rollback(context.WithoutCancel(ctx)) }() // does nothing after the commit
		a.from, a.to = there, here
		if err := a.arrive(ctx); err != nil {
			return err
		}
		if err = here.Commit(ctx); err != nil && stateOf(err) == "" {
			err = fmt.Errorf("%w: %w", errUnknown, err)
		}
		return err
	})
	return result(&a.done, moveError(ctx, err))
}

// onlyOne waits until this store imports and drops no other tenant. Waiting in the database instead
// would occupy connections that reads need.
func (s *Store) onlyOne(ctx context.Context) (leave func(), err error) {
	select {
	case s.moves <- struct{}{}:
		return func() { <-s.moves }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// keepDays keeps days from being cleared. It is no query, so it does not fix the snapshot of its
// transaction.
const keepDays = "LOCK TABLE event, finished, attempt IN ACCESS SHARE MODE"

// leaving reads the source in one snapshot. No day may be cleared from then on: clearing rewrites
// the day's remaining rows, and an older snapshot, and so the comparison, would find the day empty.
func (s *Store) leaving(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	return s.snapshot(ctx, s.chores, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, keepDays, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, movePatience); err != nil {
			return err
		}
		return do(ctx, tx)
	})
}

func moveError(ctx context.Context, err error) error {
	var refused *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, errUnknown):
		return err
	case gaveUp(ctx):
		return ctx.Err()
	case errors.As(err, &refused) && refused.Code == stateUnique:
		return &grapnel.Error{Code: grapnel.CodeConflict,
			Detail: fmt.Sprintf("an id of the tenant is already in use by another tenant: %s %s", refused.TableName, refused.Detail), Err: err}
	}
	return asError(err)
}

// arrival is the import of one tenant.
type arrival struct {
	store    *Store
	tenancy  grapnel.Tenancy
	from, to pgx.Tx
	progress func(int64)

	before  grapnel.Tenancy // the state here before the import
	shifts  []grapnel.Shift // of the tenant's earlier moves
	days    []int64         // days in which it has rows
	leaving *owned          // its rows there
	arrived *owned          // its rows here
	there   held            // its row ids there
	here    held            // its row ids here
	by      shifts
	key     grapnel.IDKey // of the ids given there
	done    store.Imported
}

func (a *arrival) arrive(ctx context.Context) error {
	if _, err := a.to.Exec(ctx, movePatience); err != nil {
		return err
	}
	if _, err := a.to.Exec(ctx, aloneLock, lockClass, lockMoves); err != nil {
		return err
	}
	if there, err := a.look(ctx); there || err != nil {
		return err
	}
	if err := a.number(ctx); err != nil {
		return err
	}
	if _, err := a.to.Exec(ctx, useDays); err != nil {
		return err
	}
	if err := a.store.accommodate(ctx, a.days); err != nil { // a day may have been removed since
		return err
	}
	for i := range movings {
		if err := a.copy(ctx, &movings[i]); err != nil {
			return err
		}
	}
	if _, err := a.to.Exec(ctx, a.arrived.fill(nameFirst), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	for i := range movings {
		if err := a.verify(ctx, &movings[i]); err != nil {
			return err
		}
	}
	return a.settle(ctx)
}

// look reads the tenant's state in both databases. true: this move's import is already done.
func (a *arrival) look(ctx context.Context) (there bool, err error) {
	tenant := a.tenancy.Tenant
	is, err := tenancyOf(ctx, a.from, tenant)
	if err != nil {
		return false, err
	}
	if a.before, err = tenancyOf(ctx, a.to, tenant); err != nil {
		return false, err
	}
	if a.before.State == grapnel.TenancyArrived && a.before.Move == a.tenancy.Move {
		return true, nil
	}
	switch {
	case is.State != grapnel.TenancySealed || is.Move != a.tenancy.Move:
		return false, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is not sealed for this move in the other cell", tenant)
	case a.before.State != "" && a.before.State != grapnel.TenancyGone:
		return false, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is already %s in this cell", tenant, a.before.State)
	}
	a.shifts = is.Shifts
	if a.key, err = readIDKey(ctx, a.from); err != nil {
		return false, err
	}
	old, err := find(ctx, a.to, tenant)
	if err != nil {
		return false, err
	}
	table, err := left(ctx, a.to, old)
	if err == nil && table != "" {
		err = grapnel.Errorf(grapnel.CodeConflict, "this cell already has rows of tenant %s (%s)", tenant, table)
	}
	return false, err
}

// number computes the row ids that the tenant gets here.
func (a *arrival) number(ctx context.Context) (err error) {
	if a.by.targets, err = renumbered(ctx, a.to, &targetNaming, a.leaving.targets); err != nil {
		return err
	}
	if a.by.kinds, err = renumbered(ctx, a.to, &kindNaming, a.leaving.kinds); err != nil {
		return err
	}
	if a.there, err = numbersOf(ctx, a.from, a.leaving); err != nil {
		return err
	}
	if a.here, err = a.store.reserve(ctx, &a.there, a.by.offsets); err != nil {
		return err
	}
	a.arrived = &owned{tenant: a.leaving.tenant, kinds: make(map[int32]kind), targets: make(map[int32]string), keys: a.leaving.keys,
		first: a.here.of["entry"].first, last: a.here.of["entry"].last}
	for old, n := range a.by.kinds {
		a.arrived.kinds[n] = a.leaving.kinds[old]
	}
	for old, n := range a.by.targets {
		a.arrived.targets[n] = a.leaving.targets[old]
	}
	return nil
}

// renumbered gives the tenant's endpoints or kinds numbers here, unless they have them from an
// earlier stay. It returns the numbers here by those there.
func renumbered[N comparable](ctx context.Context, here pgx.Tx, of *naming[N], there map[int32]N) (map[int32]int32, error) {
	now := make(map[N]int32, len(there))
	if err := of.give(ctx, here, slices.SortedFunc(maps.Values(there), of.compare), now); err != nil {
		return nil, err
	}
	to := make(map[int32]int32, len(there))
	for number, name := range there {
		n, err := numbered(now, name)
		if err != nil {
			return nil, err
		}
		to[number] = n
	}
	return to, nil
}

const (
	newerQuery = "SELECT EXISTS (SELECT FROM event WHERE seq > $1 AND kind IN (SELECT number FROM kind WHERE tenant = $2))"
	hasArrived = `INSERT INTO tenancy AS t (tenant, state, move, other, since, shifts, targets, keys, first, last)
		VALUES ($1, 'arrived', $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (tenant) DO UPDATE SET before = to_json(t)::text, state = excluded.state, move = excluded.move, other = excluded.other, since = excluded.since,
			shifts = excluded.shifts, targets = excluded.targets, keys = excluded.keys, first = excluded.first, last = excluded.last`
	// addPurged adds the tenant's purged deliveries to the ledger: those created and no longer
	// stored.
	addPurged = `UPDATE ledger SET newest = greatest(newest, $2), purged = purged + (SELECT coalesce(sum(made - pending - delivered - failed - dropped
		- discarded - skipped), 0) FROM tally WHERE tenant = $1)`
)

// configured counts a tenant's configuration and documents.
var configured = "SELECT " + strings.Join(column(append([]string{"document"}, configTables...), func(table string) string {
	return "(SELECT count(*) FROM " + table + " WHERE tenant = $1)"
}), " + ")

// settle stores the state arrived, under the lock that excludes every other writer.
func (a *arrival) settle(ctx context.Context) error {
	tenant := a.tenancy.Tenant
	if _, err := a.to.Exec(ctx, aloneLock, lockClass, lockConfiguration); err != nil {
		return err
	}
	is, err := tenancyOf(ctx, a.to, tenant)
	if err != nil {
		return err
	}
	var newer bool
	if err := a.to.QueryRow(ctx, newerQuery, a.here.of["event"].last, tenant).Scan(&newer); err != nil {
		return err
	}
	var there, here int64
	if err := errors.Join(a.from.QueryRow(ctx, configured, tenant).Scan(&there), a.to.QueryRow(ctx, configured,
		tenant).Scan(&here)); err != nil {
		return err
	}
	if newer || here != there || is.State != a.before.State || is.Move != a.before.Move {
		return grapnel.Errorf(grapnel.CodeConflict, "tenant %s got new rows in this cell during the import", tenant)
	}
	shifts, err := json.Marshal(a.shifted())
	if err != nil {
		return err
	}
	b := new(pgx.Batch)
	b.Queue(hasArrived, tenant, a.tenancy.Move, a.tenancy.Other, codec.Micros(a.tenancy.Since), string(shifts),
		sortedKeys(a.arrived.targets, cmp.Compare[int32]), a.arrived.keys, a.arrived.first, a.arrived.last)
	b.Queue(addPurged, tenant, a.here.newest)
	b.Queue(sealThose)
	b.Queue("UPDATE configuration SET version = version + 1, arrivals = arrivals + 1")
	return a.to.SendBatch(ctx, b).Close()
}

// shifted are the shifts of earlier moves in the new row ids, and the shift of this move.
func (a *arrival) shifted() []grapnel.Shift {
	all := slices.Clone(a.shifts)
	for i := range all {
		all[i].By += a.by.offsets["delivery"]
	}
	if d := a.there.of["delivery"]; d.last > 0 {
		all = append(all, grapnel.Shift{First: d.first, Last: d.last, By: a.by.offsets["delivery"], Key: &a.key})
	}
	return all
}
