package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

func TestBreakersAreCountedWhenTheyChange(t *testing.T) {
	m := newMetrics(nil, false)
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	got := ""
	for _, opened := range []time.Time{{}, at, at, at.Add(time.Hour), {}, {}, at, {}} {
		got += fmt.Sprint(m.stands(&store.Standing{Endpoint: "ep", Standing: policy.Standing{OpenedAt: opened}}), " ")
	}
	if want := fmt.Sprint(
		policy.NoShift,
		policy.Opened,
		policy.NoShift,
		policy.NoShift,
		policy.Closed,
		policy.NoShift,
		policy.Opened,
		policy.Closed,
	); got != want+" " {
		t.Errorf("shifts: %s, not %s", got, want)
	}
	if len(m.open) != 0 {
		t.Errorf("it remembers %v", m.open)
	}
}

// TestNothingIsRememberedOfADeletedEndpoint: its circuit was open.
func TestNothingIsRememberedOfADeletedEndpoint(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.endpoint("ep", &receiver{then: status(500)}, nil)
		b.publish("", 10)
		time.Sleep(time.Minute)
		m := b.engine.metrics
		remembered := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.open)
		}
		if remembered() != 1 {
			t.Fatal("its circuit is closed")
		}
		if err := b.engine.DeleteEndpoint(t.Context(), store.Everyone(), "ep", grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if n := remembered(); n != 0 {
			t.Errorf("the circuits of %d endpoints are remembered", n)
		}
	})
}

// TestABrokenEndpointIsRememberedAndDrained: its circuit opens and stays open across a restart;
// once the endpoint is back, its held deliveries arrive within one probe and a ramp, not at the
// times of their schedules.
func TestABrokenEndpointIsRememberedAndDrained(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: status(500)}
		b.endpoint("ep", r, nil)
		b.endpoint("fine", &receiver{}, nil)
		for i := range 100 {
			b.publish(fmt.Sprintf("k%d", i), 1)
		}
		time.Sleep(3 * time.Hour)
		open := func(when string) {
			t.Helper()
			if h := b.health("ep"); h.State != grapnel.HealthOpen {
				t.Errorf("%s its health is %+v", when, h)
			}
			if held := b.engine.Held(); !slices.Equal(held, []string{"ep"}) {
				t.Errorf("%s held: %v", when, held)
			}
			if got := read(
				t,
				b.engine,
				"grapnel_breaker_state",
			); got[" open"] != 1 || got[" healthy"] != 1 || got[" disabled"] != 0 ||
				len(got) != len(grapnel.HealthStates()) {
				t.Errorf("%s counted: %v", when, got)
			}
		}
		open("while it is away")
		if got := read(t, b.engine, "grapnel_breaker_transitions_total"); got[" open"] != 1 || got[" closed"] != 0 {
			t.Errorf("counted: %v", got)
		}
		before := b.health("ep").Since
		b.halt()
		b.start(core.Options{})
		time.Sleep(time.Second)
		open("after a restart")
		if since := b.health("ep").Since; !since.Equal(before) {
			t.Errorf("open since %v, and since %v after a restart", before, since)
		}
		requests := len(r.log())
		r.answer(nil)
		time.Sleep(5*time.Minute + 30*time.Second)
		for _, d := range b.deliveries("ep") {
			if d.Status != grapnel.Delivered {
				t.Fatalf("%s is %s: %s", d.EventID, d.Status, d.Reason)
			}
		}
		if n := len(r.log()) - requests; n != 100 {
			t.Errorf("%d requests for 100 deliveries after its return", n)
		}
		if got := read(t, b.engine, "grapnel_breaker_transitions_total"); got[" open"] != 0 || got[" closed"] != 1 {
			t.Errorf("counted after the restart: %v", got)
		}
		if held := b.engine.Held(); len(held) != 0 {
			t.Errorf("held: %v", held)
		}
	})
}
