package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Handler handles one message. nil acks it, Reject(err) makes it a dead letter, RetryAfter(d, err)
// returns it to the queue for d, and any other error returns it for the backoff of the queue's
// policy. A panic returns it too.
//
// ctx ends when the lease is lost, because another consumer may have the message by then, and when
// a stop takes longer than Drain.
type Handler func(ctx context.Context, m *Message) error

// ErrLeaseLost is the cause of a handler's context when another consumer may have the message.
var ErrLeaseLost = errors.New("the lease has expired: another consumer may have the message")

var errStopping = errors.New("the consumer is being stopped")

// Reject makes an error of a handler final: trying again would not help.
func Reject(err error) error { return &verdict{err: err, reject: true} }

// RetryAfter wraps an error of a handler with the delay before the message is leased again, at most
// a day.
func RetryAfter(d time.Duration, err error) error {
	return &verdict{err: err, delay: min(max(0, d), longestDelay)}
}

// verdict is an error with the settlement of a message.
type verdict struct {
	err    error
	reject bool
	delay  time.Duration
}

func (v *verdict) Error() string {
	if v.err == nil {
		return ""
	}
	return v.err.Error()
}

func (v *verdict) Unwrap() error { return v.err }

// Outcome is the settlement of a message.
type Outcome string

// The outcomes.
const (
	Acked    Outcome = "ack"
	Nacked   Outcome = "nack"
	Rejected Outcome = "reject"
)

// Settled is a message that was dealt with.
type Settled struct {
	Message *Message
	Outcome Outcome
	Reason  string        // of a nack or reject
	Took    time.Duration // that the handler took
	// not nil: it is unknown whether the server has recorded the outcome, so the message may come
	// again
	Err error
}

// ConsumeOptions say how to consume. Every zero value has a meaning.
type ConsumeOptions struct {
	Consumer    string        // name under which the server shows it; empty: none
	Concurrency int           // handlers at once; 0: one
	Count       int           // end after this many messages, and lease no others; 0: never
	Wait        time.Duration // of one question for messages; 0: 20 s
	Drain       time.Duration // how long handlers may go on once ctx has ended; 0: 30 s
	// nil, or called with the settlement of each message, by several goroutines at once
	Settled func(Settled)
	// nil, or called with the reason for missing messages before the server is asked again
	Trouble func(error)
}

// How a consumer asks.
const (
	defaultWait    = 20 * time.Second
	defaultDrain   = 30 * time.Second
	mostAtOnce     = 100 // leases that are asked for together
	firstTrouble   = 200 * time.Millisecond
	longestTrouble = 30 * time.Second
	longestReason  = 500
	longestDelay   = 24 * time.Hour // the limit of a server
	// minimum time for settling, however little is left of the lease
	shortestSettling = 5 * time.Second
)

// Consume leases messages from a queue and runs handle for each until ctx ends. It asks only for as
// many as it has free handlers, extends the leases of slow ones, and continues, more slowly, while
// the server is unreachable. When ctx ends it leases nothing more, gives back messages that arrive
// late, gives handlers the time of Drain to finish, and returns nil. It returns an error earlier if
// asking again cannot help: the queue does not exist, or the key lacks the scope.
//
// A message comes at least once. It comes again if its handler fails, if its lease expires first,
// and if the answer to an ack is lost. Addresses in the server's answers are not followed: all
// requests go to the server of the client.
func (c *Client) Consume(ctx context.Context, queue string, handle Handler, o ConsumeOptions) error {
	o.Concurrency = max(1, o.Concurrency)
	o.Wait = cmp.Or(o.Wait, defaultWait)
	o.Drain = cmp.Or(o.Drain, defaultDrain)
	working, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(errStopping)
	k := &consumer{client: c, queue: queue, handle: handle, options: o, working: working, free: make(chan struct{}, o.Concurrency)}
	for range o.Concurrency {
		k.free <- struct{}{}
	}
	// Drain limits handlers only after ctx ended. An error that ends taking lets them finish.
	stopped := context.AfterFunc(ctx, func() { time.AfterFunc(o.Drain, func() { cut(errStopping) }) })
	defer stopped()
	err := k.take(ctx)
	k.running.Wait()
	return err
}

// consumer is one Consume.
type consumer struct {
	client  *Client
	queue   string
	handle  Handler
	options ConsumeOptions
	working context.Context // of handlers and of settling
	free    chan struct{}   // one for each handler that may be started
	running sync.WaitGroup
}

// take leases messages and starts their handlers until ctx ends, Count messages were leased, or an
// error that asking again cannot change.
func (k *consumer) take(ctx context.Context) error {
	trouble, left, most := firstTrouble, cmp.Or(max(0, k.options.Count), math.MaxInt), mostAtOnce
	for left > 0 {
		n := k.reserve(ctx, min(left, most))
		if n == 0 {
			return nil
		}
		began := time.Now()
		found, err := k.client.Next(ctx, k.queue, Take{Max: n, Wait: k.jittered(k.options.Wait), Consumer: k.options.Consumer})
		for i := range found {
			k.start(ctx, &found[i], i < n)
		}
		// An answer that takes this long is too large for the line: leases would expire on the way.
		if errors.Is(err, context.DeadlineExceeded) || len(found) > 0 && time.Since(found[0].at) > max(found[0].left, time.Second)/2 {
			most = max(1, n/2)
		} else if len(found) == most {
			most = min(most+1, mostAtOnce)
		}
		k.release(n - min(n, len(found)))
		left -= len(found)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && final(err):
			return err
		case err != nil:
			if k.options.Trouble != nil {
				k.options.Trouble(err)
			}
		case len(found) > 0 || time.Since(began) >= k.options.Wait/4:
			trouble = firstTrouble
			continue
		}
		// An empty answer that comes at once is from a server that is about to stop.
		if !rest(ctx, k.pause(trouble, err)) {
			return nil
		}
		trouble = min(2*trouble, longestTrouble)
	}
	return nil
}

// reserve waits for a free handler and takes all free ones, up to most; 0: ctx has ended.
func (k *consumer) reserve(ctx context.Context, most int) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-k.free:
	case <-ctx.Done():
		return 0
	}
	for n := 1; ; n++ {
		if n == most {
			return n
		}
		select {
		case <-k.free:
		default:
			return n
		}
	}
}

func (k *consumer) release(n int) {
	for range n {
		k.free <- struct{}{}
	}
}

// jittered is between four fifths of d and all of it, so that many consumers do not ask at the same
// instant.
func (k *consumer) jittered(d time.Duration) time.Duration {
	return d - time.Duration(k.client.fraction()*float64(d)/5)
}

// pause is jittered, but not shorter than the server asks for.
func (k *consumer) pause(d time.Duration, err error) time.Duration {
	d = k.jittered(d)
	if refused, ok := errors.AsType[*Error](err); ok {
		d = max(d, refused.RetryAfter)
	}
	return d
}

// final says whether asking again gives the same answer.
func final(err error) bool {
	var refused *Error
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusConflict:
		return false
	}
	return refused.Status < 500
}

// start handles a message. One that arrives after ctx ended, or beyond the number asked for, is
// given back.
func (k *consumer) start(ctx context.Context, m *Message, reserved bool) {
	wanted := reserved && ctx.Err() == nil
	k.running.Go(func() {
		if reserved {
			defer k.release(1)
		}
		if !wanted {
			k.settle(m, RetryAfter(0, errStopping), 0, m.at.Add(m.left))
			return
		}
		k.work(m)
	})
}

// work runs a message's handler under its lease, and settles the message.
func (k *consumer) work(m *Message) {
	ctx, lost := context.WithCancelCause(k.working)
	kept := make(chan time.Time, 1)
	go func() { kept <- k.keep(ctx, m, lost) }()
	began := time.Now()
	err := k.protected(ctx, m)
	took := time.Since(began)
	gone := context.Cause(ctx)
	lost(nil)
	end := <-kept
	if errors.Is(gone, ErrLeaseLost) {
		outcome, reason, _ := judge(err)
		k.tell(Settled{Message: m, Outcome: outcome, Reason: reason, Took: took, Err: gone})
		return
	}
	k.settle(m, err, took, end)
}

// protected runs the handler; a panic is an error of its own.
func (k *consumer) protected(ctx context.Context, m *Message) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return k.handle(ctx, m)
}

// keep extends a lease each time half of it has passed, until ctx ends, and returns its end. When
// the lease expires it calls lost.
func (k *consumer) keep(ctx context.Context, m *Message, lost context.CancelCauseFunc) (end time.Time) {
	length := min(max(m.left, time.Second), grapnel.MaxLease)
	end = m.at.Add(length)
	for wait := time.Until(end) / 2; rest(ctx, wait); {
		asked := time.Now()
		asking, done := half(ctx, end)
		_, err := k.client.Extend(asking, m.Lease, length)
		done()
		switch {
		case err == nil:
			// the server counts from when it got the request, which is after asked
			end = asked.Add(length)
			wait = length / 2
		case ctx.Err() != nil:
			return end
		case over(err), time.Now().After(end):
			lost(ErrLeaseLost)
			return end
		default:
			wait = max(time.Until(end)/4, 50*time.Millisecond)
		}
	}
	return end
}

// half limits one request to half of the time until end: a connection that is dead without a sign
// leaves time for another one.
func half(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Until(end)/2)
}

// over says whether a lease has expired, is settled, or is unknown to the server.
func over(err error) bool {
	var refused *Error
	return errors.As(err, &refused) &&
		(refused.Status == http.StatusConflict || refused.Status == http.StatusNotFound || refused.Status == http.StatusGone)
}

// judge turns a handler's error into a settlement: outcome, reason, and the delay of a nack.
func judge(err error) (Outcome, string, time.Duration) {
	var v *verdict
	switch {
	case err == nil:
		return Acked, "", 0
	case !errors.As(err, &v):
		return Nacked, short(err.Error()), ByPolicy
	case v.reject:
		return Rejected, short(err.Error()), 0
	}
	return Nacked, short(err.Error()), v.delay
}

// short cuts a reason to the server's limit.
func short(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	runes := []rune(text)
	if len(runes) <= longestReason {
		return text
	}
	return string(runes[:longestReason-1]) + "…"
}

// settle sends a settlement to the server, repeatedly until it has an answer or the lease has
// expired. A stop does not interrupt it, because the work is done by then.
func (k *consumer) settle(m *Message, err error, took time.Duration, end time.Time) {
	outcome, reason, delay := judge(err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.working), max(time.Until(end), shortestSettling))
	defer cancel()
	failed := k.say(ctx, m, outcome, reason, delay)
	k.tell(Settled{Message: m, Outcome: outcome, Reason: reason, Took: took, Err: failed})
}

func (k *consumer) say(ctx context.Context, m *Message, outcome Outcome, reason string, delay time.Duration) error {
	end, _ := ctx.Deadline()
	for wait := firstTrouble; ; wait = min(2*wait, longestTrouble) {
		var err error
		asking, done := half(ctx, end)
		switch outcome {
		case Acked:
			err = k.client.Ack(asking, m.Lease)
		case Rejected:
			err = k.client.Reject(asking, m.Lease, reason)
		default:
			err = k.client.Nack(asking, m.Lease, reason, delay)
		}
		done()
		if err == nil || final(err) || over(err) || !rest(ctx, k.pause(wait, err)) {
			return err
		}
	}
}

func (k *consumer) tell(s Settled) {
	if k.options.Settled != nil {
		k.options.Settled(s)
	}
}
