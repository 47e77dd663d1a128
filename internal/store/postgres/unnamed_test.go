package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
)

// lostSQL adds rows as an older program wrote them: an event of kind 0 with a pending and a
// finished delivery, and two deliveries and a lane of target 0.
const lostSQL = `INSERT INTO target (endpoint, shard) VALUES ('ep_1', 1);
	INSERT INTO kind (tenant, type, source) VALUES ('acme', 'invoice.paid', '');
	INSERT INTO event SELECT %[1]d, 'lost', 0, '', 1, 1, %[1]d, %[1]d + 1, 2, '', 0, 0, NULL, 'x', NULL;
	INSERT INTO event SELECT %[1]d + 1, 'there', 1, '', 1, 1, %[1]d + 2, %[1]d + 3, 2, '', 0, 0, NULL, 'x', NULL;
	INSERT INTO pending SELECT %[1]d, 1, %[1]d, 0, 0, 0, 1, 0, 1, 1, NULL, 0, 0, 0, true, false, 'schedule', '', '', '';
	INSERT INTO pending SELECT %[1]d + 2, 0, %[1]d + 1, 1, 0, 0, 1, 0, 1, 1, NULL, 0, 0, 0, true, false, 'schedule', '', '', '';
	INSERT INTO finished SELECT %[1]d + 1, 1, %[1]d, 0, 0, 0, 1, 1, 0, 0, 1, 200, 'delivered', 'none', '', '', NULL;
	INSERT INTO finished SELECT %[1]d + 3, 0, %[1]d + 1, 1, 0, 0, 1, 1, 0, 0, 1, 200, 'delivered', 'none', '', '', NULL;
	INSERT INTO lane (target, key, last) VALUES (0, 'k', 1);`

// TestRowsWithoutNames: such rows are counted, stay, and disturb no other work. No more of them can
// be written.
func TestRowsWithoutNames(t *testing.T) {
	t.Parallel()
	url := database(t)
	on(t, url, func(conn *pgx.Conn) error {
		if err := migrate(t.Context(), conn, stepsUpTo(t, "named")); err != nil {
			return err
		}
		_, err := conn.Exec(t.Context(), fmt.Sprintf(lostSQL, 5), pgx.QueryExecModeSimpleProtocol)
		return err
	})
	told := func(problems []string) {
		t.Helper()
		if len(problems) != 2 || !strings.HasPrefix(problems[0], "1 events name kind 0") ||
			!strings.Contains(problems[0], "(1 pending, 1 finished)") ||
			!strings.HasPrefix(problems[1], "1 pending and 1 finished deliveries and 1 lanes name target 0") {
			t.Errorf("problems: %q", problems)
		}
	}
	before, err := Inspect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	told(before.Problems)
	up, err := Migrate(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	told(up.Problems)

	s := open(t, url, Options{CallersClock: true})
	defer func() { _ = s.Close() }()
	s.days.worth = 0
	today := cross(t, s)
	publish(t, s, incomingTo("e", "k", "ep_1"))
	for what, first := range map[string]int64{"a day of before": 50, "a day of now": begins(today) + 1000} {
		refused := 0
		for sql := range strings.SplitSeq(fmt.Sprintf(lostSQL, first), ";\n") {
			sql = strings.TrimSuffix(strings.TrimSpace(sql), ";")
			if !strings.Contains(sql, "0, 0, 1,") && !strings.Contains(sql, "lane") && !strings.Contains(sql, "'lost'") {
				continue
			}
			if _, err := s.pool.Exec(t.Context(), sql); stateOf(err) != stateCheck {
				t.Errorf("%s: %s: %v", what, sql, err)
			}
			refused++
		}
		if refused != 6 {
			t.Errorf("%s: %d rows were tried", what, refused)
		}
	}
	// The first tables are expired, but lost rows could not be restored.
	keep := store.Keep{Now: at(0).Add(100 * aDay), For: 30 * aDay, Slack: aDay}
	if _, err := s.Purge(t.Context(), keep, 100); err != nil {
		t.Fatal(err)
	}
	keep.Now = keep.Now.Add(2 * time.Hour)
	if _, err := s.Purge(t.Context(), keep, 100); err != nil {
		t.Fatal(err)
	}
	after, err := Inspect(t.Context(), url)
	if err != nil || len(after.Problems) == 0 || !strings.HasPrefix(after.Problems[0], "1 events name kind 0") {
		t.Errorf("after a purge: %q, %v", after.Problems, err)
	}
}

// TestChecksOfNewDatabases: the checks are valid for all rows.
func TestChecksOfNewDatabases(t *testing.T) {
	t.Parallel()
	s := open(t, database(t), Options{})
	defer func() { _ = s.Close() }()
	var tables, valid int
	err := s.pool.QueryRow(t.Context(),
		"SELECT count(*), count(*) FILTER (WHERE convalidated) FROM pg_constraint WHERE conname = 'named'").Scan(&tables, &valid)
	if days := int(ahead) + 1; err != nil || tables != 3+2*days || valid != tables {
		t.Errorf("%d tables have the check, for %d it is valid, %v", tables, valid, err)
	}
}
