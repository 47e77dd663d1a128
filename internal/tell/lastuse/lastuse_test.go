package lastuse

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// counting counts the writes of a store, and can refuse them.
type counting struct {
	Store
	writes int
	down   bool
}

func (c *counting) PutDocuments(ctx context.Context, s store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	if c.down {
		return store.Put{}, errors.New("away")
	}
	c.writes += len(writes)
	return c.Store.PutDocuments(ctx, s, writes, with)
}

// TestOneWriteForEachKeyAndMinute: however often a key is used, a node stores its last use once in
// each round; other nodes and later starts read it, and a deleted key leaves nothing.
func TestOneWriteForEachKeyAndMinute(t *testing.T) {
	db := &counting{Store: memory.New()}
	exists := true
	node := func() *Keeper {
		return New(Options{Store: db, Exists: func(string) bool { return exists }, Log: slog.New(slog.DiscardHandler)})
	}
	flush := func(k *Keeper, writes int) {
		t.Helper()
		db.writes = 0
		if err := k.Flush(t.Context()); (err != nil) != db.down || db.writes != writes {
			t.Errorf("%v after %d writes, want %d", err, db.writes, writes)
		}
	}
	a, b, at := node(), node(), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		a.Saw("key_1", at.Add(time.Duration(i)*time.Millisecond))
		a.Saw("key_2", at)
	}
	if a.Last("key_1") != at || !b.Last("key_1").IsZero() {
		t.Error(a.Last("key_1"), b.Last("key_1"))
	}
	flush(a, 2)
	flush(a, 0)
	b.Saw("key_1", at.Add(time.Minute))
	db.down = true
	flush(b, 0)
	db.down = false
	flush(b, 1)
	flush(a, 0)
	if c := node(); c.Flush(t.Context()) != nil || c.Last("key_1") != at.Add(time.Minute) || a.Last("key_1") != c.Last("key_1") ||
		c.Last("key_2") != at {
		t.Error(a.Last("key_1"), c.Last("key_1"), c.Last("key_2"))
	}
	exists = false
	flush(a, 2)
	if !a.Last("key_1").IsZero() {
		t.Error("a deleted key was used")
	}
}
