package postgres

import (
	"bytes"
	"testing"
)

// TestEachDatabaseHasItsKey: nodes of one database have the same key, which makes the same ids;
// another database has a key of its own.
func TestEachDatabaseHasItsKey(t *testing.T) {
	t.Parallel()
	all := nodes(t, 2)
	a, b, other := all[0].IDs(), all[1].IDs(), nodes(t, 1)[0].IDs()
	if key := a.Key(); len(key) != 32 || !bytes.Equal(key, b.Key()) || bytes.Equal(key, other.Key()) {
		t.Error("the key of a database is not its own, or not the same at its nodes")
	}
	if got, err := b.Read(a.Delivery(at(1), 7)); err != nil || got.Seq != 7 {
		t.Errorf("another node reads %v, %v", got, err)
	}
}
