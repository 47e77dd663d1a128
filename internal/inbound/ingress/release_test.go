package ingress

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

const stripesSecret = "whsec_of_stripe"

// waiting is a station with a source of Stripe that has no secret, and a clock.
type waiting struct {
	*station
	*testing.T
	now time.Time
}

func newWaiting(t *testing.T, kept store.Store, change ...func(*grapnel.Source)) *waiting {
	t.Helper()
	w := &waiting{station: openStation(t, kept), T: t, now: time.Now().Truncate(time.Second)}
	w.restart()
	src := grapnel.Source{ID: "src_1", Tenant: "acme", Name: "stripe", Verify: grapnel.Verify{Scheme: "stripe"},
		Dedupe: grapnel.Dedupe{By: everyKind, Window: grapnel.DefaultDedupeWindow}}
	for _, c := range change {
		c(&src)
	}
	if !Waits(&src) {
		t.Fatal("it does not wait")
	}
	w.put(t, src)
	return w
}

// restart makes another receiver, as another node or the next process has.
func (w *waiting) restart() {
	w.receiver = New(Options{Bounds: under, Engine: w.engine, Store: w.store, Now: func() time.Time { return w.now }})
}

// stripe sends an event as Stripe does, at a time and signed with a secret.
func (w *waiting) stripe(body, secret string) answered {
	w.Helper()
	return w.send(w.T, "src_1", body, "Stripe-Signature", stripeSignature(body, secret, w.now), "Content-Type", "application/json")
}

func stripeSignature(body, secret string, at time.Time) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
}

// set gives the source its secret.
func (w *waiting) set() {
	w.Helper()
	src, _ := w.engine.Source(store.Everyone(), "src_1")
	src.Verify.Secrets, src.SecretAt = []grapnel.Secret{{Text: stripesSecret, CreatedAt: w.now}}, w.now
	w.put(w.T, src)
}

func (w *waiting) asides() []grapnel.Aside {
	w.Helper()
	all, err := w.store.AsideList(w.Context(), store.Of("acme"), store.AsideQuery{Source: "src_1", Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// arrived are the ids of the provider's events, in the order in which they were accepted.
func (w *waiting) arrived() []string {
	w.Helper()
	all, err := w.store.EventList(w.Context(), store.Of("acme"), store.EventQuery{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	var ids []string
	for i := range all {
		_, id, _ := strings.Cut(string(all[i].Data), `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		ids = append(ids, id)
	}
	slices.Reverse(ids)
	return ids
}

// TestASourceWaitsForItsSecret: Stripe shows the secret only after it knows the address. Genuine
// requests that arrived before become events, in the order of their arrival, once each.
func TestASourceWaitsForItsSecret(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New() },
		"sqlite": func(t *testing.T) store.Store { return openSQLite(t, filepath.Join(t.TempDir(), "grapnel.db")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaiting(t, open(t))
			var want []string
			long := `{"id":"evt_long","type":"b","object":"event","x":"` + strings.Repeat("y", 2*ample.AsideBody) + `"}`
			genuine := func(id, body string) {
				w.now = w.now.Add(time.Second)
				if got := w.stripe(body, stripesSecret); got.status != http.StatusAccepted || !got.Quarantined {
					t.Errorf("answered %d %s", got.status, got.body)
				}
				if !slices.Contains(want, id) {
					want = append(want, id)
				}
			}
			for i := range 5 {
				genuine(fmt.Sprint("evt_", i), fmt.Sprintf(`{"id":"evt_%d","type":"a","object":"event"}`, i))
			}
			genuine("evt_1", `{"id":"evt_1","type":"a","object":"event"}`) // again
			genuine("evt_2", `{"id":"evt_2","type":"a","object":"event","other":true}`)
			genuine("evt_long", long)
			if got := w.stripe(`{"id":"evt_forged","type":"a"}`, "another secret"); got.status != http.StatusAccepted || !got.Quarantined {
				t.Errorf("answered %d %s", got.status, got.body)
			}
			// no secret could verify these
			if got := w.send(t, "src_1", `{"id":"evt_x"}`); got.status != http.StatusUnauthorized {
				t.Errorf("unsigned: answered %d %s", got.status, got.body)
			}
			stale := stripeSignature(`{"id":"evt_x"}`, stripesSecret, w.now.Add(-time.Hour))
			if got := w.send(t, "src_1", `{"id":"evt_x"}`, "Stripe-Signature", stale); got.status != http.StatusUnauthorized {
				t.Errorf("stale: answered %d %s", got.status, got.body)
			}
			if got := len(w.asides()); got != 9 || len(w.arrived()) != 0 {
				t.Fatalf("%d are set aside, %v arrived", got, w.arrived())
			}
			if done, err := w.receiver.Release(t.Context(), "src_1"); err != nil || done != (Released{}) || len(w.asides()) != 9 {
				t.Errorf("without the secret: %+v, %v", done, err)
			}

			at := w.now
			w.now = w.now.Add(2 * 24 * time.Hour) // as of then the signatures are too old
			w.set()
			w.now = w.now.Add(time.Second)
			done, err := w.receiver.Release(t.Context(), "src_1")
			if want := (Released{Events: 6, Duplicates: 1, Conflicts: 1, Left: 1}); err != nil || done != want {
				t.Errorf("%+v, %v; want %+v", done, err, want)
			}
			if got := w.arrived(); !slices.Equal(got, want) {
				t.Errorf("%v arrived, want %v", got, want)
			}
			left := map[grapnel.AsideReason]string{}
			for _, a := range w.asides() {
				left[a.Why] += a.Checks[len(a.Checks)-1].Text
			}
			if len(left) != 2 || left[grapnel.AsideUnverified] != "signature matches no secret" ||
				left[grapnel.AsideConflict] != "signature matches secret 1 of 1" {
				t.Errorf("left are %v", left)
			}
			list, err := w.store.EventList(t.Context(), store.Of("acme"), store.EventQuery{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			ev := w.event(t, list[0].ID)
			if string(ev.Data) != long || ev.Type != "b" || ev.OccurredAt.After(at) || !ev.AcceptedAt.Equal(w.now) ||
				!ev.Intake.At.Equal(ev.OccurredAt) ||
				ev.Intake.Known != "evt_long" || ev.Intake.Path != "/in/src_1" || ev.Intake.Remote != "192.0.2.1" || len(ev.Intake.Headers) != 3 {
				t.Errorf("%.80s of %s, accepted %s, came in as %+v", ev.Data, ev.OccurredAt, ev.AcceptedAt, ev.Intake)
			}
			if done, err := w.receiver.Release(t.Context(), "src_1"); err != nil || done != (Released{}) {
				t.Errorf("again: %+v, %v", done, err)
			}
			// the next ones are verified as they come
			if got := w.stripe(`{"id":"evt_1","type":"a","object":"event"}`, stripesSecret); got.status != http.StatusOK || !got.Duplicate {
				t.Errorf("answered %d %s", got.status, got.body)
			}
			if got := w.stripe(`{"id":"evt_9","type":"a","object":"event"}`, "another secret"); got.status != http.StatusUnauthorized {
				t.Errorf("answered %d %s", got.status, got.body)
			}
		})
	}
}

// TestReleaseAfterKills: whichever call fails, with or without its effect, the next run goes on
// behind it: each request is one event, even at a source that does not deduplicate.
func TestReleaseAfterKills(t *testing.T) {
	for _, by := range [][]grapnel.DedupeBy{everyKind, nil} {
		var mu sync.Mutex
		random, failing := rand.New(rand.NewPCG(1, 2)), false
		faulty := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
			mu.Lock()
			defer mu.Unlock()
			if !failing || random.IntN(3) > 0 || method != "Append" && method != "ChangeAside" && method != "AsideList" && method != "Aside" {
				return memory.Fault{}
			}
			writes := method == "Append" || method == "ChangeAside"
			return memory.Fault{Err: errors.New("the answer is lost"), Applied: writes && random.IntN(2) == 0}
		}}
		w := newWaiting(t, faulty, func(s *grapnel.Source) { s.Dedupe.By = by })
		var want []string
		for i := range 20 {
			w.now = w.now.Add(time.Second)
			want = append(want, fmt.Sprint("evt_", i))
			w.stripe(fmt.Sprintf(`{"id":"evt_%d","type":"a","object":"event"}`, i), stripesSecret)
		}
		w.set()
		mu.Lock()
		failing = true
		mu.Unlock()
		failures := 0
		for len(w.queued(&mu, &failing)) > 0 {
			w.restart()
			if _, err := w.receiver.Release(t.Context(), "src_1"); err != nil {
				failures++
			}
			if failures > 500 {
				t.Fatal("it does not end")
			}
		}
		if got := w.arrived(); failures < 20 || !slices.Equal(got, want) {
			t.Errorf("by %v: after %d failures %v arrived", by, failures, got)
		}
	}
}

// queued are the requests that wait, read without a fault.
func (w *waiting) queued(mu *sync.Mutex, failing *bool) []grapnel.Aside {
	w.Helper()
	mu.Lock()
	was := *failing
	*failing = false
	mu.Unlock()
	defer func() { mu.Lock(); *failing = was; mu.Unlock() }()
	return w.asides()
}

// TestReleaseWithinAMillisecond: ids do not order requests of one millisecond; their times do, also
// where a page ends.
func TestReleaseWithinAMillisecond(t *testing.T) {
	w := newWaiting(t, memory.New())
	w.receiver = New(Options{Bounds: ample, Engine: w.engine, Store: w.store, Now: func() time.Time { return w.now }})
	var want []string
	for i := range 3 * ample.ReleasePage {
		w.now = w.now.Add(100 * time.Microsecond)
		want = append(want, fmt.Sprint("evt_", i))
		w.stripe(fmt.Sprintf(`{"id":"evt_%d","type":"a","object":"event"}`, i), stripesSecret)
	}
	w.set()
	done, err := w.receiver.Release(t.Context(), "src_1")
	if got := w.arrived(); err != nil || done.Events != len(want) || !slices.Equal(got, want) {
		t.Errorf("%+v, %v: %v arrived", done, err, got)
	}
}

// TestTwoNodesRelease: nodes that release at once make one event of each request, in order.
func TestTwoNodesRelease(t *testing.T) {
	w := newWaiting(t, memory.New(), func(s *grapnel.Source) { s.Dedupe.By = nil })
	var want []string
	for i := range 40 {
		w.now = w.now.Add(time.Second)
		want = append(want, fmt.Sprint("evt_", i))
		w.stripe(fmt.Sprintf(`{"id":"evt_%d","type":"a","object":"event"}`, i), stripesSecret)
	}
	w.set()
	var nodes sync.WaitGroup
	var mu sync.Mutex
	events := 0
	for range 3 {
		other := New(Options{Bounds: under, Engine: w.engine, Store: w.store, Now: func() time.Time { return w.now }})
		nodes.Go(func() {
			done, err := other.Release(t.Context(), "src_1")
			mu.Lock()
			defer mu.Unlock()
			events += done.Events
			if err != nil || done.Left+done.Conflicts+done.Duplicates != 0 {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
	nodes.Wait()
	if got := w.arrived(); !slices.Equal(got, want) || events < len(want) || len(w.asides()) != 0 {
		t.Errorf("%v arrived, %d counted, %d left", got, events, len(w.asides()))
	}
}

// TestReleaseByItself: the release needs no request to the API. A node that learns of the secret
// late quarantines for a while; those requests are released too.
func TestReleaseByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := memory.New()
		s := openStation(t, kept)
		s.receiver = New(Options{Bounds: ample, Engine: s.engine, Store: kept})
		src := grapnel.Source{ID: "src_1", Tenant: "acme", Name: "stripe", Verify: grapnel.Verify{Scheme: "stripe"},
			Dedupe: grapnel.Dedupe{By: everyKind}}
		s.put(t, src)
		post := func(id string) *grapnel.Aside {
			body := fmt.Sprintf(`{"id":%q,"type":"a","object":"event"}`, id)
			got := s.send(t, "src_1", body, "Stripe-Signature", stripeSignature(body, stripesSecret, time.Now()))
			a, err := kept.Aside(t.Context(), store.Everyone(), got.ID)
			if err != nil {
				t.Fatal(err)
			}
			return &a
		}
		post("evt_1")
		late := post("evt_2")
		if err := kept.ChangeAside(t.Context(), *late, true); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.receiver.Run(ctx) })
		time.Sleep(time.Minute) // in the bubble's time
		src, _ = s.engine.Source(store.Everyone(), "src_1")
		src.Verify.Secrets, src.SecretAt = secrets(stripesSecret), time.Now()
		s.put(t, src)
		for step, want := range []int{1, 2} {
			time.Sleep(2 * ample.ReleaseEvery)
			synctest.Wait()
			list, err := kept.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: 10})
			if err != nil || len(list) != want {
				t.Fatalf("step %d: %d events, %v", step, len(list), err)
			}
			if err := kept.SetAside(t.Context(), *late); err != nil { // by the other node
				t.Fatal(err)
			}
		}
		stop()
		running.Wait()
		s.close()
	})
}
