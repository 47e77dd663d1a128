package receive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of InboxOptions.
const (
	DefaultFirstPause   = time.Second
	DefaultLongestPause = 10 * time.Minute
	DefaultPoll         = time.Second
)

// InboxOptions describe an inbox. All have defaults.
type InboxOptions struct {
	// Order returns the ordering key of a request, and its place in the order. Of one ordering key the
	// workers run one request at a time, the lowest sequence first and then the first that arrived.
	// nil, and the key "": no order.
	Order func(d *Delivery) (key string, sequence int64)
	// Block stops an ordering key at a request that failed for good, until Replay or Skip. Without it
	// the next request of the key runs.
	Block bool

	FirstPause   time.Duration // before a request is attempted again; doubles with each attempt
	LongestPause time.Duration
	Poll         time.Duration // between looks for requests that other processes stored
}

// Inbox stores requests and answers; workers run the handler later (Work).
type Inbox struct {
	kit      *Kit
	o        InboxOptions
	store    InboxStore
	endpoint *Endpoint
	arrivals atomic.Uint32
	wake     chan struct{}
}

// Inbox is the mode for work that takes longer than the sender waits. The request and its key
// commit together before the answer 202. It fails if the kit's store keeps no requests.
func (k *Kit) Inbox(o InboxOptions) (*Inbox, error) {
	store, ok := k.opt.Store.(InboxStore)
	if !ok {
		return nil, fmt.Errorf("receive: %T keeps no requests; an inbox needs a SQL store", k.opt.Store)
	}
	o.FirstPause, o.LongestPause = cmp.Or(o.FirstPause, DefaultFirstPause), cmp.Or(o.LongestPause, DefaultLongestPause)
	o.Poll = cmp.Or(o.Poll, DefaultPoll)
	if o.FirstPause < 0 || o.LongestPause < o.FirstPause || o.Poll < 0 {
		return nil, errors.New("receive: an inbox's pauses are above 0, and LongestPause is at least FirstPause")
	}
	i := &Inbox{kit: k, o: o, store: store, wake: make(chan struct{}, 1)}
	i.endpoint = &Endpoint{kit: k, run: i.accept}
	return i, nil
}

// ServeHTTP stores one request.
func (i *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { i.endpoint.ServeHTTP(w, r) }

func (i *Inbox) accept(ctx context.Context, d *Delivery, b Bid) result {
	k := i.kit
	item := Item{Key: b.Key, Header: stored(d), Body: d.Body, ReceivedAt: b.Now,
		Row: fmt.Sprintf("%012x%08x%s", b.Now.UnixMilli(), i.arrivals.Add(1), b.Owner[:6])}
	if i.o.Order != nil {
		item.OrderingKey, item.Sequence = i.o.Order(d)
	}
	_, res, won := k.obtain(ctx, d, b, func(b Bid) (Claim, error) {
		ctx, cancel := context.WithTimeout(ctx, k.opt.Wait+margin)
		defer cancel()
		return i.store.Accept(ctx, b, k.opt.Wait, item)
	})
	if !won {
		return res
	}
	i.call()
	return result{outcome: Accepted}
}

// call wakes a worker.
func (i *Inbox) call() {
	select {
	case i.wake <- struct{}{}:
	default: // one is about to look
	}
}

// Work runs the handler for stored requests, at most workers at once, until ctx ends. Then it waits
// for the running handlers and returns.
//
// A request is attempted until its handler succeeds, at most MaxDeliveries times. A crash repeats
// an attempt after the lease, so calls of other services should carry Delivery.IdempotencyKey.
func (i *Inbox) Work(ctx context.Context, workers int, handle func(ctx context.Context, d *Delivery) error) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for ctx.Err() == nil {
				if !i.one(ctx, handle) {
					i.rest(ctx)
				}
			}
		})
	}
	group.Wait()
}

// rest waits for a request, or until it is time to look for one.
func (i *Inbox) rest(ctx context.Context) {
	timer := time.NewTimer(i.o.Poll)
	defer timer.Stop()
	select {
	case <-i.wake:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// one runs the handler for one request, and returns false if none is due.
func (i *Inbox) one(ctx context.Context, handle func(context.Context, *Delivery) error) bool {
	k, now := i.kit, i.kit.opt.Now()
	ctx = context.WithoutCancel(ctx) // a request that was taken is attempted
	limited, cancel := context.WithTimeout(ctx, margin)
	defer cancel()
	item, found, err := i.store.Take(limited, Turn{k.opt.Source, k.owner(), now, now.Add(k.opt.Timeout + margin), i.o.Block})
	if err != nil {
		k.observe(Observation{Source: k.opt.Source, Outcome: Failed, Err: err})
	}
	if !found {
		return false
	}
	i.call() // another one may be due, too
	d := &Delivery{Source: item.Source, ID: item.ID, Header: header(item.Header), Body: item.Body}
	renew := func(ctx context.Context, now, until time.Time) error { return i.store.RenewItem(ctx, item, now, until) }
	err = k.hold(ctx, renew, func(ctx context.Context) error {
		return k.call(d, Claim{Generation: item.Attempts, Deliveries: item.Attempts}, func() error { return handle(ctx, d) })
	})
	res := i.settle(ctx, d, item, err)
	k.observe(Observation{Source: d.Source, ID: d.ID, Outcome: res.outcome, Err: res.err, Generation: d.Generation, Attempt: d.Attempt,
		Took: k.opt.Now().Sub(now)})
	return true
}

// settle makes the end of an attempt durable. ErrGone has come too late for the sender: like a
// permanent error it buries the request.
func (i *Inbox) settle(ctx context.Context, d *Delivery, item Item, err error) result {
	k := i.kit
	ctx, cancel := context.WithTimeout(ctx, margin)
	defer cancel()
	now, res := k.opt.Now(), result{outcome: k.classify(err), err: err}
	var failed error
	switch {
	case res.outcome == Processed || res.outcome == Stale || res.outcome == Parked:
		failed = i.store.SettleItem(ctx, item, Done, now, "", now)
	case res.outcome == Failed && item.Attempts < int64(k.opt.MaxDeliveries):
		pause := min(i.o.FirstPause<<min(item.Attempts-1, 30), i.o.LongestPause)
		next := now.Add(max(pause, retryAfter(err, now)))
		failed = i.store.SettleItem(ctx, item, Ready, next, clip(err), now)
	default:
		res.outcome = DeadLettered
		failed = i.store.BuryItem(ctx, item, k.letter(d, Claim{Deliveries: item.Attempts}, err))
	}
	if failed != nil {
		return result{outcome: Failed, err: errors.Join(failed, err)}
	}
	return res
}

// Replay lets the workers attempt a dead request again. Of two replays at once the second gets
// ErrNotDead.
func (i *Inbox) Replay(ctx context.Context, id string) (Outcome, error) {
	k, now := i.kit, i.kit.opt.Now()
	key := Key{k.opt.Source, id}
	if err := i.store.Revive(ctx, key, Ready, now); err != nil {
		return "", err
	}
	i.call()
	return Accepted, i.store.Replayed(ctx, key, now, string(Accepted))
}

// Skip gives up a dead request, so that an ordering key that it blocks goes on.
func (i *Inbox) Skip(ctx context.Context, id string) error {
	if err := i.store.Revive(ctx, Key{i.kit.opt.Source, id}, Done, i.kit.opt.Now()); err != nil {
		return err
	}
	i.call()
	return nil
}
