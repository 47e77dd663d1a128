package sqlite

import (
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

func (t *tx) tenant(name string) (int64, error) {
	bind := func(s *sqlite3.Stmt) *sqlite3.Stmt { return s.Text(name) }
	return numbered(t, t.names.tenants, name, t.q.tenant, t.q.addTenant, bind)
}

func (t *tx) kind(k kind) (int64, error) {
	bind := func(s *sqlite3.Stmt) *sqlite3.Stmt { return s.Text(k.tenant).Text(k.eventType).Text(k.source) }
	return numbered(t, t.names.kinds, k, t.q.kind, t.q.addKind, bind)
}

// cameIn records the block of events in which a source occurs.
func (t *tx) cameIn(source string, seq int64) error {
	block := seq >> rows.BlockBits
	if last, noted := t.names.blocks[source]; source == "" || noted && last == block {
		return nil
	}
	keep(t.names.blocks, t.bounds.Names, source, block)
	return t.q.addSourceBlock.Text(source).Int(block).Run()
}

func (t *tx) target(endpoint string) (int64, error) {
	bind := func(s *sqlite3.Stmt) *sqlite3.Stmt { return s.Text(endpoint) }
	return numbered(t, t.names.targets, endpoint, t.q.target, t.q.addTarget, bind)
}

// endpoint is the id behind a target's number.
func (t *tx) endpoint(target int64) (string, error) {
	return cached(t.names.ids, t.bounds.Names, target, func() (string, error) { return rows.LookUpText(t.q.targetID.Int(target)) })
}

// numbered returns the number of a name: that in the cache, or that in the table, to which give, an
// INSERT … RETURNING, adds it. bind binds the name to both statements.
func numbered[K comparable](t *tx, known map[K]int64, name K, look, give *sqlite3.Stmt,
	bind func(*sqlite3.Stmt) *sqlite3.Stmt) (int64, error) {
	return cached(known, t.bounds.Names, name, func() (int64, error) {
		n, err := rows.Integer(bind(look))
		if err == nil && n == 0 {
			n, err = rows.LookUp(bind(give))
		}
		return n, err
	})
}
