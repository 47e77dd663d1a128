package receive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Pauses of a copy that waits for the running one double from the first to the longest.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// Claim is the mode for effects outside of the store's database. The key is claimed with a lease
// that is renewed while handle runs, and completed after it. Further copies wait for the first.
//
// A handler that fails releases the key, and the sender's next delivery runs it again. A crash
// repeats it after the lease, so calls of other services should carry Delivery.IdempotencyKey.
func (k *Kit) Claim(handle func(ctx context.Context, d *Delivery) error) *Endpoint {
	return &Endpoint{kit: k, run: func(ctx context.Context, d *Delivery, b Bid) result {
		c, res, won := k.obtain(ctx, d, b, func(b Bid) (Claim, error) {
			ctx, cancel := context.WithTimeout(ctx, k.opt.Wait+margin)
			defer cancel()
			return k.opt.Store.Claim(ctx, b)
		})
		if !won {
			return res
		}
		renew := func(ctx context.Context, now, until time.Time) error { return k.opt.Store.Renew(ctx, c, now, until) }
		err := k.hold(ctx, renew, func(ctx context.Context) error {
			return k.call(d, c, func() error { return handle(ctx, d) })
		})
		return k.finish(ctx, d, c, err)
	}}
}

// obtain makes bids until one wins, or another owner's row answers the request. A copy that finds a
// running owner waits at most Wait, and gets the outcome with which that owner ends.
func (k *Kit) obtain(ctx context.Context, d *Delivery, b Bid, try func(Bid) (Claim, error)) (Claim, result, bool) {
	c, err := try(b)
	if err == nil && c.Owner == b.Owner && c.State != "" {
		return c, result{}, true // most bids win at once and need no timer
	}
	waits, cancel := context.WithTimeout(ctx, k.opt.Wait)
	defer cancel()
	for waited, pause := false, firstPause; ; pause = min(2*pause, longestPause) {
		switch {
		case errors.Is(err, ErrLocked):
			return c, result{outcome: InProgress, err: err}, false
		case err != nil:
			return c, result{outcome: Failed, err: err}, false
		case c.Owner == b.Owner && c.State != "":
			return c, result{}, true
		case b.Replay:
			return c, result{outcome: DeadLettered, err: ErrNotDead}, false
		case c.State == Done && c.BodyHash != b.BodyHash && !d.fromBody:
			return c, k.conflict(ctx, d), false
		case c.State == Dead && c.Outcome == Rejected:
			return c, result{outcome: Rejected}, false
		case c.State == Dead:
			return c, result{outcome: DeadLettered}, false
		case c.State == Done && !waited:
			return c, result{outcome: Duplicate}, false
		case waited && (c.State == Done || c.State == Free):
			return c, result{outcome: ended(c)}, false
		case c.State == Busy && !c.LeaseUntil.Before(k.opt.Now()):
			if !sleep(waits, pause) {
				return c, result{outcome: InProgress}, false
			}
			waited = true
			c, err = k.opt.Store.Look(ctx, b.Key)
		default: // the row was released, expired or cleaned since the last bid
			if waits.Err() != nil {
				return c, result{outcome: InProgress}, false
			}
			b = k.again(b)
			c, err = try(b)
		}
	}
}

// ended is the outcome with which a claim ended, as this version knows it.
func ended(c Claim) Outcome {
	switch {
	case c.Outcome.Status() != 0:
		return c.Outcome
	case c.State == Done:
		return Duplicate
	}
	return Failed
}

// sleep returns true after a pause, and false if the context ends before.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// conflict stores the body that differs, so that an operator can compare the two.
func (k *Kit) conflict(ctx context.Context, d *Delivery) result {
	if k.letters != nil {
		ctx, cancel := context.WithTimeout(ctx, margin)
		defer cancel()
		if err := k.letters.Keep(ctx, k.letter(d, Claim{}, errors.New("conflict: the key was processed with another body"))); err != nil {
			return result{outcome: Failed, err: err}
		}
	}
	return result{outcome: Conflict}
}

// hold runs f while it renews the lease. If the claim is lost, f's context ends.
func (k *Kit) hold(ctx context.Context, renew func(ctx context.Context, now, until time.Time) error, f func(context.Context) error) error {
	lease := k.opt.Timeout + margin
	running, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for sleep(running, lease/3) {
			now := k.opt.Now()
			limited, cancel := context.WithTimeout(running, lease/3)
			// A store that fails has not taken the claim away: the next renewal may succeed.
			if err := renew(limited, now, now.Add(lease)); errors.Is(err, ErrLostClaim) {
				lost(err)
			}
			cancel()
		}
	}()
	limited, cancel := context.WithTimeout(running, k.opt.Timeout)
	defer cancel()
	err := f(limited)
	lost(nil)
	<-ended
	return err
}

// errExhausted is permanent.
var errExhausted = errors.New("the key was attempted as often as MaxDeliveries allows")

// call runs a handler for a claim. A panic is an error like any other: the store takes its step,
// and the sender gets its answer.
func (k *Kit) call(d *Delivery, c Claim, handle func() error) (err error) {
	d.Generation, d.Attempt = c.Generation, c.Deliveries
	if c.Deliveries > int64(k.opt.MaxDeliveries) && !d.Replayed {
		return Permanent(errExhausted)
	}
	defer func() {
		if p := recover(); p != nil {
			err = Retryable(fmt.Errorf("receive: the handler panicked: %v", p))
		}
	}()
	return handle()
}

// finish makes the end of a claim's handler durable, and says the answer.
func (k *Kit) finish(ctx context.Context, d *Delivery, c Claim, err error) result {
	ctx, cancel := context.WithTimeout(ctx, margin)
	defer cancel()
	res := result{outcome: k.classify(err), err: err, after: retryAfter(err, k.opt.Now())}
	last := c.Deliveries >= int64(k.opt.MaxDeliveries) || d.Replayed
	var failed error
	switch {
	case res.outcome == Processed || res.outcome == Stale || res.outcome == Parked:
		failed = k.opt.Store.Settle(ctx, c, Done, res.outcome, k.opt.Now())
	case k.letters != nil && (res.outcome == Rejected || res.outcome == Failed && last):
		res.outcome = DeadLettered
		failed = k.letters.Bury(ctx, c, k.letter(d, c, err))
	case last && res.outcome == Failed || last && res.outcome == Rejected:
		res.outcome = Rejected
		failed = k.opt.Store.Settle(ctx, c, Dead, Rejected, k.opt.Now())
	default:
		failed = k.opt.Store.Settle(ctx, c, Free, res.outcome, k.opt.Now())
	}
	switch {
	case errors.Is(failed, ErrLostClaim):
		return result{outcome: InProgress, err: errors.Join(failed, err)}
	case failed != nil:
		return result{outcome: Failed, err: errors.Join(failed, err)}
	}
	return res
}

// classes are the outcomes that a handler can have.
var classes = []Outcome{Processed, Stale, Parked, Failed, Rejected, Gone}

// classify is the outcome of a handler's error: marked errors, then the user's classifier, then the
// defaults.
func (k *Kit) classify(err error) Outcome {
	if marked := new(kindError); err != nil && k.opt.Classify != nil && !errors.As(err, &marked) {
		if o := k.opt.Classify(err); slices.Contains(classes, o) {
			return o
		}
	}
	return Classify(err)
}
