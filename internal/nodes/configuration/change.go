package configuration

import (
	"context"
	"errors"
	"fmt"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Load reads the whole configuration from the store and makes it the current one.
func (b *Book) Load(ctx context.Context) error {
	c, err := store.Within(ctx, func() (store.Config, error) { return b.o.Store.Config(ctx) })
	if err != nil {
		return err
	}
	before := b.Snapshot()
	if before == nil {
		broken := func(err error) { b.o.Log.Error("filters do not compile; they match nothing", "err", err) }
		before = &Snapshot{routes: newRoutes(&match.Router{}, nil, broken)}
	}
	b.adopt(before.replaced(c))
	if b.Settled() == nil {
		b.settled.Store(b.Snapshot())
	}
	return nil
}

// Change is one change of the configuration. Write commits it, given the snapshot before it, and
// Apply returns the edits that it made.
type Change struct {
	Write func(now *Snapshot) (store.Put, error)
	Apply func(store.Put) store.ConfigChanges
}

// Change commits a change and returns once it has taken effect on every node: the cores have every
// changed endpoint. So once a pause, a disabling or a deletion is answered, no node starts another
// attempt.
func (b *Book) Change(ctx context.Context, c Change) (store.Put, error) {
	put, err := b.changeHere(ctx, c)
	switch {
	case err != nil:
	case put.Answer != nil: // another node made the change, and may be waiting for others, or dead
		err = b.Confirm(context.WithoutCancel(ctx))
	default:
		err = b.o.Confirm(context.WithoutCancel(ctx))
	}
	return put, err
}

// changeHere makes a change and returns once it has taken effect on this node.
func (b *Book) changeHere(ctx context.Context, c Change) (store.Put, error) {
	if err := b.Lock(ctx); err != nil {
		return store.Put{}, err
	}
	defer b.Unlock()
	put, err := c.Write(b.Snapshot())
	if put.Answer != nil {
		return put, err
	}
	// The change may be durable: it has to take effect even if the caller has disconnected.
	ctx = context.WithoutCancel(ctx)
	version, newest, unread := b.StoreVersion(ctx)
	expected := b.Snapshot().Version
	if err == nil {
		expected++
	}
	if unread != nil || version != expected {
		// An earlier change, or this one, was committed and its answer lost.
		if lost := b.resync(ctx); lost != nil {
			// This error replaces the others: a caller that retries at a conflict or a stale
			// version would meet the same one forever.
			lost = fmt.Errorf("reading the configuration again failed: %w", errors.Join(lost, hidden(err)))
			if err == nil || errors.Is(err, store.ErrUnknown) { // the change may be durable
				lost = fmt.Errorf("%w: %w", store.ErrUnknown, hidden(lost))
			}
			return put, lost
		}
		return put, err
	}
	if err != nil {
		return put, err
	}
	d := c.Apply(put)
	d.Version, d.Newest = version, newest
	b.adopt(b.Snapshot().next(d))
	return put, b.settle(ctx)
}

// StoreVersion reads the store's version of the configuration, and the row id of its newest
// delivery.
func (b *Book) StoreVersion(ctx context.Context) (version, newest int64, err error) {
	ctx, cancel := b.o.Reading(ctx)
	defer cancel()
	is, err := store.Within(ctx, func() ([2]int64, error) {
		version, newest, err := b.o.Store.Version(ctx)
		return [2]int64{version, newest}, err
	})
	return is[0], is[1], err
}

// settle calls Options.Settle with the last configuration that it applied and the current one. The
// caller holds the lock. If it fails, the next call of CatchUp or settle applies the same
// difference.
func (b *Book) settle(ctx context.Context) error {
	before, now := b.settled.Load(), b.Snapshot()
	if before == now {
		return nil
	}
	queues, err := b.o.Settle(ctx, before, now)
	if err != nil {
		return err
	}
	b.settled.Store(now)
	b.o.WakeQueues(queues)
	return nil
}

// CatchUp applies every change of the configuration that was committed before the call. It reads
// without the lock, so it does not wait for a change that is being committed here.
func (b *Book) CatchUp(ctx context.Context) error {
	conf := b.Snapshot()
	d, complete, err := b.o.Store.Changes(ctx, conf.Version)
	if err != nil || conf.Version >= d.Version && b.settled.Load() == conf {
		return err
	}
	if err := b.Lock(ctx); err != nil {
		return err
	}
	defer b.Unlock()
	ctx = context.WithoutCancel(ctx)
	now := b.Snapshot()
	switch {
	case now.Version >= d.Version: // applied by another caller, or being applied
	// every part is complete at d.Version, so it does not matter if now has some of the changes
	// already
	case complete:
		b.adopt(now.next(d))
	default:
		return b.resync(ctx)
	}
	ctx, cancel := b.o.Reading(ctx)
	defer cancel()
	return b.settle(ctx)
}

// Confirm returns once every node has applied every change committed before the call.
func (b *Book) Confirm(ctx context.Context) error {
	if err := b.CatchUp(ctx); err != nil {
		return err
	}
	return b.o.Confirm(ctx)
}

// hidden is the text of an error without its type, so that no caller acts on its code.
func hidden(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

// Lock waits until no other change of the configuration is in progress. It is a channel and not a
// mutex because its holder waits for the store and the core, and a caller may disconnect meanwhile.
func (b *Book) Lock(ctx context.Context) error {
	select {
	case b.changing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock ends what Lock began.
func (b *Book) Unlock() { <-b.changing }

// Refreshed returns once the configuration is newer than a version that the store has called stale.
// Mostly another caller has committed a change and is about to publish it here; if not, a change
// was committed whose answer was lost.
func (b *Book) Refreshed(ctx context.Context, version int64) error {
	if err := b.Lock(ctx); err != nil {
		return err
	}
	defer b.Unlock()
	if b.Snapshot().Version != version {
		ctx, cancel := b.o.Reading(context.WithoutCancel(ctx))
		defer cancel()
		return b.settle(ctx)
	}
	return b.resync(context.WithoutCancel(ctx))
}

// resync reads the changes of the configuration, or all of it if the store cannot list them, and
// applies them. The caller holds the lock. It has its own deadline, because on a dead connection
// the lock would be held forever.
func (b *Book) resync(ctx context.Context) error {
	ctx, cancel := b.o.Reading(ctx)
	defer cancel()
	conf := b.Snapshot()
	type changes struct {
		store.ConfigChanges
		complete bool
	}
	d, err := store.Within(ctx, func() (d changes, err error) {
		d.ConfigChanges, d.complete, err = b.o.Store.Changes(ctx, conf.Version)
		return d, err
	})
	switch {
	case err != nil:
	case !d.complete:
		err = b.Load(ctx)
	case d.Version != conf.Version:
		b.adopt(conf.next(d.ConfigChanges))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = &grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "the database did not answer in time", Err: err}
	}
	if err != nil {
		return err
	}
	return b.settle(ctx)
}
