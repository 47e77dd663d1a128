package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// newestSQL is the highest row id of any delivery. The sequence may be ahead of it, after
// transactions that did not commit.
const newestSQL = "(SELECT greatest((SELECT max(seq) FROM pending), (SELECT max(seq) FROM finished), newest) FROM ledger)"

const ageQuery = "SELECT version, " + newestSQL + " FROM configuration"

// Version returns what Config would return as version and newest.
func (s *reader) Version(ctx context.Context) (version, newest int64, err error) {
	were := s.highest.now()
	if err = s.owning.QueryRow(ctx, ageQuery).Scan(&version, &newest); err == nil {
		err = s.checkVersion(version, were)
	}
	return version, newest, readError(ctx, err)
}

// changesQuery is one statement, so it sees one snapshot. A version without a row in
// configuration_change is too old to be listed.
const changesQuery = `SELECT c.version, ` + newestSQL + `, l.version, l.kind, l.id, o.revision, o.body, o.tenant FROM configuration c
	LEFT JOIN configuration_change l ON l.version > $1
	LEFT JOIN LATERAL (
		SELECT revision, body, tenant FROM endpoint WHERE l.kind = 'endpoint' AND id = l.id
		UNION ALL SELECT revision, body, tenant FROM source WHERE l.kind = 'source' AND id = l.id
		UNION ALL SELECT revision, body, tenant FROM policy WHERE l.kind = 'policy' AND id = l.id
		UNION ALL SELECT revision, body, tenant FROM event_type WHERE l.kind = '` + eventTypeKind + `' AND id = l.id
		UNION ALL SELECT 0, body, tenant FROM api_key WHERE l.kind = 'key' AND id = l.id
		UNION ALL SELECT 0, body, tenant FROM access_record WHERE l.kind = '` + accessKind + `' AND id = l.id) o ON true
	ORDER BY l.kind, l.id, l.version`

// The names of prepared statements. Planning changesQuery takes four times as long as running it.
const (
	changesName = "configuration_changes"
	plannedName = "configuration_planned"
)

// Changes joins the list of changes with the current state of each object. Without planned it would
// scan whole tables, because a new list has no statistics. It takes one round trip; on a
// connection's first call one more, to prepare the plan.
func (s *reader) Changes(ctx context.Context, since int64) (store.ConfigChanges, bool, error) {
	ctx, done := s.pool.bound(ctx)
	defer done()
	d, told, err := s.changesSince(ctx, since)
	if err != nil {
		return store.ConfigChanges{}, false, readError(ctx, err)
	}
	if told != d.Version-since {
		return store.ConfigChanges{Version: d.Version, Newest: d.Newest}, false, nil
	}
	return d, true, nil
}

// changesSince also returns the number of versions in the list.
func (s *reader) changesSince(ctx context.Context, since int64) (d store.ConfigChanges, told int64, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return d, 0, err
	}
	defer s.giveBack(conn)
	set, query := "SELECT "+planned, changesQuery
	if !s.pool.identify { // a pooler uses another connection for each transaction
		if _, err := conn.Conn().Prepare(ctx, plannedName, set); err != nil {
			return d, 0, err
		}
		if _, err := conn.Conn().Prepare(ctx, changesName, query); err != nil {
			return d, 0, err
		}
		set, query = plannedName, changesName
	}
	were := s.highest.now()
	versions := map[int64]bool{}
	b := new(pgx.Batch)
	b.Queue("begin read only")
	s.pool.queuePrelude(b)
	b.Queue(set)
	b.Queue(query, since).Query(func(got pgx.Rows) error { return s.readChanges(ctx, got, &d, versions) })
	b.Queue("commit")
	if err = conn.SendBatch(ctx, b).Close(); err == nil {
		err = s.checkVersion(d.Version, were)
	}
	return d, int64(len(versions)), err
}

// readChanges also records the versions that the list contains.
func (s *reader) readChanges(ctx context.Context, got pgx.Rows, d *store.ConfigChanges, told map[int64]bool) error {
	var version, revision *int64
	var kind, id, tenant *string
	var body []byte
	var last [2]string
	return rows.Answered(got).Try([]any{&d.Version, &d.Newest, &version, &kind, &id, &revision, &body, &tenant}, func() error {
		if version == nil {
			return nil
		}
		told[*version] = true
		if last == [2]string{*kind, *id} {
			return nil // changed twice
		}
		last = [2]string{*kind, *id}
		if revision != nil {
			var err error
			if body, err = s.sealer.Open(ctx, seal.At{Tenant: *tenant, Kind: *kind, ID: *id}, body); err != nil {
				return err
			}
		}
		switch *kind {
		case "endpoint":
			return edit(&d.Endpoints, *id, revision, body, codec.DecodeEndpoint)
		case "source":
			return edit(&d.Sources, *id, revision, body, codec.DecodeSource)
		case "policy":
			return edit(&d.Policies, *id, revision, body, codec.DecodePolicy)
		case eventTypeKind:
			return edit(&d.Types, *id, revision, body, codec.DecodeEventType)
		case "key":
			return edit(&d.Keys, *id, revision, body, codec.DecodeKey)
		case accessKind:
			return edit(&d.Access, *id, revision, body, codec.DecodeAccess)
		}
		return fmt.Errorf("postgres: configuration_change has the unknown kind %q", *kind)
	})
}

// edit adds the current state of one object; a nil revision means that it was deleted.
func edit[T any](to *store.Edits[T], id string, revision *int64, body []byte, decode func(int64, []byte) (T, error)) error {
	if revision == nil {
		to.Removed = append(to.Removed, id)
		return nil
	}
	is, err := decode(*revision, body)
	to.Written = append(to.Written, is)
	return err
}

// Config returns all objects, sorted by id, from one snapshot. Numbers of names are forgotten:
// those of a tenant may have been deleted (EraseTenant).
func (s *reader) Config(ctx context.Context) (c store.Config, err error) {
	defer s.names.forget()
	err = s.snapshot(ctx, s.pool, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, ageQuery).Scan(&c.Version, &c.Newest)
		c.Endpoints = bodies(ctx, tx, s.sealer, &err, &endpoints, "revision", codec.DecodeEndpoint)
		c.Sources = bodies(ctx, tx, s.sealer, &err, &sources, "revision", codec.DecodeSource)
		c.Policies = bodies(ctx, tx, s.sealer, &err, &policies, "revision", codec.DecodePolicy)
		c.Types = bodies(ctx, tx, s.sealer, &err, &eventTypes, "revision", codec.DecodeEventType)
		c.Keys = bodies(ctx, tx, s.sealer, &err, &keys, "0::bigint", codec.DecodeKey)
		c.Access = bodies(ctx, tx, s.sealer, &err, &accessRecords, "0::bigint", codec.DecodeAccess)
		return err
	})
	return c, err
}

// bodies reads the objects of a kind, sorted by id, unless an earlier query has set err.
func bodies[T any](ctx context.Context, tx pgx.Tx, sealer *seal.Sealer, err *error, of *objects, revisions string,
	decode func(revision int64, body []byte) (T, error)) (all []T) {
	if *err != nil {
		return nil
	}
	var revision int64
	var body []byte
	var tenant, id string
	query := "SELECT " + revisions + ", body, tenant, id FROM " + of.table + " ORDER BY id"
	*err = rows.Ask(ctx, tx, query).Try([]any{&revision, &body, &tenant, &id}, func() error {
		plain, err := sealer.Open(ctx, seal.At{Tenant: tenant, Kind: of.kind, ID: id}, body)
		if err != nil {
			return err
		}
		one, err := decode(revision, plain)
		all = append(all, one)
		return err
	})
	return all
}

// snapshot runs do in one transaction, so that all its reads see one snapshot.
func (s *database) snapshot(ctx context.Context, p *pool, do func(context.Context, pgx.Tx) error) error {
	ctx, done := p.bound(ctx)
	defer done()
	err := pgx.BeginTxFunc(ctx, p, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error { return do(ctx, tx) })
	return readError(ctx, err)
}
