// Package lastuse remembers when each API key was last used, to the minute.
//
// Uses are noted in memory. Once a minute a Keeper stores the last use of each key that was used
// since, all of them in one commit, and reads those that other nodes have stored. So a key costs a
// node at most one write a minute, and a request costs none.
//
// It does not promise to know the last minute before a kill.
package lastuse

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Bounds are the sizes and time limits of this package; see package bounds.
type Bounds struct {
	Every time.Duration `bound:"1m" tiny:"50ms"` // between two writes
	Write time.Duration `bound:"5s" tiny:"5s"`   // for the calls of one write
	Page  int           `bound:"256" least:"2"`  // documents read or written at once
}

// Store has the documents; store.Documents is one.
type Store interface {
	DocumentList(ctx context.Context, scope store.Scope, q store.DocumentQuery) ([]store.Document, error)
	PutDocuments(ctx context.Context, scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error)
}

// Options configure a Keeper. Store, Exists and Log are required.
type Options struct {
	Bounds Bounds
	Store  Store
	Exists func(key string) bool // false: the document of the key is deleted
	Log    *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Keeper has the last uses.
type Keeper struct {
	o      Options
	bounds Bounds

	mu   sync.Mutex
	last map[string]time.Time // by key, of this node and, as of the last read, of others
	new  map[string]bool      // used here since the last write
}

// kind is that of the documents: one for each key, whose At is its last use.
const kind = "key_use"

// New returns a Keeper.
func New(o Options) *Keeper {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Keeper{o: o, bounds: bounds.Fill(o.Bounds), last: map[string]time.Time{}, new: map[string]bool{}}
}

// Saw notes a use of a key.
func (k *Keeper) Saw(key string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last[key], k.new[key] = now.UTC().Truncate(time.Second), true
}

// Last is the last use of a key; zero: none is known.
func (k *Keeper) Last(key string) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[key]
}

// Run reads and writes until ctx ends, and once more then.
func (k *Keeper) Run(ctx context.Context) {
	for failures, more := 0, true; more; {
		if err := k.Flush(context.WithoutCancel(ctx)); err == nil {
			failures = 0
		} else if failures++; backoff.Tells(failures) {
			k.o.Log.Warn("storing the last uses of API keys failed; retrying", "failures", failures, "err", err)
		}
		if more = backoff.Wait(ctx.Done(), k.bounds.Every); !more {
			_ = k.Flush(context.WithoutCancel(ctx)) // what is lost is a minute
		}
	}
}

// Flush reads the stored uses, and stores those of this node that are later.
func (k *Keeper) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.bounds.Write)
	defer cancel()
	stored := map[string]store.Document{}
	for after := ""; ; {
		page, err := k.o.Store.DocumentList(ctx, store.Everyone(), store.DocumentQuery{Kind: kind, After: after, Limit: k.bounds.Page})
		if err != nil {
			return err
		}
		for _, d := range page {
			stored[d.ID], after = d, d.ID
		}
		if len(page) < k.bounds.Page {
			break
		}
	}
	writes, used := k.due(stored)
	for len(writes) > 0 {
		n := min(len(writes), k.bounds.Page)
		if _, err := k.o.Store.PutDocuments(ctx, store.Everyone(), writes[:n], store.With{}); err != nil {
			k.again(used) // another node may have written at the same moment
			return err
		}
		writes = writes[n:]
	}
	return nil
}

// due takes over later uses, and returns the writes that are to be made and the keys used here.
func (k *Keeper) due(stored map[string]store.Document) (writes []store.DocumentWrite, used map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	used, k.new = k.new, map[string]bool{}
	for id, d := range stored {
		if !k.o.Exists(id) {
			writes = append(writes, store.DocumentWrite{Document: d, Delete: true})
			delete(k.last, id)
			delete(used, id)
		} else if d.At.After(k.last[id]) {
			k.last[id] = d.At
		}
	}
	for id := range used {
		if d := stored[id]; k.o.Exists(id) && k.last[id].After(d.At) {
			writes = append(writes, store.DocumentWrite{Document: store.Document{Kind: kind, ID: id, Revision: d.Revision, At: k.last[id],
				Body: []byte("{}")}})
		}
	}
	return writes, used
}

// again notes uses that could not be stored.
func (k *Keeper) again(used map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range used {
		k.new[id] = true
	}
}
