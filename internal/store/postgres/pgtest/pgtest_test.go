package pgtest

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestServer(t *testing.T) {
	s, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", s.dir, err)
		}
	}()
	at, err := s.Create(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(sql string) (answer string) {
		conn, err := pgx.Connect(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if fsync := ask("SHOW fsync"); fsync != "on" {
		t.Errorf("fsync is %s", fsync)
	}
	if err := s.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask("SELECT current_database()::text"); got != "one" {
		t.Errorf("after a crash the database is %s", got)
	}
}
