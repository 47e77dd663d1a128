//go:build prove

package server

import (
	"context"
	"sync"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// shared is the PostgreSQL that tests share. The first that asks starts it.
var shared = sync.OnceValues(func() (*pgtest.Server, error) {
	return pgtest.Start(context.Background(), pgtest.Options{})
})

// databases creates empty databases in the PostgreSQL that tests share and drops them at the test's
// end. A test that kills PostgreSQL, or needs settings, starts its own.
func databases(t *testing.T, names ...string) *pgtest.Server {
	t.Helper()
	db, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := db.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
				t.Error(err)
			}
		})
	}
	return db
}
