package egress

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/sign"
)

// batching is an endpoint of format batch.
func batching(url string, slots int) *grapnel.Endpoint {
	e := endpoint(url)
	e.Format, e.MaxConcurrency = grapnel.FormatBatch, slots
	return e
}

// firsts are first attempts of events, each of a key of its own.
func firsts(e *grapnel.Endpoint, n int) []Delivery {
	ds := make([]Delivery, n)
	for i := range ds {
		d := delivery(e)
		d.Event.ID, d.ID, d.Number = fmt.Sprintf("evt_%d", i), fmt.Sprintf("dlv_%d", i), 1
		d.Event.Data = fmt.Appendf(nil, `{"n": %d.0}`, i)
		ds[i] = d
	}
	return ds
}

// gotRequest is a request as a receiver got it.
type gotRequest struct {
	header http.Header
	body   string
	ids    []string        // of the events in it
	left   <-chan struct{} // closed when the sender has given up
}

// sink is a receiver of batches that keeps what it gets.
type sink struct {
	mu  sync.Mutex
	all []gotRequest
}

func (k *sink) of(t testing.TB, answer func(w http.ResponseWriter, r gotRequest)) http.HandlerFunc {
	verifier, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{testSecret}})
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var events []struct{ ID string }
		if _, wrong := verifier.Verify(r.Header, body); err != nil || wrong != nil || json.Unmarshal(body, &events) != nil {
			t.Errorf("got %q, %v, %v", body, err, wrong)
		}
		got := gotRequest{header: r.Header, body: string(body), left: r.Context().Done()}
		for _, e := range events {
			got.ids = append(got.ids, e.ID)
		}
		k.mu.Lock()
		k.all = append(k.all, got)
		k.mu.Unlock()
		answer(w, got)
	}
}

// sizes are the numbers of events of the requests, sorted.
func (k *sink) sizes() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	sizes := make([]int, len(k.all))
	for i := range k.all {
		sizes[i] = len(k.all[i].ids)
	}
	slices.Sort(sizes)
	return sizes
}

// sendAll sends at once, each with its own context if there are several.
func sendAll(s *Sender, ds []Delivery, ctxs ...context.Context) []Result {
	results := make([]Result, len(ds))
	var group sync.WaitGroup
	for i := range ds {
		ctx := context.Background()
		if len(ctxs) > 0 {
			ctx = ctxs[i%len(ctxs)]
		}
		group.Go(func() { results[i] = s.Send(ctx, ds[i]) })
	}
	group.Wait()
	return results
}

// patient lets a test's events find each other on a slow machine.
func patient() Bounds { return Bounds{Linger: time.Minute} }

// TestEventsShareARequest: events that are sent at once go in one signed array, without waiting
// once all slots are in use, and each attempt records what it shared.
func TestEventsShareARequest(t *testing.T) {
	var got sink
	srv := server(t, got.of(t, func(w http.ResponseWriter, _ gotRequest) { ok(w, nil) }))
	s := sender(t, Options{Allow: loopback(), Bounds: patient()})
	ds := firsts(batching(srv.URL, 5), 5)
	ds[0].Endpoint.Signing = grapnel.SigningSvix
	results := sendAll(s, ds)
	if len(got.all) != 1 || len(got.all[0].ids) != 5 {
		t.Fatalf("got %+v", got.all)
	}
	one := got.all[0]
	if one.header.Get("Grapnel-Batch") != "5" || one.header.Get("Grapnel-Delivery") != "" || one.header.Get("Grapnel-Sequence") != "" ||
		!strings.HasPrefix(one.header.Get("Webhook-Id"), "bat_") || one.header.Get("Grapnel-Attempt") != "1" ||
		one.header.Get("Content-Type") != "application/json" {
		t.Errorf("the headers are %v", one.header)
	}
	var elements []json.RawMessage
	if err := json.Unmarshal([]byte(one.body), &elements); err != nil {
		t.Fatal(err)
	}
	for _, element := range elements {
		if n := slices.IndexFunc(ds, func(d Delivery) bool { return string(envelope(d.Event)) == string(element) }); n < 0 {
			t.Errorf("%s is no event's envelope", element)
		}
	}
	of := grapnel.Delivery{EventID: "evt_0", Position: 17}
	for i, r := range results {
		sent := of.Sent(&grapnel.Attempt{Number: 1, StartedAt: r.StartedAt, RequestHeaders: r.Sent}, "dlv_0")
		if r.Outcome.Status != 200 || sent["Grapnel-Batch"] != "5" || sent["Webhook-Id"] != one.header.Get("Webhook-Id") ||
			sent["Svix-Id"] != sent["Webhook-Id"] || sent["Grapnel-Delivery"]+sent["Grapnel-Sequence"]+sent["Webhook-Signature"]+sent["Svix-Signature"] != "" ||
			sent["Webhook-Timestamp"] != one.header.Get("Webhook-Timestamp") {
			t.Errorf("%d: %+v recorded %v", i, r, sent)
		}
	}
	if st := s.Stats(); st.Attempts != 5 || st.Written != 1 || st.Batches != 1 || st.Divided != 0 {
		t.Errorf("counted %+v", st)
	}
}

// TestOneEventStopsNoOther: whatever answer a request with one bad event gets, each of its events
// is sent alone in the same attempt and has the outcome of its own content.
func TestOneEventStopsNoOther(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, gotRequest) {
		return func(w http.ResponseWriter, _ gotRequest) { w.WriteHeader(code) }
	}
	for after, bad := range map[string]func(http.ResponseWriter, gotRequest){
		"400": status(400), "410": status(410), "500": status(500), "503": status(503),
		"reset":   func(http.ResponseWriter, gotRequest) { panic(http.ErrAbortHandler) },
		"timeout": func(_ http.ResponseWriter, r gotRequest) { <-r.left },
	} {
		var got sink
		srv := server(t, got.of(t, func(w http.ResponseWriter, r gotRequest) {
			if strings.Contains(r.body, `"n": 2.0`) {
				bad(w, r)
			}
		}))
		s := sender(t, Options{Allow: loopback(), Bounds: patient()})
		ds := firsts(batching(srv.URL, 6), 6)
		ds[0].Endpoint.Policy.Timeout = policy.Duration(300 * time.Millisecond)
		for i, r := range sendAll(s, ds) {
			if good := r.Outcome.Class == policy.ClassNone; good != (i != 2) {
				t.Errorf("%s: event %d has %+v", after, i, r)
			}
			is := slices.IndexFunc(r.Sent, func(h grapnel.Header) bool { return h.Name == headerBatch })
			if is < 0 || r.Sent[is].Value != "1, after "+after {
				t.Errorf("%s: event %d records %v", after, i, r.Sent)
			}
		}
		if sizes := got.sizes(); !slices.Equal(sizes, []int{1, 1, 1, 1, 1, 1, 6}) {
			t.Errorf("%s: requests of %v", after, sizes)
		}
		for _, r := range got.all {
			if len(r.ids) == 1 && (r.header.Get("Webhook-Id") != r.ids[0] || r.header.Get("Grapnel-Delivery") == "") {
				t.Errorf("%s: %v came alone with %v", after, r.ids, r.header)
			}
		}
		if st := s.Stats(); st.Divided != 1 {
			t.Errorf("%s: counted %+v", after, st)
		}
	}
}

// TestSharedFailures: a pause that the receiver asks for, and a failure before anything was
// written, are the outcome of all events of the request, which is not repeated.
func TestSharedFailures(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"429": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) },
		"503": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "7"); w.WriteHeader(503) },
	} {
		var got sink
		srv := server(t, got.of(t, func(w http.ResponseWriter, _ gotRequest) { answer(w, nil) }))
		for _, r := range sendAll(sender(t, Options{Allow: loopback(), Bounds: patient()}), firsts(batching(srv.URL, 4), 4)) {
			if strconv.Itoa(r.Outcome.Status) != name || r.Outcome.HasRetryAfter != (name == "503") {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if len(got.all) != 1 {
			t.Errorf("%s: requests of %v", name, got.sizes())
		}
		srv.Close()
	}
	srv := server(t, ok)
	srv.Close()
	s := sender(t, Options{Allow: loopback(), Bounds: patient()})
	for _, r := range sendAll(s, firsts(batching(srv.URL, 4), 4)) {
		if r.Outcome.Class != policy.ClassConnect || r.Sent != nil {
			t.Errorf("refused connection: %+v", r)
		}
	}
	if st := s.Stats(); st.Written != 0 || st.Divided != 0 {
		t.Errorf("counted %+v", st)
	}
}

// TestBatchesAreBounded: no request has more events or bytes than allowed, unless one event has;
// and with the bounds of tests each event still arrives once.
func TestBatchesAreBounded(t *testing.T) {
	for _, b := range []Bounds{
		{BatchEvents: 4, Linger: 20 * time.Millisecond}, {BatchBytes: 500, Linger: 20 * time.Millisecond},
		{BatchEvents: 2, BatchBytes: 256, Linger: time.Millisecond}, {BatchEvents: 1},
	} {
		var got sink
		srv := server(t, got.of(t, func(w http.ResponseWriter, _ gotRequest) { ok(w, nil) }))
		ds := firsts(batching(srv.URL, 1000), 40)
		ds[7].Event.Data = []byte(`"` + strings.Repeat("x", 1000) + `"`)
		for i, r := range sendAll(sender(t, Options{Allow: loopback(), Bounds: b}), ds) {
			if r.Outcome.Status != 200 {
				t.Errorf("event %d: %+v", i, r)
			}
		}
		seen := map[string]bool{}
		for _, r := range got.all {
			if n := len(r.ids); b.BatchEvents > 0 && n > b.BatchEvents || b.BatchBytes > 0 && n > 1 && len(r.body) > b.BatchBytes {
				t.Errorf("%+v: %d events in %d bytes", b, n, len(r.body))
			}
			for _, id := range r.ids {
				if seen[id] {
					t.Errorf("%s came twice", id)
				}
				seen[id] = true
			}
		}
		if len(seen) != 40 {
			t.Errorf("%+v: %d of 40 events came", b, len(seen))
		}
	}
}

// TestStrangersNeverShare: a request has events of one endpoint, in one version, of one context and
// with the same headers; and attempts that are to be judged by themselves go alone.
func TestStrangersNeverShare(t *testing.T) {
	var got sink
	srv := server(t, got.of(t, func(w http.ResponseWriter, _ gotRequest) { ok(w, nil) }))
	two := func(change func(i int, d *Delivery)) []Delivery {
		ds := firsts(batching(srv.URL, 1000), 2)
		for i := range ds {
			ds[i].Endpoint = clone(ds[i].Endpoint, func(*grapnel.Endpoint) {})
			change(i, &ds[i])
		}
		return ds
	}
	other, cancel := context.WithCancel(context.Background())
	defer cancel()
	own := func(value string) func(i int, d *Delivery) {
		return func(i int, d *Delivery) {
			d.Endpoint.Headers = map[string]string{"X-Own": value}
			d.Event.Type = []string{"a", "b"}[i]
		}
	}
	for name, is := range map[string]struct {
		ds    []Delivery
		ctx   context.Context
		alone bool
	}{
		"alike":     {ds: two(func(int, *Delivery) {})},
		"replays":   {ds: two(func(_ int, d *Delivery) { d.Trigger = grapnel.TriggerReplay })},
		"retry":     {ds: two(own("{retry}"))},
		"endpoints": {ds: two(func(i int, d *Delivery) { d.Endpoint.ID += strconv.Itoa(i) }), alone: true},
		"revisions": {ds: two(func(i int, d *Delivery) { d.Endpoint.Revision += int64(i) }), alone: true},
		"epochs":    {ds: two(func(i int, d *Delivery) { d.Epoch = int64(i) }), alone: true},
		"contexts":  {ds: two(func(int, *Delivery) {}), ctx: other, alone: true},
		"ids":       {ds: two(own("{event.id}")), alone: true},
		"types":     {ds: two(own("{event.type}")), alone: true},
		"hops":      {ds: two(func(i int, d *Delivery) { d.Event.Metadata = map[string]string{grapnel.HopsKey: strconv.Itoa(i)} }), alone: true},
		"second":    {ds: two(func(_ int, d *Delivery) { d.Number = 2 }), alone: true},
		"by hand":   {ds: two(func(_ int, d *Delivery) { d.Trigger = grapnel.TriggerManual }), alone: true},
		"probes":    {ds: two(func(_ int, d *Delivery) { d.Trigger = grapnel.TriggerProbe }), alone: true},
		"tests":     {ds: two(func(_ int, d *Delivery) { d.Trigger = grapnel.TriggerTest }), alone: true},
		"traces":    {ds: two(func(_ int, d *Delivery) { d.Trace = "00-1-2-01" }), alone: true},
		"a schedule": {ds: two(func(i int, d *Delivery) {
			d.Trigger = []grapnel.Trigger{grapnel.TriggerReplay, grapnel.TriggerSchedule}[i]
		}), alone: true},
	} {
		got.all = nil
		s := sender(t, Options{Allow: loopback(), Bounds: Bounds{Linger: 300 * time.Millisecond}})
		ctxs := []context.Context{context.Background()}
		if is.ctx != nil {
			ctxs = append(ctxs, is.ctx)
		}
		for _, r := range sendAll(s, is.ds, ctxs...) {
			if r.Outcome.Status != 200 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if alone := len(got.all) == 2; alone != is.alone {
			t.Errorf("%s: requests of %v", name, got.sizes())
		}
	}
}

// TestEventsOfAnEarlierFormatGoAlone: an event keeps the body of its acceptance.
func TestEventsOfAnEarlierFormatGoAlone(t *testing.T) {
	var bodies sync.Map
	srv := server(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies.Store(string(body), true)
	})
	e := batching(srv.URL, 2)
	e.Former = []grapnel.Shape{{Until: accepted, Format: grapnel.FormatRaw}}
	ds := firsts(e, 2)
	for i := range ds {
		ds[i].Event.AcceptedAt, ds[i].CreatedAt = accepted.Add(-time.Hour), accepted.Add(time.Duration(-1+2*i)*time.Minute)
	}
	sendAll(sender(t, Options{Allow: loopback(), Bounds: patient()}), ds)
	for i := range ds {
		if _, came := bodies.Load(string(ds[i].Event.Data)); !came {
			t.Errorf("event %d did not come as it was accepted", i)
		}
	}
}

// TestTransformsShapeEachEvent: the transform makes the elements, also of a request with one.
func TestTransformsShapeEachEvent(t *testing.T) {
	var got sink
	srv := server(t, got.of(t, func(w http.ResponseWriter, _ gotRequest) { ok(w, nil) }))
	e := batching(srv.URL, 3)
	e.Transform = `{id, was: .data.n}`
	sendAll(sender(t, Options{Allow: loopback(), Bounds: patient()}), firsts(e, 3))
	if len(got.all) != 1 || !strings.Contains(got.all[0].body, `{"id":"evt_1","was":1.0}`) || len(got.all[0].ids) != 3 {
		t.Errorf("got %+v", got.all)
	}
	body, header, err := Formatted(e.Shape(), firsts(e, 1)[0].Event, Bounds{}.Transform)
	if err != nil || string(body) != `[{"id":"evt_0","was":0.0}]` || header.Get("Content-Type") != grapnel.JSONType {
		t.Errorf("alone it is %s, %v, %v", body, header, err)
	}
}

// TestWaitingEventsEnd: the end of a context, or of the sender, ends the attempts that wait for
// others, as interrupted ones.
func TestWaitingEventsEnd(t *testing.T) {
	srv := server(t, ok)
	s := sender(t, Options{Allow: loopback(), Bounds: patient()})
	ctx, cancel := context.WithCancel(context.Background())
	ds := firsts(batching(srv.URL, 1000), 4)
	time.AfterFunc(50*time.Millisecond, cancel)
	time.AfterFunc(100*time.Millisecond, s.Close)
	for i, r := range sendAll(s, ds, ctx, context.Background()) {
		if r.Outcome.Class != policy.ClassInternal || r.Sent != nil {
			t.Errorf("event %d: %+v", i, r)
		}
	}
}
