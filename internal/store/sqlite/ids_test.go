package sqlite

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestEachDatabaseHasItsKey: each database has a key of its own, which never changes.
func TestEachDatabaseHasItsKey(t *testing.T) {
	dir := fast(t)
	key := func(name string) grapnel.IDKey {
		s, err := Open(t.Context(), filepath.Join(dir, name), Options{Ballast: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.IDs().Key()
	}
	one, again, other := key("one.db"), key("one.db"), key("other.db")
	if len(one) != 32 || !bytes.Equal(one, again) || bytes.Equal(one, other) {
		t.Error("the key of a database is not its own, or not the same for ever")
	}
}
