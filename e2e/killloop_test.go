//go:build linux

package e2e

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// The server is killed again and again while it works: at random moments, just after a receiver
// answered 2xx (between the effect and the record of it), and while it recovers. One endpoint fails
// for a while, again and again, so that its circuit opens and closes.
//
// No acknowledged event may be lost and no key reordered. Each kill may repeat at most one event
// per key and endpoint. The tenant's other endpoint gets exactly one operational event per dead
// letter.
func TestKillLoop(t *testing.T) {
	beside(t, busy)
	kills := 20
	if soak() {
		kills = 300
	}
	newTrial(t, program{}, all).killed(t, kills)
}

// killed kills the server the given number of times under load, and judges.
func (x *trial) killed(t *testing.T, kills int) {
	x.watch()
	x.under(6, func(ctx context.Context) {
		for n := 0; n < kills && !t.Failed(); n++ {
			x.nemesis(ctx)
			switch n {
			case kills / 4:
				x.set(ctx, history.Pause, x.named("slow"), "paused")
			case kills / 3:
				x.set(ctx, history.Enable, x.named("slow"), "enabled")
			case kills / 2:
				x.remove(ctx, x.named("leaver"))
			case 2 * kills / 3:
				x.retryFailed(10)
			}
		}
		pause(ctx, time.Second)
	})
	x.convict(x.verdict(2 * time.Minute))
	if n := x.named("moody").probed.Load(); n < int64(kills/4) {
		t.Errorf("only %d probes arrived over %d kills: breakers were hardly ever open", n, kills)
	}
	n := x.named("batched").batches.Load()
	t.Logf("%d requests had several events", n)
	if n < int64(kills) {
		t.Errorf("only %d requests over %d kills had several events", n, kills)
	}
	if x.load.accepted.Load() < int64(kills*10) {
		t.Errorf("only %d events were accepted over %d kills: the load was too thin to prove anything", x.load.accepted.Load(), kills)
	}
}

// A server stopped as an operator does it repeats no delivery, however busy it is.
func TestCleanRestart(t *testing.T) {
	beside(t, busy)
	restarts := 5
	if soak() {
		restarts = 50
	}
	x := newTrial(t, program{}, all)
	x.watch()
	x.under(6, func(ctx context.Context) {
		for n := 0; n < restarts && !t.Failed(); n++ {
			pause(ctx, x.dice.between(300*time.Millisecond, 1500*time.Millisecond))
			x.restart()
		}
		pause(ctx, 500*time.Millisecond)
	})
	x.convict(x.verdict(2 * time.Minute))
}

// nemesis kills the server once, in one of three ways, and starts it again.
func (x *trial) nemesis(ctx context.Context) {
	x.t.Helper()
	switch x.dice.n(5) {
	case 0, 1: // at any moment
		pause(ctx, x.dice.between(100*time.Millisecond, 1500*time.Millisecond))
	case 2, 3: // right after a receiver accepted a request
		pause(ctx, x.dice.between(100*time.Millisecond, 600*time.Millisecond))
		timer := time.NewTimer(5 * time.Second)
		defer timer.Stop()
		select {
		case <-x.receivers.answered:
			pause(ctx, x.dice.between(0, 4*time.Millisecond)+1)
		case <-timer.C:
			x.t.Log("no receiver was asked anything for five seconds")
		}
	case 4: // while it recovers from the previous kill
		pause(ctx, x.dice.between(100*time.Millisecond, 600*time.Millisecond))
		x.killNow()
		x.child.start()
		pause(ctx, x.dice.between(time.Millisecond, 150*time.Millisecond))
	}
	if x.child.ended() {
		x.t.Errorf("the server ended by itself: %v\n%s", x.child.current().Err, x.child.words(4000))
	}
	x.killNow()
	x.child.start()
	x.child.ready(30 * time.Second)
}

// retryFailed asks the server to retry some failed deliveries.
func (x *trial) retryFailed(most int) {
	x.t.Helper()
	var dead []row
	poll(context.Background(), 20*time.Second, 100*time.Millisecond, func() bool {
		dead = x.child.some(url.Values{"status": {"failed"}}, most)
		return len(dead) > 0
	})
	for _, failed := range dead[:min(most, len(dead))] {
		a := history.Action{Kind: history.Retry, Endpoint: failed.EndpointID, Delivery: failed.ID, Invoke: x.ledger.now()}
		var again row
		x.child.admitted(http.StatusOK, http.MethodPost, "/v1/deliveries/"+failed.ID+"/retry", nil, &again)
		a.Return, a.Made = x.ledger.now(), again.ID
		x.ledger.write(entry{Action: &a})
		if again.ReplayOf != failed.ID {
			x.t.Errorf("retrying %s made %s, which says that it repeats %q", failed.ID, again.ID, again.ReplayOf)
		}
	}
	if len(dead) == 0 {
		x.t.Error("nothing has failed so far: there is nothing to retry")
	}
}

func (x *trial) named(name string) *target {
	for _, target := range x.targets {
		if target.name == name {
			return target
		}
	}
	x.t.Fatalf("there is no target %s", name)
	return nil
}

// restart stops the server with SIGTERM and starts it again.
func (x *trial) restart() {
	stop := history.Fault{Kind: history.CleanStop, Start: x.ledger.now()}
	if code := x.child.terminate(40 * time.Second); code != 0 {
		x.t.Errorf("after SIGTERM the exit code is %d", code)
	}
	stop.End = x.ledger.now()
	x.ledger.write(entry{Fault: &stop})
	x.child.start()
	x.child.ready(30 * time.Second)
}
