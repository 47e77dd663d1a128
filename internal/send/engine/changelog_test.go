package engine

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestDeadLettersAreLogged: the first ones of an endpoint with all that names them, the others as a
// count; a minute later the next ones again.
func TestDeadLettersAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, log := newLoggedBench(t, memory.New())
		defer b.close()
		b.endpoint("ep", &receiver{then: status(422)}, brief(t))
		b.endpoint("other", &receiver{}, func(ep *grapnel.Endpoint) { ep.EventTypes = []string{"another"} })
		few := b.engine.bounds.Recorder.Lines
		b.publish("", 200)
		time.Sleep(30 * time.Second)
		lines := log.lines("level=INFO", "delivery failed; it is a dead letter", "endpoint=ep")
		if len(lines) != few {
			t.Errorf("%d lines: %q", len(lines), lines)
		}
		all := b.deliveries("ep") // attempted at once, so any of them may be the first that failed
		d := all[slices.IndexFunc(all, func(d grapnel.Delivery) bool { return strings.Contains(lines[0], b.store.IDs().Of(&d)) })]
		for _, attr := range []string{"tenant=default", "delivery=" + b.store.IDs().Of(&d), "event=" + d.EventID, "reason_code=exhausted", "reason="} {
			if got := log.lines("it is a dead letter", b.store.IDs().Of(&d), attr); len(got) != 1 {
				t.Errorf("%s is in %q", attr, got)
			}
		}
		time.Sleep(time.Minute)
		if got := log.lines("more deliveries failed", "endpoint=ep", fmt.Sprint("deliveries=", 200-few)); len(got) != 1 {
			t.Errorf("they are counted in %q", got)
		}
		b.publish("", 1)
		time.Sleep(3 * time.Minute)
		if got := log.lines("it is a dead letter", "endpoint=ep"); len(got) != few+1 {
			t.Errorf("%d lines in the end", len(got))
		}
		if got := log.lines("more deliveries failed"); len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
}

// TestABlockedKeyIsLogged as what it is.
func TestABlockedKeyIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, log := newLoggedBench(t, memory.New())
		defer b.close()
		p := parsed(t, `{"schedule":{"mode":"since_previous","delays":["0s"]},"jitter":0,"max_attempts":1,"then":"block","breaker":false}`)
		b.endpoint("ep", &receiver{then: status(422)}, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p })
		b.publish("k", 2)
		time.Sleep(time.Minute)
		if got := log.lines(
			"level=INFO",
			"its key is blocked",
			"endpoint=ep",
			"event=evt_1",
		); len(got) != 1 ||
			len(log.lines("dead letter")) > 0 {
			t.Errorf("%q", got)
		}
	})
}

// TestCircuitsAreLogged when they open and close, each once, and nothing of them after a restart.
func TestCircuitsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, log := newLoggedBench(t, memory.New())
		defer b.close()
		r := &receiver{then: func(_ int, w http.ResponseWriter, _ *http.Request) {
			// by then all are published: the clock goes on only when nothing else does
			time.Sleep(time.Second)
			w.WriteHeader(http.StatusServiceUnavailable)
		}}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.MaxConcurrency = 1 })
		b.publish("", 40)
		time.Sleep(10 * time.Minute)
		opened := log.lines(
			"level=INFO",
			"circuit opened; deliveries are held",
			"endpoint=ep",
			"tenant=default",
			"held=40",
			"next_probe=",
			"answered 503",
		)
		if len(opened) != 1 || len(log.lines("circuit ")) != 1 {
			t.Fatalf("opened: %q", log.lines("circuit "))
		}
		b.halt()
		b.start(core.Options{})
		time.Sleep(time.Minute)
		if got := log.lines("circuit "); len(got) != 1 {
			t.Errorf("after a restart: %q", got)
		}
		r.answer(status(http.StatusOK))
		time.Sleep(time.Hour)
		if got := log.lines("level=INFO", "circuit closed", "endpoint=ep", "held="); len(got) != 1 || len(log.lines("circuit ")) != 2 {
			t.Errorf("closed: %q", log.lines("circuit "))
		}
	})
}

// TestBeingDisabledIsLogged: warnings, the end, and the way back.
func TestBeingDisabledIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, log := newLoggedBench(t, memory.New())
		defer b.close()
		p := parsed(t, `{"schedule":{"mode":"since_previous","delays":["0s"]},"jitter":0,"max_attempts":1,"breaker":false,
			"disable":{"consecutive":10,"of":"status_4xx","after":"0s"}}`)
		b.endpoint("ep", &receiver{then: status(422)}, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p })
		for range 10 {
			b.publish("", 1)
			time.Sleep(time.Second)
		}
		for text, count := range map[string]int{"percent=50": 1, "percent=90": 1, "endpoint disabled; nothing is sent to it": 1, "actor=grapnel": 1, "endpoint enabled": 0} {
			if got := log.lines("level=INFO", "endpoint=ep", text); len(got) != count {
				t.Errorf("%s: %q", text, got)
			}
		}
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status, ep.DisabledReason = grapnel.EndpointEnabled, "" })
		b.update("ep", func(ep *grapnel.Endpoint) { ep.MaxConcurrency = 3 })
		if got := log.lines("endpoint enabled; held deliveries go out", "endpoint=ep"); len(got) != 1 {
			t.Errorf("%q", got)
		}
		ep, _ := b.engine.Endpoint(store.Everyone(), "ep")
		ep.Revision = 99
		ep.Status = grapnel.EndpointDisabled
		if _, err := b.engine.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{}); err == nil {
			t.Fatal("a revision that does not exist was replaced")
		}
		if got := log.lines("endpoint disabled"); len(got) != 1 {
			t.Errorf("what was refused is in the log: %s", strings.Join(got, ""))
		}
	})
}
