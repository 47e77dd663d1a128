package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/grapnelhq/grapnel/policy"
)

// TestPauseDisableDelete: when the call returns no further attempt starts; pending deliveries are
// held, or end as dropped.
func TestPauseDisableDelete(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{}
		b.endpoint("ep", r, nil)
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
		b.publish("k", 3)
		time.Sleep(time.Hour)
		if n := len(r.log()); n != 0 {
			t.Fatalf("%d requests to a paused endpoint", n)
		}
		if got := b.engine.Held(); !slices.Equal(got, []string{"ep"}) {
			t.Errorf("held: %v", got)
		}
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		time.Sleep(time.Second)
		if n := len(r.log()); n != 3 {
			t.Fatalf("%d requests after resuming", n)
		}
		r.answer(status(500))
		b.publish("k", 3)
		time.Sleep(time.Second)
		if err := b.engine.DeleteEndpoint(context.Background(), store.Everyone(), "ep", grapnel.By{}); err != nil {
			t.Fatal(err)
		}
		before := len(r.log())
		time.Sleep(24 * time.Hour)
		if n := len(r.log()); n != before {
			t.Errorf("%d requests after the endpoint was deleted", n-before)
		}
		for _, d := range b.deliveries("ep")[3:] {
			if d.Status != grapnel.Dropped || d.ReasonCode != grapnel.ReasonEndpointGone {
				t.Errorf("%s is %s (%s)", d.EventID, d.Status, d.ReasonCode)
			}
		}
		if _, ok := b.engine.Endpoint(store.Everyone(), "ep"); ok {
			t.Error("the endpoint is still there")
		}
	})
}

// TestGoneDisables: 410 ends the delivery and closes the endpoint; enabling it again drains what
// waited.
func TestGoneDisables(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n == 0 {
				w.WriteHeader(http.StatusGone)
			}
		}}
		b.endpoint("ep", r, nil)
		b.publish("k", 2)
		time.Sleep(time.Minute)
		ep, _ := b.engine.Endpoint(store.Everyone(), "ep")
		if ep.Status != grapnel.EndpointDisabled || ep.DisabledReason == "" || len(r.log()) != 1 {
			t.Fatalf("status %s, reason %q, %d requests", ep.Status, ep.DisabledReason, len(r.log()))
		}
		if d := b.deliveries("ep")[0]; d.Status != grapnel.Failed || d.ReasonCode != grapnel.ReasonPermanent {
			t.Errorf("the delivery is %s (%s)", d.Status, d.ReasonCode)
		}
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		time.Sleep(time.Minute)
		if d := b.deliveries("ep")[1]; d.Status != grapnel.Delivered {
			t.Errorf("the one that waited is %s", d.Status)
		}
	})
}

// TestLater: an event for later is attempted at its time and by its schedule from then on, through a
// restart and an outage before its time. A later event of its key waits behind it; one of another
// key does not.
func TestLater(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: status(500)}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) {
			ep.Policy, _ = policy.Preset("standard")
			ep.PolicyName, ep.Policy.MaxAge, ep.Policy.MaxAttempts = "", policy.Duration(time.Hour), 2
			ep.Policy.Schedule = policy.Schedule{Mode: policy.SincePrevious, Delays: []policy.Duration{0, policy.Duration(10 * time.Second)}, Tail: policy.TailStop}
			ep.Policy.Jitter = policy.Jitter{}
		})
		began := time.Now()
		at := began.Add(48 * time.Hour)
		ev := &grapnel.Event{ID: "later", Tenant: "default", Type: "test.event", Key: "k", Data: []byte("{}"), ContentType: grapnel.JSONType,
			OccurredAt: began, AcceptedAt: began}
		if _, err := b.engine.Publish(context.Background(), []store.Incoming{{Event: ev, NotBefore: at}}, nil); err != nil {
			t.Fatal(err)
		}
		b.publish("k", 1)
		for range 10 { // they open the circuit, and end
			b.publish("other", 1)
		}
		time.Sleep(3 * time.Hour)
		if d := b.deliveries("ep"); d[0].Status != grapnel.Pending || d[0].AttemptsMade != 0 || d[1].AttemptsMade != 0 {
			t.Fatalf("before its time: %+v, %+v", d[0], d[1])
		}
		if n, _, err := b.engine.RetryAll(context.Background(), store.Everyone(), "ep", &grapnel.Selection{}, grapnel.By{}); n != 0 || err != nil {
			t.Fatalf("a retry of all made %d attempts: %v", n, err)
		}
		if err := b.engine.Probe(context.Background(), store.Everyone(), "ep", grapnel.By{}); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Fatalf("a probe: %v", err)
		}
		b.halt()
		time.Sleep(time.Hour)
		b.start(core.Options{})
		r.answer(status(200))
		b.publish("other", 1) // proves that the endpoint has recovered
		time.Sleep(time.Until(at) - time.Second)
		before := len(r.log())
		time.Sleep(2 * time.Second)
		got := r.log()[before:]
		if len(got) != 2 || got[0].id != "later" || got[0].at.Before(at) || got[1].id != "evt_1" {
			t.Fatalf("at its time: %+v", got)
		}
	})
}

// TestWishes: webhook-delivery: stop ends a delivery as rejected and says nothing about the health
// of the endpoint; the key goes on. disable disables like a 410, and a success that carries it stays
// a success.
func TestWishes(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &receiver{then: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 7 {
				w.Header().Set("Webhook-Delivery", "stop")
				w.WriteHeader(http.StatusInternalServerError)
			} else {
				w.Header().Set("Webhook-Delivery", "disable")
			}
		}}
		b.endpoint("ep", r, nil)
		b.publish("k", 7) // more than the failures that open a circuit
		time.Sleep(time.Minute)
		for _, d := range b.deliveries("ep") {
			if d.Status != grapnel.Failed || d.ReasonCode != grapnel.ReasonRejected || d.AttemptsMade != 1 ||
				!strings.Contains(d.Reason, "the receiver asked to stop this delivery") {
				t.Errorf("%s after %d attempts: %s (%s)", d.Status, d.AttemptsMade, d.ReasonCode, d.Reason)
			}
		}
		if h := b.health("ep"); len(r.log()) != 7 || h.State != grapnel.HealthHealthy {
			t.Errorf("%d requests, health %+v", len(r.log()), h)
		}
		b.publish("k", 2)
		time.Sleep(time.Minute)
		ep, _ := b.engine.Endpoint(store.Everyone(), "ep")
		if ep.Status != grapnel.EndpointDisabled || !strings.Contains(ep.DisabledReason, "asked to disable the endpoint, with 200") {
			t.Errorf("the endpoint is %s: %s", ep.Status, ep.DisabledReason)
		}
		got := map[grapnel.Status]int{}
		for _, d := range b.deliveries("ep") {
			got[d.Status]++
		}
		if want := map[grapnel.Status]int{grapnel.Failed: 7, grapnel.Delivered: 1, grapnel.Pending: 1}; !maps.Equal(got, want) {
			t.Errorf("deliveries: %v", got)
		}
	})
}

// TestRetryAndSkip: what people do to single deliveries.
func TestRetryAndSkip(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx, all := context.Background(), store.Everyone()
		r := &receiver{then: status(500)}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName = "paylera" })
		b.publish("k", 3)
		time.Sleep(time.Minute)
		ds := b.deliveries("ep")
		before := len(r.log())
		if _, err := b.engine.Retry(ctx, all, ds[0].Seq, grapnel.By{}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := r.log(); len(got) != before+1 || got[before].trigger != "manual" {
			t.Fatalf("retry now made %d requests", len(got)-before)
		}
		if _, err := b.engine.Retry(ctx, all, ds[1].Seq, grapnel.By{}, nil); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("retrying one that waits behind its key: %v", err)
		}
		for _, d := range []int{1, 0} {
			if err := b.engine.Skip(ctx, all, ds[d].Seq, grapnel.By{Reason: "a person says so"}); err != nil {
				t.Fatal(err)
			}
		}
		r.answer(nil)
		time.Sleep(time.Minute)
		ds = b.deliveries("ep")
		if ds[0].Status != grapnel.Skipped || ds[0].Reason != "a person says so" || ds[1].Status != grapnel.Skipped ||
			ds[2].Status != grapnel.Delivered {
			t.Errorf("they are %s (%s), %s, %s", ds[0].Status, ds[0].Reason, ds[1].Status, ds[2].Status)
		}
		if err := b.engine.Skip(ctx, all, ds[2].Seq, grapnel.By{Reason: "x"}); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("skipping what is over: %v", err)
		}
		again, err := b.engine.Retry(ctx, all, ds[2].Seq, grapnel.By{}, nil)
		if err != nil || again.Delivery == ds[2].Seq {
			t.Fatalf("delivering again: %v", err)
		}
		time.Sleep(time.Second)
		if ds := b.deliveries("ep"); ds[3].ReplayOf != ds[2].Seq || ds[3].Status != grapnel.Delivered || ds[3].EventID != ds[2].EventID {
			t.Errorf("the new delivery is %+v", ds[3])
		}
	})
}

// TestARetryAndItsAnswerAreOneCommit: the answer to a request to try a pending delivery now is
// stored with its effect. A process that is killed right afterwards, so that it stores nothing
// more, leaves no key by which the request is done twice.
func TestARetryAndItsAnswerAreOneCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		b := newBench(t, &memory.Faulty{Store: s, Injure: func(method string) memory.Fault {
			return map[string]memory.Fault{"Remember": {Err: errors.New("killed")}}[method]
		}})
		defer b.close()
		b.endpoint("ep", &receiver{then: status(503)}, nil)
		b.publish("k", 1)
		time.Sleep(time.Minute)
		once := &store.Once{Key: "key_1/a", Fingerprint: [32]byte{1}, Now: time.Now(), Expires: time.Now().Add(time.Hour),
			Answer: func(done any) store.Answer {
				return store.Answer{Status: 200, Body: fmt.Append(nil, done.(store.Redelivered).Delivery)}
			}}
		first := b.deliveries("ep")[0].Seq
		_, _ = b.engine.Retry(context.Background(), store.Everyone(), first, grapnel.By{}, once)
		given, err := s.Recall(context.Background(), once.Key, time.Now())
		if err != nil || given == nil || given.Fingerprint != once.Fingerprint || string(given.Body) != fmt.Sprint(first) {
			t.Errorf("after the retry the key has the answer %+v, %v", given, err)
		}
	})
}

// TestARetryGivesTheAnswerThatWasStoredFirst: another node has carried out the same retry of a
// pending delivery meanwhile. A caller gets that node's answer.
func TestARetryGivesTheAnswerThatWasStoredFirst(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.endpoint("ep", &receiver{then: status(500)}, nil)
		b.publish("k", 1)
		time.Sleep(time.Second)
		retry := func(reply string) *store.Answer {
			t.Helper()
			once := &store.Once{Key: "k", Now: time.Now(), Expires: time.Now().Add(time.Hour),
				Answer: func(any) store.Answer { return store.Answer{Status: 200, Body: []byte(reply)} }}
			done, err := b.engine.Retry(context.Background(), store.Everyone(), b.deliveries("ep")[0].Seq, grapnel.By{}, once)
			if err != nil {
				t.Fatal(err)
			}
			return done.Answer
		}
		if then := retry("one"); then != nil {
			t.Errorf("the first caller gets %s", then.Body)
		}
		if then := retry("two"); then == nil || string(then.Body) != "one" {
			t.Errorf("the second caller gets %v", then)
		}
	})
}

// TestDiscardMovesABlockedKeyOn: an exhausted delivery that blocks its key is discarded, and the
// next of the key gets its turn.
func TestDiscardMovesABlockedKeyOn(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		p := parsed(t, `{"schedule":{"mode":"since_previous","delays":["0s"]},"jitter":0,"max_attempts":1,"then":"block","breaker":false}`)
		r := &receiver{then: status(422)}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", p })
		b.publish("k", 2)
		time.Sleep(time.Minute)
		r.answer(nil)
		first := b.deliveries("ep")[0]
		if err := b.engine.Discard(
			context.Background(),
			store.Everyone(),
			first.Seq,
			grapnel.By{Actor: "key_1", Reason: "nobody needs it"},
		); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		ds := b.deliveries("ep")
		if ds[0].Status != grapnel.Discarded || ds[0].Reason != "discarded: nobody needs it" || ds[1].Status != grapnel.Delivered {
			t.Errorf("they are %s (%s) and %s", ds[0].Status, ds[0].Reason, ds[1].Status)
		}
		entries, err := b.store.AuditList(context.Background(), store.Everyone(), store.AuditQuery{Delivery: first.PlainID(), Limit: 5})
		if err != nil || len(entries) != 1 || entries[0].Verb != grapnel.VerbDiscard || entries[0].Actor != "key_1" {
			t.Errorf("on record: %+v, %v", entries, err)
		}
		if err := b.engine.Discard(context.Background(), store.Everyone(), first.Seq, grapnel.By{}); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("once more: %v", err)
		}
	})
}

// TestRefusedRetryChangesNothing: a retry that is refused because an earlier event of the key is
// pending leaves no trace: the delivery is attempted in its turn, by schedule.
func TestRefusedRetryChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx, all := context.Background(), store.Everyone()
		r := &receiver{then: status(500)}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.PolicyName = "paylera" })
		b.publish("k", 2)
		time.Sleep(time.Minute)
		second := b.deliveries("ep")[1]
		if _, err := b.engine.Retry(ctx, all, second.Seq, grapnel.By{}, nil); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Fatalf("retrying one that waits behind its key: %v", err)
		}
		if is := b.deliveries("ep")[1]; is.Reason != second.Reason {
			t.Errorf("its reason is %q", is.Reason)
		}
		entries, err := b.store.AuditList(ctx, all, store.AuditQuery{Delivery: second.PlainID(), Limit: 5})
		if err != nil || len(entries) != 0 {
			t.Errorf("on record: %+v, %v", entries, err)
		}
		r.answer(nil)
		time.Sleep(time.Hour)
		got := r.log()
		if last := got[len(got)-1]; last.id != second.EventID || last.trigger != "schedule" {
			t.Errorf("the last attempt is %+v", last)
		}
	})
}
