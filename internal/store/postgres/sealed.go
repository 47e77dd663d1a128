package postgres

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

const (
	dataKeysQuery  = "SELECT tenant, master, wrapped FROM data_key"
	addDataKeySQL  = "INSERT INTO data_key (tenant, master, wrapped) VALUES ($1, $2, $3) ON CONFLICT (tenant) DO NOTHING"
	wrapDataKeySQL = "UPDATE data_key SET master = $2, wrapped = $3 WHERE tenant = $1 AND master = $4"
)

func readDataKey(row pgx.Row) (k seal.DataKey, err error) {
	err = row.Scan(&k.Tenant, &k.Master, &k.Wrapped)
	return k, err
}

// The calls about data keys use the connections of leases: a call that reads a sealed row may hold
// one of the others, and would wait for itself.

// DataKeys returns all of them.
func (s *database) DataKeys(ctx context.Context) ([]seal.DataKey, error) {
	all, err := rows.Collect(rows.Ask(ctx, s.owning, dataKeysQuery), readDataKey)
	return all, readError(ctx, err)
}

// DataKey returns that of a tenant; false: it has none.
func (s *database) DataKey(ctx context.Context, tenant string) (seal.DataKey, bool, error) {
	k, err := readDataKey(s.owning.QueryRow(ctx, dataKeysQuery+" WHERE tenant = $1", tenant))
	if rows.IsNone(err) {
		return seal.DataKey{}, false, nil
	}
	return k, err == nil, readError(ctx, err)
}

// AddDataKey stores a tenant's first data key. Another node may have been faster.
func (s *database) AddDataKey(ctx context.Context, k seal.DataKey) error {
	_, err := s.owning.Exec(ctx, addDataKeySQL, k.Tenant, k.Master, k.Wrapped)
	return readError(ctx, err)
}

// WrapDataKey replaces a data key that the other master key wraps.
func (s *database) WrapDataKey(ctx context.Context, k seal.DataKey, other string) error {
	_, err := s.owning.Exec(ctx, wrapDataKeySQL, k.Tenant, k.Master, k.Wrapped, other)
	return readError(ctx, err)
}

// sealable is a table of rows that are sealed: SQL for what a row's bytes are bound to, and for
// which rows are in clear.
type sealable struct{ table, kind, body, inClear string }

const clearBytes = "substr(body, 1, 1) <> '\\xe5'"

func sealables() []sealable {
	all := []sealable{
		{"document", "'" + store.SealedDocument + "' || kind", "body", clearBytes},
		{"peer", "'peer'", "secret", "NOT starts_with(secret, '" + sealedText + "')"},
	}
	for _, of := range []*objects{&endpoints, &sources, &policies, &eventTypes, &keys, &accessRecords} {
		all = append(all, sealable{of.table, "'" + of.kind + "'", "body", clearBytes})
	}
	return all
}

// bytes is SQL for the bytes in clear.
func (s *sealable) bytes() string {
	if s.body != "body" {
		return "convert_to(" + s.body + ", 'UTF8')"
	}
	return s.body
}

func (s *sealable) query() string {
	at := "tenant, " + s.kind + ", id, "
	if s.body != "body" {
		at = "'', " + s.kind + ", '', "
	}
	return "SELECT ctid::text, " + at + s.bytes() + " FROM " + s.table + " WHERE " + s.inClear + " LIMIT $1"
}

// sealTables seals the rows that are in clear: those from before there was a master key. Each row
// is replaced by itself, so several nodes may do it, and an interrupted call goes on when a store
// is opened again. PostgreSQL keeps the old rows until it has vacuumed.
func (s *database) sealTables(ctx context.Context) error {
	if s.sealer == nil {
		return nil
	}
	sealed := int64(0)
	for _, of := range sealables() {
		for {
			n, err := s.sealSome(ctx, &of)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			sealed += n
		}
	}
	if sealed > 0 {
		s.log.Info("sealed what the database had in clear; VACUUM FULL removes the old rows from its files", "rows", sealed)
	}
	return nil
}

// sealSome returns how many rows it has replaced. A row that has changed meanwhile is found again.
func (s *database) sealSome(ctx context.Context, of *sealable) (sealed int64, err error) {
	type row struct {
		place string
		at    seal.At
		plain []byte
	}
	some, err := rows.Collect(rows.Ask(ctx, s.chores, of.query(), s.bounds.ListPage), func(got pgx.Row) (r row, err error) {
		err = got.Scan(&r.place, &r.at.Tenant, &r.at.Kind, &r.at.ID, &r.plain)
		return r, err
	})
	for _, r := range some {
		if err != nil {
			return sealed, err
		}
		var body []byte
		if body, err = s.sealer.Seal(ctx, r.at, r.plain); err != nil {
			return sealed, err
		}
		var value any = body
		if of.body != "body" {
			value = sealedText + base64.StdEncoding.EncodeToString(body)
		}
		update := "UPDATE " + of.table + " SET " + of.body + " = $1 WHERE ctid = $2::tid AND " + of.bytes() + " = $3"
		_, err = s.chores.Exec(ctx, update, value, r.place, r.plain)
		sealed++
	}
	return sealed, err
}

// sealedText begins a sealed value of a column of text.
const sealedText = "sealed:"

// openText opens the secret of nodes.
func (s *database) openText(ctx context.Context, text string) (string, error) {
	encoded, is := strings.CutPrefix(text, sealedText)
	if !is {
		return text, nil
	}
	sealed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", err
	}
	plain, err := s.sealer.Open(ctx, seal.At{Kind: "peer"}, sealed)
	return string(plain), err
}
