package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/policy"
)

// losing is a store that, once armed, applies one PutEndpoint without saying so.
type losing struct {
	memory.Faulty
	mu     sync.Mutex
	armed  bool
	refuse bool // every PutEndpoint, which then has no effect
	puts   int
}

func newLosing() *losing {
	l := &losing{}
	l.Store = memory.New()
	l.Injure = func(method string) memory.Fault {
		l.mu.Lock()
		defer l.mu.Unlock()
		if method != "PutEndpoint" {
			return memory.Fault{}
		}
		l.puts++
		if l.refuse {
			return memory.Fault{Err: grapnel.Errorf(grapnel.CodeStorageFull, "full")}
		}
		lose := l.armed
		l.armed = false
		if lose {
			return memory.Fault{Err: errors.New("the answer is lost"), Applied: true}
		}
		return memory.Fault{}
	}
	return l
}

func (l *losing) set(armed, refuse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed, l.refuse, l.puts = armed, refuse, 0
}

func losingBubble(t *testing.T, test func(t *testing.T, b *bench, l *losing)) {
	synctest.Test(t, func(t *testing.T) {
		l := newLosing()
		b := newBench(t, l)
		defer b.close()
		test(t, b, l)
	})
}

func (b *bench) unheard(id string, r *receiver) {
	b.net.Handle(id+".test", r)
	_, err := b.engine.PutEndpoint(
		context.Background(),
		store.Everyone(),
		grapnel.Endpoint{
			ID:             id,
			Tenant:         "default",
			URL:            "http://" + id + ".test/",
			PolicyName:     "standard",
			MaxConcurrency: 4,
			Status:         grapnel.EndpointEnabled,
			Format:         grapnel.FormatStandard,
			Secrets:        []grapnel.Secret{{Text: testSecret}},
		},
		store.With{},
	)
	if err == nil {
		b.t.Error("the answer was not lost")
	}
}

// TestAChangeWhoseAnswerIsLostTakesEffect: an endpoint that is committed gets its events, though
// its creator got an error.
func TestAChangeWhoseAnswerIsLostTakesEffect(t *testing.T) {
	losingBubble(t, func(t *testing.T, b *bench, l *losing) {
		lost, other := &receiver{}, &receiver{}
		l.set(true, false)
		b.unheard("lost", lost)
		b.endpoint("other", other, nil)
		b.publish("k", 1)
		time.Sleep(time.Minute)
		if len(lost.log()) != 1 || len(other.log()) != 1 {
			t.Errorf("they got %d and %d", len(lost.log()), len(other.log()))
		}
	})
}

// TestDeletingAfterALostChange finds the revision that is there, and not by trying for ever.
func TestDeletingAfterALostChange(t *testing.T) {
	losingBubble(t, func(t *testing.T, b *bench, l *losing) {
		b.endpoint("ep", &receiver{}, nil)
		ep, _ := b.engine.Endpoint(store.Everyone(), "ep")
		ep.Status = grapnel.EndpointPaused
		l.set(true, false)
		if _, err := b.engine.PutEndpoint(context.Background(), store.Everyone(), ep, store.With{}); err == nil {
			t.Error("the answer was not lost")
		}
		if held := b.engine.Held(); len(held) != 1 {
			t.Errorf("a pause that is committed is not in effect: %v", held)
		}
		l.set(false, false)
		if err := b.engine.DeleteEndpoint(context.Background(), store.Everyone(), "ep", grapnel.By{}); err != nil || l.puts > 2 {
			t.Errorf("%v after %d writes", err, l.puts)
		}
	})
}

// TestDisablingIsRepeated until it is durable: what the core does and what people see must not
// differ.
func TestDisablingIsRepeated(t *testing.T) {
	losingBubble(t, func(t *testing.T, b *bench, l *losing) {
		r := &receiver{then: status(410)}
		b.endpoint("ep", r, nil)
		l.set(false, true)
		b.publish("k", 1)
		time.Sleep(time.Minute)
		if ep, _ := b.engine.Endpoint(store.Everyone(), "ep"); ep.Status != grapnel.EndpointEnabled || b.health("ep").State != "disabled" {
			t.Fatalf("it is %s, %+v", ep.Status, b.health("ep"))
		}
		l.set(false, false)
		time.Sleep(time.Minute)
		if ep, _ := b.engine.Endpoint(store.Everyone(), "ep"); ep.Status != grapnel.EndpointDisabled {
			t.Errorf("it is %s a minute after it could be stored", ep.Status)
		}
		r.answer(nil)
		b.publish("k", 1)
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		time.Sleep(time.Minute)
		if n := len(r.log()); n != 2 {
			t.Errorf("%d requests after it was enabled", n)
		}
	})
}

// TestNothingIsMadeThatWouldWaitWhereNothingWaits: a disabled endpoint whose policy drops refuses
// retries and tests.
func TestNothingIsMadeThatWouldWaitWhereNothingWaits(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		p, _ := policy.Preset("standard")
		p.Disable.Pending = policy.PendingDrop
		b.endpoint("ep", &receiver{}, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p })
		b.publish("", 1)
		time.Sleep(time.Minute)
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointDisabled })
		if _, err := b.engine.Retry(
			context.Background(),
			store.Everyone(),
			b.only("ep").Seq,
			grapnel.By{},
			nil,
		); grapnel.CodeOf(
			err,
		) != grapnel.CodeConflict {
			t.Errorf("retry: %v", err)
		}
		ev := &grapnel.Event{
			ID:          "evt_test",
			Type:        "a",
			Data:        []byte("1"),
			ContentType: grapnel.JSONType,
			AcceptedAt:  time.Now(),
			OccurredAt:  time.Now(),
		}
		if _, err := b.engine.Test(context.Background(), store.Everyone(), "ep", ev, 0, nil); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("test: %v", err)
		}
	})
}
