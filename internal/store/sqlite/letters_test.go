package sqlite

import (
	"errors"
	"testing"
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
