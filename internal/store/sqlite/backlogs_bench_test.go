package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// BenchmarkBacklogs measures Backlogs with a million pending heads of a thousand endpoints, due
// over 25 hours, and a million dead letters. Rows of events are absent: Backlogs reads none.
//
//	go test ./internal/store/sqlite -run '^$' -bench Backlogs -benchtime 5x
func BenchmarkBacklogs(b *testing.B) {
	path := filepath.Join(b.TempDir(), "grapnel.db")
	open := func() *Store {
		s, err := Open(b.Context(), path, Options{Ballast: -1})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	if err := open().Close(); err != nil {
		b.Fatal(err)
	}
	conn, err := sqlite3.Open(path, sqlite3.ReadWrite)
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	for _, sql := range []string{
		"BEGIN",
		"INSERT INTO tenant VALUES (1, 'acme')",
		"CREATE TEMP TABLE n AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < 1000000) SELECT i FROM c",
		"INSERT INTO target (number, endpoint) SELECT i, 'ep_' || i FROM n WHERE i <= 1000",
		`INSERT INTO pending (seq, target, event, tenant, head, blocked, due, anchor, position, attempts, created, replay_of, "trigger", code, lane, kind)
			SELECT i, 1 + i % 1000, i, 1, 1, 0, strftime('%s', 'now') * 1000000 + (i * 7919 % 90000) * 1000000, 0, 0, 3, i, 0, 1, 0, '', 1 FROM n`,
		"INSERT INTO tally (target, tenant, status, n, made) SELECT i, 1, 1, 1000, 2000 FROM n WHERE i <= 1000",
		"INSERT INTO letter SELECT 1 + i % 1000, 2000000 + i, 1 FROM n",
		"INSERT INTO tally (target, tenant, status, n) SELECT i, 1, 4, 1000 FROM n WHERE i <= 1000",
		"COMMIT",
	} {
		if err := conn.Exec(sql); err != nil {
			b.Fatal(err)
		}
	}
	if err := conn.Close(); err != nil {
		b.Fatal(err)
	}
	s := open()
	defer func() { _ = s.Close() }()
	for _, c := range []struct {
		name  string
		limit int64
	}{{"all", 1_000_000}, {"limit=100000", 100_000}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				list, err := s.Backlogs(b.Context(), store.Everyone(), "", now, c.limit)
				if err != nil || len(list) != 1000 || list[0].More == (c.limit == 1_000_000) {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}
