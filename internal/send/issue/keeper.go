package issue

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// NewKeeper makes one.
func NewKeeper(o Options) *Keeper {
	o.Bounds = o.Bounds.filled()
	return &Keeper{o: o, index: newIndex()}
}

// Run flushes some seconds after something was counted, until over is closed. It reads all issues
// at the start and from time to time. Sending ends a flush in progress.
func (k *Keeper) Run(sending context.Context, over <-chan struct{}) {
	rescan := time.NewTicker(k.o.Bounds.Rescan)
	defer rescan.Stop()
	for {
		k.try(sending, k.o.Bounds.Within)
		select {
		case <-k.o.Tally.work:
		case <-rescan.C:
		case <-over:
			return
		}
		if !backoff.Wait(over, k.o.Bounds.Flush) {
			return
		}
	}
}

// Close flushes the counts since Run returned, if that takes no longer than Bounds.Last.
func (k *Keeper) Close() { k.try(context.Background(), k.o.Bounds.Last) }

func (k *Keeper) try(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := k.Flush(ctx); err == nil {
		k.failures = 0
	} else if k.failures++; backoff.Tells(k.failures) && !errors.Is(err, context.Canceled) {
		k.o.Log.Error("storing issues failed; retrying", "failures", k.failures, "err", err)
	}
}

// Flush stores the tally's deltas, and resolves issues. Deltas that cannot be stored now are given
// back to the tally.
func (k *Keeper) Flush(ctx context.Context) error {
	now := k.o.Now()
	read := k.scan(ctx, now)
	pending, uncounted := k.o.Tally.take()
	if uncounted > 0 {
		k.o.Log.Warn("failures not counted in issues: too many different ones at once", "failures", uncounted)
	}
	err := k.store(ctx, pending)
	k.o.Tally.watch(k.index.watched())
	return errors.Join(read, err, k.resolve(ctx, now), k.forget(ctx, now))
}

// store merges deltas, tenant by tenant, in an order that does not depend on the map.
func (k *Keeper) store(ctx context.Context, pending map[Group]*Delta) error {
	groups := slices.SortedFunc(maps.Keys(pending), func(a, b Group) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.ID(), b.ID()))
	})
	var failures []error
	for len(groups) > 0 {
		n := 1
		for n < len(groups) && n < k.o.Bounds.Batch && groups[n].Tenant == groups[0].Tenant {
			n++
		}
		// The failures of a tenant that is being deleted are not stored any more.
		if err := k.batch(ctx, groups[:n], pending); err != nil && grapnel.CodeOf(err) != grapnel.CodeTenantEnds {
			failures = append(failures, err)
			for _, g := range groups[:n] {
				k.o.Tally.giveBack(g, pending[g])
			}
		}
		groups = groups[n:]
	}
	return errors.Join(failures...)
}

// batch merges the deltas of one tenant in one transaction. If another node has changed one of the
// documents meanwhile, it reads them again.
func (k *Keeper) batch(ctx context.Context, groups []Group, pending map[Group]*Delta) error {
	var err error
	for range k.o.Bounds.Tries {
		b := merging{k: k, ctx: ctx, scope: store.Of(groups[0].Tenant), issues: map[Group]*Issue{}, created: newIndex(),
			streaks: map[string]int64{}, kept: map[string]bool{}}
		for _, g := range groups {
			b.kept[g.ID()], b.kept[g.Other().ID()] = true, true
		}
		for _, g := range groups {
			if err := b.merge(g, pending[g]); err != nil {
				return err
			}
		}
		if err = b.write(); err == nil {
			for _, i := range b.issues {
				k.index.put(i, b.streaks[i.ID])
			}
			for _, i := range b.replaced {
				k.index.remove(i.ID)
			}
			return nil
		}
		if grapnel.CodeOf(err) != grapnel.CodeConflict {
			return err
		}
	}
	return err
}

// merging is a batch being prepared.
type merging struct {
	k        *Keeper
	ctx      context.Context //nolint:containedctx // of one call
	scope    store.Scope
	issues   map[Group]*Issue
	created  index
	streaks  map[string]int64 // by id: the endpoint's successes before the last failure
	replaced []*Issue
	kept     map[string]bool // ids that are not replaced any more: those of the batch, and of replaced
	order    []Group
}

// merge adds a delta to its issue, or to the endpoint's other failures if there are too many
// issues.
func (b *merging) merge(g Group, d *Delta) error {
	i := b.issues[g]
	if i == nil {
		found, err := read(b.ctx, b.k.o.Documents, b.scope, g.Tenant, g.ID())
		switch {
		case grapnel.CodeOf(err) == grapnel.CodeNotFound:
			if fits, err := b.fits(g); err != nil {
				return err
			} else if !fits {
				return b.merge(g.Other(), d)
			}
			i = New(g)
			b.created.put(i, 0)
		case err != nil:
			return err
		default:
			i = found
		}
		b.issues[g] = i
		b.order = append(b.order, g)
	}
	i.Merge(d.clone(), b.k.o.Now())
	b.streaks[i.ID] = max(b.streaks[i.ID], d.streak)
	return nil
}

// fits says whether a group may get an issue. The oldest resolved issue of the tenant makes space
// if there are too many in all.
func (b *merging) fits(g Group) (bool, error) {
	at, of, stored := b.k.index.counts(g)
	newAt, newOf, newStored := b.created.counts(g)
	limits := &b.k.o.Bounds
	if g.Class != ClassOther && (at+newAt >= limits.OpenAtEndpoint || of+newOf >= limits.OpenOfTenant) {
		return false, nil
	}
	if stored+newStored-len(b.replaced) < limits.Stored {
		return true, nil
	}
	for _, id := range b.k.index.resolved(g.Tenant) {
		if b.kept[id] {
			continue
		}
		i, err := read(b.ctx, b.k.o.Documents, b.scope, g.Tenant, id)
		switch {
		case grapnel.CodeOf(err) == grapnel.CodeNotFound:
			b.k.index.remove(id)
			return true, nil
		case err != nil:
			return false, err
		case i.State == Resolved:
			b.replaced, b.kept[id] = append(b.replaced, i), true
			return true, nil
		default:
			b.k.index.put(i, 0)
		}
	}
	return g.Class == ClassOther, nil
}

// write stores the issues, and deletes those that were replaced.
func (b *merging) write() error {
	var writes []store.DocumentWrite
	for _, g := range b.order {
		w, err := b.issues[g].write(b.k.o.Now())
		if err != nil {
			return err
		}
		writes = append(writes, w)
	}
	for _, i := range b.replaced {
		w, err := i.write(b.k.o.Now())
		if err != nil {
			return err
		}
		w.Delete = true
		writes = append(writes, w)
	}
	_, err := b.k.o.Documents.PutDocuments(b.ctx, b.scope, writes, store.With{})
	return err
}
