package torture

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

func sequentialDuplicate(ctx context.Context, t *trial) {
	e := t.event(plain{})
	t.send(ctx, e, request{label: "first"})
	t.send(ctx, e, request{label: "again", late: time.Second}) // a sender signs each attempt anew
	t.settle(ctx)
}

// concurrentDuplicate allows copies to be told to come again, and then comes again.
func concurrentDuplicate(ctx context.Context, t *trial) {
	e := t.event(plain{})
	t.together(ctx, e, t.Bounds.Copies, request{label: "copy", allowed: Accepted | again})
	t.retry(ctx, e)
	t.settle(ctx)
}

// overlap is when a copy comes after the first one, whose handler works for the bound.
func (t *trial) overlap() time.Duration { return t.Bounds.Hang / 4 }

// copyDuringFailure sends copies while the first one runs. A sender stops at the first 2xx: a copy
// that was accepted must have had its effect, although the first one failed. A copy must be
// answered in time, although the first one takes longer. A sender may give up before the answer and
// come again. And a first one that fails late must leave the claim of its successor alone.
func copyDuringFailure(ctx context.Context, t *trial) {
	failing := t.event(plain{label: "first fails"})
	t.fail(ctx, failing, "hang", 1, t.Bounds.Hang)
	t.overlapping(ctx, failing, "first, whose handler fails", true)
	slow := t.event(plain{label: "first is slow"})
	t.fail(ctx, slow, "slow", 1, t.Bounds.AckBudget+t.Bounds.Hang)
	t.overlapping(ctx, slow, "first, slower than the budget", false)

	left := t.event(plain{label: givesUp})
	t.fail(ctx, left, "slow", 1, t.Bounds.Hang)
	limited, cancel := context.WithTimeout(ctx, t.overlap())
	t.send(limited, left, request{label: "first, given up by its sender", allowed: some | Silent, slow: true})
	cancel()
	if rest(ctx, t.Bounds.Hang) {
		t.retry(ctx, left)
	}
	t.lateFailure(ctx)
	t.settle(ctx)
}

// lateFailure lets the lease of the first copy pass while its handler works, so that a second one
// takes the claim over, and the first one fails after that. If it releases the claim, which is not
// its own any more, another copy runs beside the second one or after it. It needs a clock: no lease
// is waited for.
func (t *trial) lateFailure(ctx context.Context) {
	if t.ClockURL == "" {
		return
	}
	e := t.event(plain{label: leasePasses})
	t.fail(ctx, e, "hang", 1, t.Bounds.Hang)
	ctxFirst, giveUp := context.WithCancel(ctx)
	first := t.working(ctxFirst, e, "first, which fails after its lease")
	t.setClock(ctx, time.Hour)
	t.fail(ctx, e, "slow", 1, 2*t.Bounds.Hang)
	second := t.working(ctx, e, "copy that takes over")
	if rest(ctx, t.Bounds.Hang) {
		t.send(ctx, e, request{label: "copy after the failure", allowed: Accepted | again, slow: true})
	}
	second()
	giveUp()
	first()
	t.retry(ctx, e) // once more if it is done; it sets the clock right
}

// working sends a request and returns while its handler works; answered waits for the answer.
func (t *trial) working(ctx context.Context, e *Event, label string) (answered func() *Request) {
	wrote, done := make(chan struct{}), make(chan *Request, 1)
	once := sync.OnceFunc(func() { close(wrote) })
	go func() {
		r := t.send(ctx, e, request{label: label, allowed: some | Silent, slow: true, wrote: once})
		once()
		done <- r
	}()
	<-wrote
	rest(ctx, t.overlap())
	return func() *Request { return <-done }
}

// overlapping sends an event and a copy of it while the first one's handler works, and again until
// one of them is accepted.
func (t *trial) overlapping(ctx context.Context, e *Event, label string, slow bool) {
	first := t.working(ctx, e, label)
	two := t.send(ctx, e, request{label: "copy meanwhile", allowed: Accepted | again, slow: slow})
	if one := first(); classOf(one.Status) != Accepted && classOf(two.Status) != Accepted {
		t.retry(ctx, e)
	}
}

func deepDifference(ctx context.Context, t *trial) {
	sent := t.now().UTC().Format(time.RFC3339Nano)
	key := t.key()
	for _, deep := range []string{"1", "2"} {
		t.send(ctx, t.event(plain{key: key, sent: sent, more: `"lines":[{"tax":{"rate":` + deep + `}}]`, label: "rate " + deep}),
			request{label: "rate " + deep})
	}
	if t.Scheme.SignsID { // without ids the two may be refused, but not taken for one
		for _, deep := range []string{"3", "4"} {
			e := t.optional(plain{key: t.key(), sent: sent, more: `"lines":[{"tax":{"rate":` + deep + `}}]`, label: "without an id"})
			e.byKey = t.Probe != nil && t.Probe.Keys()
			r := t.send(ctx, e, request{label: "without an id", allowed: some, change: func(h http.Header) { without(h, e.ID) }})
			if e.byKey && classOf(r.Status) == Accepted {
				e.Least = 1
			}
		}
	}
	t.settle(ctx)
}

func equalPayloads(ctx context.Context, t *trial) {
	if strings.Contains(t.Body, "{event}") || strings.Contains(t.Body, "{id}") {
		t.unjudged("the id is part of the payload")
		return
	}
	p := plain{key: t.key(), sent: t.now().UTC().Format(time.RFC3339Nano)}
	for _, label := range []string{"one id", "another id"} {
		p.label = label
		t.send(ctx, t.event(p), request{label: label})
	}
	t.settle(ctx)
}

func largeNumbers(ctx context.Context, t *trial) {
	sent := t.now().UTC().Format(time.RFC3339Nano)
	var want []*State
	for _, amount := range []string{"9007199254740992", "9007199254740993"} {
		e := t.event(plain{key: t.key(), sent: sent, amount: amount, version: 1, label: amount})
		t.send(ctx, e, request{label: amount})
		want = append(want, &State{Key: e.Key, Field: "amount", Want: amount})
	}
	t.settle(ctx, want...)
}

func otherBody(ctx context.Context, t *trial) {
	e := t.event(plain{amount: "500", version: 1})
	t.send(ctx, e, request{label: "amount 500"})
	other := bytes.Replace(e.body, []byte("500"), []byte("900"), 1)
	other = bytes.Replace(other, []byte(`"version":1`), []byte(`"version":2`), 1) // or a gate would hide an effect
	if bytes.Equal(other, e.body) {
		other = widened(e.body, `"torture":1`)
	}
	t.send(ctx, e, request{label: "same id, amount 900", allowed: Accepted | no, body: other, late: time.Second})
	t.settle(ctx, &State{Key: e.Key, Field: "amount", Want: "500", extra: true})
}

func twoSources(ctx context.Context, t *trial) {
	first := t.event(plain{label: "source 1"})
	second := t.event(plain{label: "source 2"})
	second.ID, second.other = first.ID, true
	if t.Scheme.New != nil {
		second.header, second.body = first.header, first.body
	}
	if t.Probe != nil {
		first.byKey = t.Probe.Keys() && t.Scheme.New == nil
		second.byKey = first.byKey
		if !first.byKey { // the id has the effects of both
			first.Least, first.Most, second.Least, second.Most = 2, 2, 2, 2
		}
	}
	t.send(ctx, first, request{label: "source 1"})
	t.send(ctx, second, request{label: "source 2, same id"})
	t.settle(ctx)
}

// lateReplay moves the clock on and sends an event again.
func lateReplay(ctx context.Context, t *trial) {
	e := t.event(plain{})
	t.send(ctx, e, request{label: "first"})
	t.settle(ctx)
	t.setClock(ctx, t.Bounds.ReplayAfter)
	t.send(ctx, e, request{label: "replay"})
	t.settle(ctx)
	t.setClock(ctx, 0)
}
