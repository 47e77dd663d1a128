package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/base/seal"
)

const (
	addDataKeySQL  = "INSERT INTO data_key (tenant, master, wrapped) VALUES (?, ?, ?) ON CONFLICT (tenant) DO NOTHING"
	wrapDataKeySQL = "UPDATE data_key SET master = ?, wrapped = ? WHERE tenant = ? AND master = ?"
)

// AddDataKey stores a tenant's first data key.
func (s *changer) AddDataKey(ctx context.Context, k seal.DataKey) error {
	return s.write(ctx, &change{do: func(t *tx) error {
		return t.conn.Query(addDataKeySQL).Text(k.Tenant).Text(k.Master).Blob(k.Wrapped).Run()
	}})
}

// WrapDataKey replaces a data key that the other master key wraps.
func (s *changer) WrapDataKey(ctx context.Context, k seal.DataKey, other string) error {
	return s.write(ctx, &change{do: func(t *tx) error {
		return t.conn.Query(wrapDataKeySQL).Text(k.Master).Blob(k.Wrapped).Text(k.Tenant).Text(other).Run()
	}})
}
