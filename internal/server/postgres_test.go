package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// onPostgres are the options of a server whose data are in a PostgreSQL of this test's own.
func onPostgres(t *testing.T) Options {
	t.Helper()
	server, err := pgtest.Start(t.Context(), pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Chdir(t.TempDir()) // where the admin key goes
	o := options("")
	if o.Store, err = server.Create(t.Context(), "grapnel"); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestPostgresKeepsEverything(t *testing.T) { replayGoesOn(t, onPostgres(t)) }

func TestPostgresMakesAKey(t *testing.T) {
	first := start(t, onPostgres(t))
	notice := first.AdminKey()
	if !notice.Made || notice.Path != filepath.Join("grapnel-data", "admin.key") {
		t.Errorf("the notice is %+v", notice)
	}
	text, err := os.ReadFile(notice.Path)
	if err != nil {
		t.Fatal(err)
	}
	if !opens(t, first, string(text[:len(text)-1])) {
		t.Error("the key in the file should open the server")
	}
}
