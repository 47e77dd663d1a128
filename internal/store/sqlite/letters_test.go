package sqlite

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// TestLettersOfBefore: in a database from before dead letters had a table of their own, the open
// ones are found.
func TestLettersOfBefore(t *testing.T) {
	path, conn := asBefore(t, "_letters.sql")
	err := conn.Exec(`INSERT INTO finished (seq, target, event, tenant, status, position, attempts, created, finished, replay_of, code, reason, last, outcome)
			WITH i(n, status) AS (VALUES (1, 3), (2, 4), (3, 4), (4, 4), (5, 4), (6, 5)) SELECT n, 1, n, 1, status, 0, 1, 0, 0, 0, 0, '', NULL, 0 FROM i;
		INSERT INTO mark (delivery, note) VALUES (2, 'seen');
		INSERT INTO mark (delivery, discarded_at) VALUES (3, 1);
		INSERT INTO mark (delivery, replayed_at, replay_result) VALUES (4, 1, 3), (5, 1, 4)`)
	if err == nil {
		err = migrate(conn, migrations, anySchema)
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := numberIn(t, s, "SELECT group_concat(target || seq, '') FROM (SELECT * FROM letter ORDER BY seq)"); n != 1215 {
		t.Errorf("the letters are %d, not 2 and 5 of the first", n)
	}
}

// TestLettersThatAreNone: earlier versions made a letter of each delivery that failed, also of one
// that had been repeated with success before. Backlogs does not count those that are stored.
func TestLettersThatAreNone(t *testing.T) {
	path := filepath.Join(fast(t), "grapnel.db")
	s, err := Open(t.Context(), path, Options{Ballast: -1})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	altered(t, path, func(conn *sqlite3.Conn) error {
		return conn.Exec(`INSERT INTO tenant VALUES (1, 'acme');
			INSERT INTO target VALUES (1, 'ep_a');
			INSERT INTO tally (target, tenant, status, n) VALUES (1, 1, 4, 3);
			INSERT INTO mark (delivery, replayed_at, replay_result) VALUES (1, 1, 4), (2, 1, 3);
			INSERT INTO letter VALUES (1, 1), (1, 2), (1, 3)`)
	})
	if s, err = Open(t.Context(), path, Options{Ballast: -1}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for limit, want := range map[int64]store.Backlog{
		1:             {Endpoint: "ep_a", Dead: 1, DeadMore: true},
		2:             {Endpoint: "ep_a", Dead: 2, DeadMore: true},
		math.MaxInt32: {Endpoint: "ep_a", Dead: 2},
	} {
		got, err := s.Backlogs(t.Context(), store.Everyone(), "", time.Now(), limit)
		if err != nil || !slices.Equal(got, []store.Backlog{want}) {
			t.Errorf("limit %d: %+v, %v, want %+v", limit, got, err, want)
		}
	}
}
