package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// working is how long a handler is made to work so that a kill meets it.
const working = 2 * time.Second

// crashWhileWorking kills the receiver at several moments between arrival and answer, then sends
// all that has no answer again.
func crashWhileWorking(ctx context.Context, t *trial) {
	var unanswered []*Event
	kills := t.Bounds.Kills
	for i := range kills {
		e := t.event(plain{label: fmt.Sprintf("kill %d of %d", i+1, kills)})
		if !t.crash(ctx, e, t.typical*time.Duration(i)*3/time.Duration(2*kills)) {
			unanswered = append(unanswered, e)
		}
	}
	if t.FaultURL != "" {
		e := t.event(plain{label: "kill in the handler"})
		t.fail(ctx, e, "slow", 1, working)
		if !t.crash(ctx, e, working/4) {
			unanswered = append(unanswered, e)
		}
	}
	t.retry(ctx, unanswered...)
	t.recover(ctx)
}

// recover settles after a crash: a worker takes over a dead one's work once its lease has passed.
// With a clock that is at once, else within the patience.
func (t *trial) recover(ctx context.Context) {
	within := max(t.Bounds.Settle, t.Bounds.Patience)
	if t.ClockURL != "" && ctx.Err() == nil {
		t.setClock(ctx, time.Hour)
		defer t.setClock(ctx, 0)
		within = t.Bounds.Settle
	}
	t.settleWithin(ctx, within)
}

// crash sends an event and kills the receiver some time after the request was written. It reports
// whether the event was accepted.
func (t *trial) crash(ctx context.Context, e *Event, after time.Duration) bool {
	var dead atomic.Bool
	wrote, done := make(chan struct{}), make(chan *Request, 1)
	once := sync.OnceFunc(func() { close(wrote) })
	go func() {
		r := t.send(ctx, e, request{label: "killed meanwhile", allowed: Accepted | again, slow: true, wrote: once, killed: dead.Load})
		once()
		done <- r
	}()
	<-wrote
	rest(ctx, after)
	dead.Store(true)
	t.kill(ctx)
	return classOf((<-done).Status) == Accepted
}

// kill kills the receiver and starts it again.
func (t *trial) kill(ctx context.Context) {
	t.receiver.kill()
	t.mark("", "killed")
	if err := t.receiver.restart(ctx); err != nil {
		t.broken = "the receiver does not start again after it was killed: " + err.Error()
		t.stop(errors.New(t.broken))
		return
	}
	t.mark("", "started")
}

// crashAfterAnswer kills the receiver at the first answer of several events. A sender sends no
// accepted event again, so each must have its effect after the restart.
func crashAfterAnswer(ctx context.Context, t *trial) {
	events := make([]*Event, 10)
	for i := range events {
		events[i] = t.event(plain{label: fmt.Sprintf("event %d", i+1)})
		if t.FaultURL != "" {
			t.fail(ctx, events[i], "slow", 1, t.overlap())
		}
	}
	var dead atomic.Bool
	var senders sync.WaitGroup
	answered := make(chan struct{}, len(events))
	for _, e := range events {
		senders.Go(func() {
			t.send(ctx, e, request{label: "event", allowed: Accepted | again, slow: true, killed: dead.Load})
			answered <- struct{}{}
		})
	}
	<-answered
	dead.Store(true)
	t.kill(ctx)
	senders.Wait()
	t.recover(ctx)
}
