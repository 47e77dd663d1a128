package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Alone is a store whose node owns all shards, and keeps them: for a server that knows nothing of others. A second one waits for as long as a
// lease lasts, then gives up; so one that has crashed is replaced within that time.
//
// Leases are judged by two clocks. The database's says when others may take the shards. The node itself counts from before it asked, by
// a clock that cannot be set back, and says on Fatal a second before that.
type Alone struct {
	*Store
	node  string
	lease time.Duration
	owned []store.Owned
	fatal chan error
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once
}

// margin is how long before the end of its lease a node takes it to be over.
const margin = time.Second

// OpenAlone opens the database for a node, which needs a name that no other start has had.
func OpenAlone(ctx context.Context, url, node string, lease time.Duration, o Options) (*Alone, error) {
	s, err := Open(ctx, url, o)
	if err != nil {
		return nil, err
	}
	a := &Alone{Store: s, node: node, lease: lease, fatal: make(chan error, 1), quit: make(chan struct{}), done: make(chan struct{})}
	asked, err := a.acquire(ctx)
	if err != nil {
		return nil, errors.Join(err, s.Release(context.WithoutCancel(ctx), node, a.owned), s.Close())
	}
	go a.keep(asked)
	return a, nil
}

// acquire takes all shards, and says when it asked for the last.
func (a *Alone) acquire(ctx context.Context) (asked time.Time, err error) {
	shards := make([]int, store.Shards)
	for i := range shards {
		shards[i] = i
	}
	again := time.NewTicker(a.lease / 10)
	defer again.Stop()
	began := time.Now()
	for {
		asked = time.Now()
		more, err := a.Acquire(ctx, a.node, shards, a.lease)
		if err != nil {
			return asked, err
		}
		if a.owned = append(a.owned, more...); len(a.owned) == store.Shards {
			break
		}
		if asked.Sub(began) > a.lease+margin {
			return asked, grapnel.Errorf(grapnel.CodeUnavailable, "another Grapnel uses this database; only one can at a time")
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return asked, ctx.Err()
		}
	}
	// Some may be as old as the first call.
	asked = time.Now()
	kept, err := a.Renew(ctx, a.node, a.owned, a.lease)
	if err == nil && len(kept) < store.Shards {
		err = grapnel.Errorf(grapnel.CodeUnavailable, "another Grapnel uses this database; only one can at a time")
	}
	return asked, err
}

// keep renews the lease until the store is closed.
func (a *Alone) keep(asked time.Time) {
	defer close(a.done)
	next := time.NewTicker(a.lease / 3)
	defer next.Stop()
	for {
		select {
		case <-a.quit:
			return
		case <-next.C:
		}
		now := time.Now()
		ctx, cancel := context.WithDeadline(context.Background(), asked.Add(a.lease-margin))
		kept, err := a.Renew(ctx, a.node, a.owned, a.lease)
		cancel()
		switch {
		case err == nil && len(kept) == store.Shards:
			asked = now
			continue
		case err != nil && time.Since(asked) < a.lease-margin:
			a.log.Warn("the lease could not be renewed, and will be tried again", "error", err)
			continue
		case err == nil:
			err = fmt.Errorf("another node has taken %d of the shards", store.Shards-len(kept))
		}
		a.log.Error("this node does not own its endpoints any more", "error", err)
		a.fatal <- fmt.Errorf("postgres: the lease is lost: %w", err)
		return
	}
}

// Fatal delivers the error after which the node must not go on: others may do its work.
func (a *Alone) Fatal() <-chan error { return a.fatal }

// Close gives the shards back once everything is written, and closes the database.
func (a *Alone) Close() (err error) {
	a.once.Do(func() {
		close(a.quit)
		<-a.done
		ctx, cancel := context.WithTimeout(context.Background(), a.lease)
		defer cancel()
		a.drain()
		err = errors.Join(a.Release(ctx, a.node, a.owned), a.Store.Close())
	})
	return err
}
