package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const dataKeysQuery = "SELECT tenant, master, wrapped FROM data_key"

func readDataKey(q *sqlite3.Stmt) (seal.DataKey, error) {
	return seal.DataKey{Tenant: q.String(0), Master: q.String(1), Wrapped: q.Bytes(2)}, nil
}

// DataKeys returns all of them.
func (s *reader) DataKeys(ctx context.Context) ([]seal.DataKey, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]seal.DataKey, error) { return rows.Each(r.Query(dataKeysQuery), readDataKey) })
}

// DataKey returns that of a tenant; false: it has none.
func (s *reader) DataKey(ctx context.Context, tenant string) (seal.DataKey, bool, error) {
	found, err := rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]seal.DataKey, error) {
		return rows.Each(r.Query(dataKeysQuery+" WHERE tenant = ?").Text(tenant), readDataKey)
	})
	if err != nil || len(found) == 0 {
		return seal.DataKey{}, false, err
	}
	return found[0], true, nil
}
