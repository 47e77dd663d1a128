package issue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// documents is a store of documents with optimistic revisions.
type documents struct {
	mu     sync.Mutex
	all    map[string]store.Document
	audit  []grapnel.AuditEntry
	before func() // called before a write, once
	away   bool   // lists cannot be read
}

func (d *documents) PutDocuments(_ context.Context, scope store.Scope, writes []store.DocumentWrite, with store.With) (store.Put, error) {
	if do := d.before; do != nil {
		d.before = nil
		do()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range writes {
		if !scope.Allows(w.Tenant) {
			return store.Put{}, store.ErrNotFound("tenant")
		}
		if d.all[w.ID].Revision != w.Revision {
			return store.Put{}, grapnel.Errorf(grapnel.CodeConflict, "another revision")
		}
	}
	for _, w := range writes {
		if w.Delete {
			delete(d.all, w.ID)
			continue
		}
		w.Revision++
		d.all[w.ID] = w.Document
	}
	if with.Audit != nil {
		d.audit = append(d.audit, *with.Audit)
	}
	return store.Put{}, nil
}

func (d *documents) Document(_ context.Context, scope store.Scope, tenant, kind, id string) (store.Document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	doc, ok := d.all[id]
	if !ok || doc.Tenant != tenant || doc.Kind != kind || !scope.Allows(tenant) {
		return doc, store.ErrNotFound("document")
	}
	return doc, nil
}

func (d *documents) DocumentList(_ context.Context, scope store.Scope, q store.DocumentQuery) (list []store.Document, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return nil, store.ErrUnknown
	}
	for _, doc := range d.all {
		if doc.Kind == q.Kind && doc.ID > q.After && scope.Allows(doc.Tenant) && (q.Tenant == "" || q.Tenant == doc.Tenant) {
			list = append(list, doc)
		}
	}
	slices.SortFunc(list, func(a, b store.Document) int { return strings.Compare(a.ID, b.ID) })
	return list[:min(len(list), q.Limit)], nil
}

func (d *documents) ClearDocuments(_ context.Context, kind string, before time.Time, limit int) (n int, _ error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, doc := range d.all {
		if n < limit && doc.Kind == kind && doc.At.Before(before) {
			delete(d.all, id)
			n++
		}
	}
	return n, nil
}

// node is a tally and its keeper.
type node struct {
	*Keeper
	t *testing.T
}

// world is several nodes on one store.
type world struct {
	t       *testing.T
	docs    *documents
	now     time.Time
	failing bool
	gone    map[string]bool
	n       int
}

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T) *world {
	return &world{t: t, docs: &documents{all: map[string]store.Document{}}, now: start, gone: map[string]bool{}}
}

func (w *world) node(b Bounds) *node {
	return &node{t: w.t, Keeper: NewKeeper(Options{Bounds: b, Documents: w.docs, Tally: NewTally(b), Now: func() time.Time { return w.now },
		Log:     slog.New(slog.DiscardHandler),
		Failing: func(context.Context, *Issue) (bool, error) { return w.failing, nil },
		Gone:    func(ep string) bool { return w.gone[ep] }, Leads: func() bool { return true }})}
}

// fails records a failure of a delivery of its own, one second later.
func (w *world) fails(n *node, g Group) {
	w.n++
	w.now = w.now.Add(time.Second)
	n.o.Tally.Failed(&Failure{Group: g, At: w.now, Delivery: fmt.Sprintf("dlv_%04d", w.n), Key: fmt.Sprint("k", w.n%3), Created: w.now})
}

func (w *world) goes(n *node, endpoint string, times int) {
	for range times {
		w.now = w.now.Add(time.Second)
		n.o.Tally.Succeeded(endpoint)
	}
}

func (n *node) flush() {
	n.t.Helper()
	if err := n.Flush(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

func (w *world) issue(g Group) *Issue {
	w.t.Helper()
	i, err := read(w.t.Context(), w.docs, store.Everyone(), g.Tenant, g.ID())
	if err != nil {
		w.t.Fatal(err)
	}
	return i
}

func (w *world) set(g Group, s State) {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	_, err := Change(w.t.Context(), w.docs, store.Of(g.Tenant), g.Tenant, g.ID(), Bounds{}, w.now,
		func(i *Issue) (*grapnel.AuditEntry, error) {
			i.Set(s, w.now, "key_1", "")
			return i.Entry(grapnel.VerbResolve, w.now, "key_1", ""), nil
		})
	if err != nil {
		w.t.Fatal(err)
	}
}

func group(status int, answer string) Group {
	return Group{Tenant: "acme", Endpoint: "ep_1", Class: policy.ClassStatus5xx, Status: status, Answer: answer}
}
