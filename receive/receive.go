// Package receive makes repeated webhooks harmless. A sender delivers at least once; a kit verifies
// each request, claims its event id in the receiver's own store, runs the handler, and answers
// after the store has committed.
//
//	kit, err := receive.New(receive.Options{
//		Source:   "acme",
//		Verifier: receive.StandardWebhooks("whsec_…"),
//		Store:    sqlstore.New(db, sqlstore.PostgreSQL),
//	})
//	…
//	http.Handle("POST /hooks", receive.Transaction(kit, func(ctx context.Context, tx *sql.Tx, d *receive.Delivery) error {
//		_, err := tx.ExecContext(ctx, "UPDATE invoices SET paid = true WHERE id = $1", …)
//		return err
//	}))
//
// There are three modes. Transaction is for effects in the store's own database: the key and the
// effect commit together. Kit.Claim is for effects elsewhere, such as a payment: a lease keeps
// other copies away while the handler runs. Kit.Inbox stores the request; workers run the handler.
//
// Invariants:
//
//   - No answer is written before the store has committed it, and no mode can answer earlier.
//   - A request whose signature does not match changes nothing in the store.
//   - Of all copies of an event one handler runs at a time, and none after one has succeeded, as
//     long as the key is retained (Window).
//   - A claim that was lost changes nothing.
//   - Neither a panic nor a delay of Options.Observe changes an answer.
//
// Clocks of processes that share a store may differ by less than two thirds of a lease (Timeout and
// five seconds).
//
// It does not promise that an effect outside of the store's database happens once: a crash between
// the effect and the store's commit repeats it. Delivery.IdempotencyKey is the same for each
// repetition, so that a service further down can drop it.
package receive

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"
)

// The defaults of Options.
const (
	DefaultWindow        = 8 * 24 * time.Hour
	DefaultTimeout       = 25 * time.Second
	DefaultWait          = 2 * time.Second
	DefaultMaxBody       = 1 << 20
	DefaultMaxDeliveries = 20
	DefaultConcurrency   = 100
)

const (
	margin     = 5 * time.Second // of the lease after the handler's timeout, and for the store's last step
	cleanBatch = 500
)

// Options describe a kit. Source, Verifier and Store are required; all else has a default.
type Options struct {
	Source   string // the sender's name: a part of each key, so that ids of two senders never meet
	Verifier Verifier
	Store    Store

	// KeyFromBody makes the key of a request whose sender signs no id. Two requests with the same
	// key are one event.
	KeyFromBody func(body []byte) (string, error)
	// Classify may choose the outcome of a handler's error that is not marked: Processed, Stale,
	// Parked, Failed, Rejected or Gone. Any other, such as "", is the default's choice.
	Classify func(error) Outcome
	// Observe is called after each answer was written, and after each attempt of a worker. nil: what
	// fails is logged by slog.Default.
	Observe func(Observation)
	// Batches takes a body that is a JSON array as several events, each with an id of its own: those
	// of Grapnel's format batch.
	Batches bool
	// NoDeadLetters answers a permanent failure with 422 instead of storing the request. It is
	// always so with a store that is no Letters.
	NoDeadLetters bool

	Window        time.Duration // how long the key of a processed event is retained
	Span          time.Duration // for how long the sender repeats an event; 0: the Verifier's, if it is a Spanner
	Timeout       time.Duration // of the handler
	Wait          time.Duration // of a copy for the one that is running
	MaxBody       int64         // in bytes
	MaxDeliveries int           // of one key whose handler fails
	Concurrency   int           // requests at once

	Now    func() time.Time // nil: time.Now
	Random io.Reader        // nil: crypto/rand
}

// Observation is one answered request. Err may contain data of the event.
type Observation struct {
	Source, ID string
	Outcome    Outcome
	Err        error
	Generation int64
	Attempt    int64
	Took       time.Duration
}

// logFailures logs conflicts, lost claims, and the failures of handlers and stores. Refused
// requests are not logged: any client can send them.
func logFailures(o Observation) {
	fails := slices.Contains([]Outcome{Failed, Rejected, DeadLettered, Gone}, o.Outcome) && o.Err != nil && !errors.Is(o.Err, ErrMalformed)
	if fails || o.Outcome == Conflict || errors.Is(o.Err, ErrLostClaim) {
		slog.Default().Warn("webhook not processed", "source", o.Source, "id", o.ID, "outcome", o.Outcome, "attempt", o.Attempt, "err", o.Err)
	}
}

// Kit receives the webhooks of one source. It may be used by several goroutines at once.
type Kit struct {
	opt     Options
	letters Letters // nil: permanent failures are answered with 422
	slots   chan struct{}
}

// New checks the options and makes a kit. It connects to nothing.
func New(o Options) (*Kit, error) {
	switch {
	case o.Source == "":
		return nil, errors.New("receive: Source is empty; give the sender a name, such as stripe")
	case o.Verifier == nil:
		return nil, errors.New("receive: Verifier is nil; give one, such as StandardWebhooks(secret)")
	case o.Store == nil:
		return nil, errors.New("receive: Store is nil; give one, such as sqlstore.New(db, sqlstore.PostgreSQL)")
	}
	o.Window, o.Timeout, o.Wait = cmp.Or(o.Window, DefaultWindow), cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Wait, DefaultWait)
	o.MaxBody, o.MaxDeliveries = cmp.Or(o.MaxBody, DefaultMaxBody), cmp.Or(o.MaxDeliveries, DefaultMaxDeliveries)
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	if o.Window < 0 || o.Timeout < 0 || o.Wait < 0 || o.MaxBody < 0 || o.MaxDeliveries < 0 || o.Concurrency < 0 {
		return nil, errors.New("receive: an option is negative; leave it 0 for its default")
	}
	if s, ok := o.Verifier.(Spanner); ok && o.Span == 0 {
		o.Span = s.Span()
	}
	if least := o.Span + o.Span/4; o.Window < least {
		return nil, fmt.Errorf("receive: Window %s is shorter than %s, the sender's span %s and a quarter more; raise it to that",
			o.Window, least, o.Span)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Observe == nil {
		o.Observe = logFailures
	}
	k := &Kit{opt: o, slots: make(chan struct{}, o.Concurrency)}
	if letters, ok := o.Store.(Letters); ok && !o.NoDeadLetters {
		k.letters = letters
	}
	return k, nil
}

// Clean deletes the keys, and the processed requests of an inbox, that are no longer retained. It
// does so in batches, and returns the number of rows. Call it
// from time to time, such as once an hour.
func (k *Kit) Clean(ctx context.Context) (int, error) {
	now, total := k.opt.Now(), 0
	steps := []func() (int, error){func() (int, error) { return k.opt.Store.Clean(ctx, k.opt.Source, now, cleanBatch) }}
	if inbox, ok := k.opt.Store.(InboxStore); ok {
		steps = append(steps, func() (int, error) { return inbox.CleanInbox(ctx, k.opt.Source, now.Add(-k.opt.Window), cleanBatch) })
	}
	for _, step := range steps {
		for n := cleanBatch; n == cleanBatch; total += n {
			var err error
			if n, err = step(); err != nil {
				return total, err
			}
		}
	}
	return total, nil
}
