// Package lastuse remembers when each API key was last used, to the minute.
//
// Uses are noted in memory. Once a minute a Keeper reads and stores the last use of each key that
// was used since, all of them in one commit. So a key costs a node at most one read and one write a
// minute, and a request costs none. The uses that other nodes have stored are read when people look
// at keys.
//
// It does not promise to know the last minute before a kill.
package lastuse

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
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
	Document(ctx context.Context, scope store.Scope, tenant, kind, id string) (store.Document, error)
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
	read time.Time            // when all documents were read
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

// Saw notes a use of a key. Each request comes here, so a use within the second of the last one
// costs two lookups.
func (k *Keeper) Saw(key string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.new[key] && now.Sub(k.last[key]) < time.Second {
		return
	}
	k.last[key], k.new[key] = now.UTC().Truncate(time.Second), true
}

// Last is the last use of a key; zero: none is known.
func (k *Keeper) Last(key string) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[key]
}

// Run writes until ctx ends, and once more then. It reads the documents once.
func (k *Keeper) Run(ctx context.Context) {
	for failures, more := 0, true; more; {
		if err := k.round(context.WithoutCancel(ctx)); err == nil {
			failures = 0
		} else if failures++; backoff.Tells(failures) {
			k.o.Log.Warn("storing the last uses of API keys failed; retrying", "failures", failures, "err", err)
		}
		if more = backoff.Wait(ctx.Done(), k.bounds.Every); !more {
			_ = k.Flush(context.WithoutCancel(ctx)) // a failure loses a minute
		}
	}
}

func (k *Keeper) round(ctx context.Context) error {
	k.mu.Lock()
	known := !k.read.IsZero()
	k.mu.Unlock()
	if !known {
		if err := k.Read(ctx); err != nil {
			return err
		}
	}
	return k.Flush(ctx)
}

// Read learns what other nodes have stored, unless it did so lately.
func (k *Keeper) Read(ctx context.Context) error {
	now := k.o.Now()
	k.mu.Lock()
	fresh := !k.read.IsZero() && now.Sub(k.read) < k.bounds.Every
	k.mu.Unlock()
	if fresh {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.bounds.Write)
	defer cancel()
	for after := ""; ; {
		page, err := k.o.Store.DocumentList(ctx, store.Everyone(), store.DocumentQuery{Kind: kind, After: after, Limit: k.bounds.Page})
		if err != nil {
			return err
		}
		k.learn(page)
		if len(page) < k.bounds.Page {
			break
		}
		after = page[len(page)-1].ID
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.read = now
	return nil
}

func (k *Keeper) learn(page []store.Document) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range page {
		if d.At.After(k.last[d.ID]) {
			k.last[d.ID] = d.At
		}
	}
}

// Flush stores the last uses since the last call, and deletes the documents of keys that do not
// exist any more. It reads only these.
func (k *Keeper) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.bounds.Write)
	defer cancel()
	due := k.due()
	for some := range slices.Chunk(due, k.bounds.Page) {
		if err := k.write(ctx, some); err != nil {
			k.again(due) // another node may have written at the same moment
			return err
		}
	}
	return nil
}

// due are the keys that were used since the last call, and known ones that do not exist any more.
func (k *Keeper) due() (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.last {
		if k.new[id] || !k.o.Exists(id) {
			ids = append(ids, id)
		}
	}
	clear(k.new)
	return ids
}

func (k *Keeper) again(ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		k.new[id] = true
	}
}

func (k *Keeper) write(ctx context.Context, ids []string) error {
	var writes []store.DocumentWrite
	for _, id := range ids {
		d, err := k.o.Store.Document(ctx, store.Everyone(), "", kind, id)
		if grapnel.CodeOf(err) == grapnel.CodeNotFound {
			d, err = store.Document{Kind: kind, ID: id}, nil
		}
		if err != nil {
			return err
		}
		switch at := k.Last(id); {
		case !k.o.Exists(id):
			if d.Revision > 0 {
				writes = append(writes, store.DocumentWrite{Document: d, Delete: true})
			}
		case at.After(d.At):
			d.At, d.Body = at, []byte("{}")
			writes = append(writes, store.DocumentWrite{Document: d})
		default:
			k.learn([]store.Document{d})
		}
	}
	if len(writes) > 0 {
		if _, err := k.o.Store.PutDocuments(ctx, store.Everyone(), writes, store.With{}); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range ids {
		if !k.o.Exists(id) {
			delete(k.last, id)
		}
	}
	return nil
}
