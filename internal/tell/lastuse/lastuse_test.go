package lastuse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// counting counts the writes of a store, and can refuse them.
type counting struct {
	Store
	writes, reads, lists int
	down                 bool
}

func (c *counting) Document(ctx context.Context, s store.Scope, tenant, kind, id string) (store.Document, error) {
	c.reads++
	return c.Store.Document(ctx, s, tenant, kind, id)
}

func (c *counting) DocumentList(ctx context.Context, s store.Scope, q store.DocumentQuery) ([]store.Document, error) {
	c.lists++
	return c.Store.DocumentList(ctx, s, q)
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
	c := node()
	for _, k := range []*Keeper{a, c} {
		if k.Read(t.Context()) != nil || k.Last("key_1") != at.Add(time.Minute) || k.Last("key_2") != at {
			t.Error(k.Last("key_1"), k.Last("key_2"))
		}
	}
	exists = false
	flush(c, 2)
	if !c.Last("key_1").IsZero() {
		t.Error("a deleted key was used")
	}
}

// TestAWriteReadsOnlyUsedKeys: however many keys there are. All documents are read at the start,
// and when people look at keys, at most once a minute.
func TestAWriteReadsOnlyUsedKeys(t *testing.T) {
	db := &counting{Store: memory.New()}
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	k := New(Options{Store: db, Exists: func(string) bool { return true }, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return at }})
	for i := range 1000 {
		k.Saw(fmt.Sprint("key_", i), at)
	}
	if err := k.round(t.Context()); err != nil || db.writes != 1000 || db.lists != 1 {
		t.Fatal(err, db.writes, db.lists)
	}
	for range 10 {
		at = at.Add(time.Minute)
		db.reads, db.lists = 0, 0
		k.Saw("key_7", at)
		if err := k.round(t.Context()); err != nil || db.reads != 1 || db.lists != 0 {
			t.Error(err, db.reads, db.lists)
		}
	}
	for range 10 {
		if err := k.Read(t.Context()); err != nil || db.lists != 4 { // pages of 256
			t.Error(err, db.lists)
		}
	}
}
