package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Handler deals with one message. What it returns is what becomes of it: nil is an ack, Reject(err) makes it a dead letter, RetryAfter(d, err)
// gives it back for that long, and any other error gives it back for as long as the queue's policy says. A panic gives it back too.
//
// ctx ends when the lease is lost, because somebody else may have the message by then, and when a stop has taken too long.
type Handler func(ctx context.Context, m *Message) error

// ErrLeaseLost is the cause of the context of a handler whose message may be somebody else's by now.
var ErrLeaseLost = errors.New("the lease is over: somebody else may have the message")

var errStopping = errors.New("the consumer is being stopped")

// Reject makes an error of a handler final: trying again would not help.
func Reject(err error) error { return &verdict{err: err, reject: true} }

// RetryAfter makes an error of a handler say when the message shall come again, a day from now at most.
func RetryAfter(d time.Duration, err error) error {
	return &verdict{err: err, delay: min(max(0, d), longestDelay)}
}

// verdict is an error that says what becomes of a message.
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

// Outcome is what a consumer said of a message.
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
	Err     error         // not nil: whether the server knows of the outcome is not certain, so the message may come again
}

// ConsumeOptions say how to consume. Every zero value has a meaning.
type ConsumeOptions struct {
	Consumer    string        // name under which the server shows it; empty: none
	Concurrency int           // handlers at once; 0: one
	Wait        time.Duration // of one question for messages; 0: 20 s
	Drain       time.Duration // how long handlers may go on once ctx has ended; 0: 30 s
	Settled     func(Settled) // told what became of each message, by several goroutines at once; nil: nobody is
	Trouble     func(error)   // told why there are no messages at present, before the server is asked again; nil: nobody is
}

// How a consumer asks.
const (
	defaultWait      = 20 * time.Second
	defaultDrain     = 30 * time.Second
	mostAtOnce       = 100 // leases that are asked for together
	firstTrouble     = 200 * time.Millisecond
	longestTrouble   = 30 * time.Second
	longestReason    = 500
	longestDelay     = 24 * time.Hour  // what a server takes
	shortestSettling = 5 * time.Second // settling is tried for so long, however little is left of the lease
)

// Consume takes messages from a queue and has them dealt with until ctx ends. It asks only for what it has handlers free for, extends the
// leases of those that take long, and goes on asking, more slowly, while the server is away. When ctx ends nothing more is taken, what came
// too late is given back, and handlers get the time of Drain to finish. It returns nil then; the error that ends it earlier is one that
// asking again does not change: there is no such queue, or the key may not.
//
// A message comes at least once. It comes again when its handler fails, when its lease ends first, and when the answer to an ack gets lost.
// What Grapnel answers is believed, but no address in it is followed: everything goes to the server that the client was made for.
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
	// Only when ctx ends is there a hurry: what ends the taking otherwise ends no handler.
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

// take leases messages and starts their handlers until ctx ends, or something has to change before it makes sense to ask again.
func (k *consumer) take(ctx context.Context) error {
	trouble := firstTrouble
	for {
		n := k.reserve(ctx)
		if n == 0 {
			return nil
		}
		began := time.Now()
		found, err := k.client.Next(ctx, k.queue, Take{Max: n, Wait: k.jittered(k.options.Wait), Consumer: k.options.Consumer})
		for i := range found {
			k.start(ctx, &found[i], i < n)
		}
		k.release(n - min(n, len(found)))
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
		wait := trouble
		var refused *Error
		if errors.As(err, &refused) {
			wait = max(wait, refused.RetryAfter)
		}
		if !rest(ctx, k.jittered(wait)) {
			return nil
		}
		trouble = min(2*trouble, longestTrouble)
	}
}

// reserve waits for a handler to be free and takes as many as are; 0: ctx has ended.
func (k *consumer) reserve(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-k.free:
	case <-ctx.Done():
		return 0
	}
	for n := 1; ; n++ {
		if n == mostAtOnce {
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

// jittered is between four fifths of d and all of it, so that many consumers do not ask at the same instant.
func (k *consumer) jittered(d time.Duration) time.Duration {
	return d - time.Duration(k.client.fraction()*float64(d)/5)
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

// start has a message dealt with. One that came when ctx had ended, or more than was asked for, is given back.
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

// work runs a message's handler under its lease, and says what came of it.
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
		outcome, reason := judge(err)
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

// keep extends a lease at half of its time, again and again, until ctx ends, and returns its end. When the lease is over it calls lost.
func (k *consumer) keep(ctx context.Context, m *Message, lost context.CancelCauseFunc) (end time.Time) {
	length := max(m.left, time.Second)
	end = m.at.Add(m.left)
	for wait := length / 2; rest(ctx, wait); {
		asked := time.Now()
		_, err := k.client.Extend(ctx, m.Lease, length)
		switch {
		case err == nil:
			end = asked.Add(length) // the server counts from when it got the request, which is not before this
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

// over says whether a lease is over or settled, or is not known any more.
func over(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && (refused.Status == http.StatusConflict || refused.Status == http.StatusNotFound || refused.Status == http.StatusGone)
}

// judge is what an error of a handler makes of its message.
func judge(err error) (Outcome, string) {
	var v *verdict
	switch {
	case err == nil:
		return Acked, ""
	case errors.As(err, &v) && v.reject:
		return Rejected, short(err.Error())
	}
	return Nacked, short(err.Error())
}

// short keeps a reason within what a server takes.
func short(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	runes := []rune(text)
	if len(runes) <= longestReason {
		return text
	}
	return string(runes[:longestReason-1]) + "…"
}

// settle tells the server what came of a message, again and again until it has an answer or the lease is over. A stop does not cut it short:
// the work is done by then.
func (k *consumer) settle(m *Message, err error, took time.Duration, end time.Time) {
	outcome, reason := judge(err)
	delay := ByPolicy
	var v *verdict
	if errors.As(err, &v) && !v.reject {
		delay = v.delay
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.working), max(time.Until(end), shortestSettling))
	defer cancel()
	failed := k.say(ctx, m, outcome, reason, delay)
	k.tell(Settled{Message: m, Outcome: outcome, Reason: reason, Took: took, Err: failed})
}

func (k *consumer) say(ctx context.Context, m *Message, outcome Outcome, reason string, delay time.Duration) error {
	for wait := firstTrouble; ; wait = min(2*wait, longestTrouble) {
		var err error
		switch outcome {
		case Acked:
			err = k.client.Ack(ctx, m.Lease)
		case Rejected:
			err = k.client.Reject(ctx, m.Lease, reason)
		default:
			err = k.client.Nack(ctx, m.Lease, reason, delay)
		}
		if err == nil || final(err) || over(err) || !rest(ctx, k.jittered(wait)) {
			return err
		}
	}
}

func (k *consumer) tell(s Settled) {
	if k.options.Settled != nil {
		k.options.Settled(s)
	}
}
