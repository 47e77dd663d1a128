package issue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Change changes an issue by what do makes of it, with an audit entry. If another node or person
// changes it at the same moment, it is read and changed again. An entry of nil changes nothing.
func Change(ctx context.Context, docs store.Documents, scope store.Scope, tenant, id string, b Bounds, now time.Time,
	do func(*Issue) (*grapnel.AuditEntry, error)) (*Issue, error) {
	b = b.filled()
	var err error
	for range b.Tries {
		var i *Issue
		if i, err = read(ctx, docs, scope, tenant, id); err != nil {
			return nil, err
		}
		entry, err2 := do(i)
		if err2 != nil || entry == nil {
			return i, err2
		}
		var w store.DocumentWrite
		if w, err = i.write(now); err != nil {
			return nil, err
		}
		if _, err = docs.PutDocuments(ctx, scope, []store.DocumentWrite{w}, store.With{Audit: entry}); err == nil {
			i.Revision++
			return i, nil
		}
		if grapnel.CodeOf(err) != grapnel.CodeConflict {
			return nil, err
		}
	}
	return nil, err
}

// resolve resolves the issues whose endpoints have delivered often enough since, and those of
// deleted endpoints.
func (k *Keeper) resolve(ctx context.Context, now time.Time) error {
	var failures []error
	for part := range slices.Chunk(k.due(), k.o.Bounds.Together) {
		var settling sync.WaitGroup
		for i := range part {
			settling.Go(func() { part[i].issue, part[i].err = k.settle(ctx, part[i].entry, now, part[i].gone) })
		}
		settling.Wait()
		for _, d := range part {
			switch {
			case grapnel.CodeOf(d.err) == grapnel.CodeNotFound, grapnel.CodeOf(d.err) == grapnel.CodeTenantEnds:
				k.index.remove(d.entry.id)
			case d.err != nil:
				failures = append(failures, d.err)
			default:
				k.index.put(d.issue, d.streak) // unresolved still: as many successes again
			}
		}
	}
	return errors.Join(failures...)
}

// due is an issue that may be resolved, and what became of it.
type due struct {
	entry  *entry
	gone   bool
	streak int64
	issue  *Issue
	err    error
}

// due lists the issues to be resolved.
func (k *Keeper) due() (all []due) {
	for _, e := range k.index.unresolved() {
		gone := k.o.Gone(e.endpoint)
		streak := k.o.Tally.streak(e.endpoint)
		if e.streak > streak { // the endpoint was not watched for a moment
			e.streak = 0
		}
		if !gone && streak-e.streak < e.needs(k.o.Bounds) {
			continue
		}
		all = append(all, due{entry: e, gone: gone, streak: streak})
	}
	return all
}

// settle resolves one issue, unless it has failed meanwhile, or one of its deliveries still does.
func (k *Keeper) settle(ctx context.Context, e *entry, now time.Time, gone bool) (*Issue, error) {
	return Change(ctx, k.o.Documents, store.Of(e.tenant), e.tenant, e.id, k.o.Bounds, now, func(i *Issue) (*grapnel.AuditEntry, error) {
		if i.State == Resolved || !gone && i.Last.After(e.last) {
			return nil, nil
		}
		why := "Its endpoint was deleted."
		if !gone {
			if failing, err := k.o.Failing(ctx, i); err != nil || failing {
				return nil, err
			}
			why = "The endpoint took " + say.Many(i.Needs(k.o.Bounds), "delivery", "deliveries") + " since the last failure."
		}
		i.Set(Resolved, now, grapnel.ActorItself, why)
		return i.Entry(grapnel.VerbResolve, now, grapnel.ActorItself, why), nil
	})
}

// Entry is an audit entry about the issue.
func (i *Issue) Entry(verb grapnel.Verb, now time.Time, by, why string) *grapnel.AuditEntry {
	reason := i.ID
	if why != "" {
		reason += ": " + why
	}
	return &grapnel.AuditEntry{At: now, Tenant: i.Tenant, Actor: by, Verb: verb, Endpoint: i.Endpoint, Reason: reason}
}

// scan reads all issues from time to time: those of other nodes, of before the start, and what
// people have decided.
func (k *Keeper) scan(ctx context.Context, now time.Time) error {
	if backoff.Early(now, k.next, k.o.Bounds.Rescan) {
		return nil
	}
	found := newIndex()
	q := store.DocumentQuery{Kind: Kind, Limit: k.o.Bounds.Page}
	for {
		docs, err := k.o.Documents.DocumentList(ctx, store.Everyone(), q)
		if err != nil {
			return err
		}
		for n := range docs {
			i, err := Decode(docs[n].Body, docs[n].Revision)
			if err != nil {
				k.o.Log.Error("stored issue cannot be read; ignored", "issue", docs[n].ID, "err", err)
				continue
			}
			streak := k.o.Tally.streak(i.Endpoint)
			if was := k.index.entries[i.ID]; was != nil && !was.resolved && !i.Last.After(was.last) {
				streak = was.streak
			}
			found.put(i, streak)
		}
		if len(docs) < q.Limit {
			break
		}
		q.After = docs[len(docs)-1].ID
	}
	k.index, k.next = found, now.Add(k.o.Bounds.Rescan)
	return nil
}

// purgePause is how often old issues are looked for.
const purgePause = time.Hour

// forget deletes issues that nothing has changed for a long time.
func (k *Keeper) forget(ctx context.Context, now time.Time) error {
	if k.purge.IsZero() {
		k.purge = now.Add(purgePause)
	}
	if backoff.Early(now, k.purge, purgePause) || !k.o.Leads() {
		return nil
	}
	for {
		n, err := k.o.Documents.ClearDocuments(ctx, Kind, now.Add(-k.o.Bounds.Kept), k.o.Bounds.Clear)
		if err != nil {
			return err
		}
		if n < k.o.Bounds.Clear {
			k.purge = now.Add(purgePause)
			return nil
		}
	}
}

func (i *Issue) write(now time.Time) (store.DocumentWrite, error) {
	body, err := i.Encode()
	is := store.Document{Tenant: i.Tenant, Kind: Kind, ID: i.ID, Revision: i.Revision, At: now, Body: body}
	return store.DocumentWrite{Document: is}, err
}

func read(ctx context.Context, from store.Documents, scope store.Scope, tenant, id string) (*Issue, error) {
	doc, err := from.Document(ctx, scope, tenant, Kind, id)
	if err != nil {
		return nil, err
	}
	return Decode(doc.Body, doc.Revision)
}
