package sqlite

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// inClear are rows that are not sealed. seal's mark is E5.
const inClear = " WHERE substr(body, 1, 1) <> x'E5'"

// sealable is a table of rows that are sealed, with what a row's bytes are bound to.
type sealable struct{ table, kind string }

func (s sealable) query() string {
	return "SELECT rowid, tenant, " + s.kind + ", id, body FROM " + s.table + inClear + " LIMIT ?"
}

func sealables() []sealable {
	all := []sealable{{"document", "'" + store.SealedDocument + "' || kind"}}
	for _, of := range objectKinds {
		all = append(all, sealable{of.table, "'" + of.what + "'"})
	}
	return all
}

// sealTables seals the rows that are in clear: those from before there was a master key. Each row
// is replaced by itself, so an interrupted call goes on when the store is opened again. Afterwards
// no file has the bytes in clear (erased). On a full disk it leaves them for the next start.
func (s *keeper) sealTables(ctx context.Context) error {
	if s.sealer == nil {
		return nil
	}
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	sealed := 0
	for _, of := range sealables() {
		any, err := rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (int64, error) {
			return rows.Integer(r.Query("SELECT EXISTS (SELECT 1 FROM " + of.table + inClear + ")"))
		})
		if err == nil && any == 1 {
			err = s.erased(ctx, func() error {
				n, err := s.sealTable(ctx, of)
				sealed += n
				return err
			})
		}
		if grapnel.CodeOf(err) == grapnel.CodeStorageFull {
			s.log.Warn("the disk is full: rows of the database stay in clear until the next start", "table", of.table)
			return nil
		}
		if err != nil {
			return err
		}
	}
	if sealed > 0 {
		s.log.Info("sealed what the database had in clear", "rows", sealed)
	}
	return nil
}

// sealTable seals a few rows in each transaction.
func (s *keeper) sealTable(ctx context.Context, of sealable) (sealed int, err error) {
	type row struct {
		number        int64
		at            seal.At
		plain, sealed []byte
	}
	for {
		some, err := rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]row, error) {
			return rows.Each(r.Query(of.query()).Int(int64(s.bounds.Cleared)), func(q *sqlite3.Stmt) (row, error) {
				return row{q.Integer(0), seal.At{Tenant: q.String(1), Kind: q.String(2), ID: q.String(3)}, q.Bytes(4), nil}, nil
			})
		})
		for i := range some {
			if err == nil {
				some[i].sealed, err = s.sealer.Seal(ctx, some[i].at, some[i].plain)
			}
		}
		if err != nil || len(some) == 0 {
			return sealed, err
		}
		err = s.write(ctx, &change{do: func(t *tx) error {
			for _, r := range some {
				q := t.conn.Query("UPDATE " + of.table + " SET body = ? WHERE rowid = ? AND body = ?")
				if err := q.Blob(r.sealed).Int(r.number).Blob(r.plain).Run(); err != nil {
					return err
				}
			}
			return nil
		}})
		if err != nil {
			return sealed, err
		}
		sealed += len(some)
	}
}
