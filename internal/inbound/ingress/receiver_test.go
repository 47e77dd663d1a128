package ingress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// open is the verification of a source that accepts every request.
var open = grapnel.Verify{Scheme: "none"}

func TestUnknownAndDeletedSources(t *testing.T) {
	w := newWorld(t)
	if got := w.post(`{}`); got.status != http.StatusNotFound {
		t.Errorf("answered %d", got.status)
	}
	w.source(open)
	if got := w.post(`{}`); got.status != http.StatusAccepted {
		t.Errorf("answered %d", got.status)
	}
	delete(w.sources, "src_1")
	if got := w.post(`{}`); got.status != http.StatusNotFound {
		t.Errorf("answered %d", got.status)
	}
	if _, kept := w.receiver.sources.Load("src_1"); kept {
		t.Error("a source that was deleted is kept ready")
	}
}

func TestAPausedSourceLetsItsProviderKeepTheRequest(t *testing.T) {
	w := newWorld(t)
	w.source(open, func(s *grapnel.Source) { s.Paused = true })
	if got := w.post(`{}`); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || len(w.events) != 0 {
		t.Errorf("answered %d", got.status)
	}
	w.source(open)
	if got := w.post(`{}`); got.status != http.StatusAccepted {
		t.Errorf("answered %d", got.status)
	}
}

func TestLimitsOfRequests(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.MaxBody = 100 })
	w.source(open, func(s *grapnel.Source) { s.Dedupe.By = nil })
	exactly := strings.Repeat("x", 100)
	for name, c := range map[string]struct {
		r    *http.Request
		want int
	}{
		"as much as fits":      {request("POST", "/in/src_1", exactly), 202},
		"one byte more":        {request("POST", "/in/src_1", exactly+"x"), 413},
		"chunked":              {chunked(exactly), 202},
		"chunked and too much": {chunked(exactly + "x"), 413},
		"identity":             {request("POST", "/in/src_1", "x", "Content-Encoding", "identity"), 202},
		"gzip":                 {request("POST", "/in/src_1", "x", "Content-Encoding", "gzip"), 415},
		"two encodings":        {request("POST", "/in/src_1", "x", "Content-Encoding", "identity", "Content-Encoding", "br"), 415},
		"a long content type":  {request("POST", "/in/src_1", "x", "Content-Type", "text/"+strings.Repeat("x", 300)), 415},
		"a long header":        {request("POST", "/in/src_1", "x", "X-Long", strings.Repeat("x", int(ample.HeaderBytes))), 431},
		"many headers":         {many(), 431},
		"no body":              {request("POST", "/in/src_1", ""), 202},
	} {
		if got := w.send(c.r); got.status != c.want {
			t.Errorf("%s: answered %d %s", name, got.status, got.body)
		}
	}
	w.source(open, func(s *grapnel.Source) { s.MaxBody = 10 })
	if got := w.post("12345678901"); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a source with a limit of its own: answered %d", got.status)
	}
	w.source(open, func(s *grapnel.Source) { s.MaxBody = 1000 })
	if got := w.post(exactly + "x"); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a source that wants more than the server: answered %d", got.status)
	}
}

func chunked(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/in/src_1", io.MultiReader(strings.NewReader(body)))
	r.ContentLength = -1
	return r
}

func many() *http.Request {
	r := request("POST", "/in/src_1", "x")
	for i := range ample.HeaderLines + 1 {
		r.Header.Set(fmt.Sprint("X-", i), "1")
	}
	return r
}

// serve puts the receiver behind a real server.
func (w *world) serve() *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.receiver.Take(rw, r, "src_1") }))
	w.Cleanup(server.Close)
	return server
}

func TestASlowBodyIsGivenUp(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.BodyTimeout = 50 * time.Millisecond })
	w.source(open)
	server := w.serve()
	dialer := net.Dialer{}
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST /in/src_1 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusRequestTimeout || !answer.Close {
		t.Errorf("answered %d, closes: %v", answer.StatusCode, answer.Close)
	}
	// The deadline does not affect the connection's next request.
	for range 2 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode/100 != 2 {
			t.Errorf("answered %d", answer.StatusCode)
		}
	}
}

// slow is an engine that takes longer than a body may.
type slow struct {
	*world
	takes time.Duration
}

func (s slow) Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error) {
	select {
	case <-ctx.Done():
		return store.Accepted{}, ctx.Err()
	case <-time.After(s.takes):
		return s.world.Publish(ctx, events, once)
	}
}

func TestTheTimeForTheBodyIsForTheBodyAlone(t *testing.T) {
	w := newWorld(t)
	w.receiver = New(Options{Engine: slow{w, 300 * time.Millisecond}, Store: w, Bounds: Bounds{BodyTimeout: 50 * time.Millisecond}})
	w.source(open)
	server := w.serve()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		t.Errorf("answered %d", answer.StatusCode)
	}
}

// The commit may take longer than the body, however the body's end is announced.
func TestACommitMayTakeLongerThanABody(t *testing.T) {
	for name, message := range map[string]string{
		"with a length": "Content-Length: 2\r\n\r\n{}",
		"in chunks":     "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"empty":         "Content-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.receiver = New(Options{Engine: slow{w, time.Hour}, Store: w, Bounds: Bounds{BodyTimeout: time.Minute}})
				w.source(open)
				ours, end := w.connected()
				defer end()
				if _, err := io.WriteString(ours, "POST /in/src_1 HTTP/1.1\r\nHost: x\r\n"+message); err != nil {
					t.Fatal(err)
				}
				answer, err := http.ReadResponse(bufio.NewReader(ours), nil)
				if err != nil || answer.StatusCode != http.StatusAccepted {
					t.Errorf("answered %+v, %v", answer, err)
				}
			})
		})
	}
}

func TestABrokenBodyIsNoEvent(t *testing.T) {
	w := newWorld(t)
	w.source(open)
	r := request("POST", "/in/src_1", "123")
	r.ContentLength = 10
	if got := w.send(r); got.status != http.StatusBadRequest || len(w.events) != 0 {
		t.Errorf("answered %d", got.status)
	}
}

func TestRateLimit(t *testing.T) {
	w := newWorld(t)
	limit := func(s *grapnel.Source) { s.RateLimit = &grapnel.RateLimit{PerSecond: 2, Burst: 3} }
	key := grapnel.Verify{Scheme: "api_key", Secrets: secrets("right")}
	w.source(key, limit)
	for range 10 { // requests of others use up none of the provider's rate
		if got := w.post(`{}`, "X-Api-Key", "wrong"); got.status != http.StatusUnauthorized {
			t.Fatalf("answered %d", got.status)
		}
	}
	took := func() (n int) {
		for range 10 {
			got := w.post(`{}`, "X-Api-Key", "right")
			switch got.status {
			case http.StatusAccepted, http.StatusOK:
				n++
			case http.StatusTooManyRequests:
				if got.header.Get("Retry-After") != "1" {
					t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
				}
			default:
				t.Errorf("answered %d", got.status)
			}
		}
		return n
	}
	if n := took(); n != 3 {
		t.Errorf("took %d at once, want 3", n)
	}
	w.now = w.now.Add(time.Second)
	if n := took(); n != 2 {
		t.Errorf("took %d after a second, want 2", n)
	}
	w.source(key, limit, func(s *grapnel.Source) { s.Description = "another revision" })
	if n := took(); n != 0 {
		t.Errorf("took %d after a change of something else", n)
	}
	w.now = w.now.Add(time.Hour)
	if n := took(); n != 3 {
		t.Errorf("took %d after an hour, want 3", n)
	}
}

// held is an engine that commits only when allowed.
type held struct {
	*world
	release chan struct{}
}

func (h held) Publish(ctx context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error) {
	<-h.release
	return h.world.Publish(ctx, events, once)
}

// holding is a world whose requests are committed when release is closed.
func holding(t *testing.T, change func(*Options)) (w *world, release chan struct{}) {
	release = make(chan struct{})
	return newWorld(t, func(o *Options) {
		o.Engine = held{o.Engine.(*world), release}
		// all come from one address, and none is to give way while it is read
		o.Bounds.RemoteShare = 1
		change(o)
	}), release
}

func TestOnlySoManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release := holding(t, func(o *Options) { o.Bounds.MaxAtOnce = 4 })
		w.source(open)
		w.source(open, func(s *grapnel.Source) { s.ID = "src_2" })
		w.source(open, func(s *grapnel.Source) { s.ID, s.Tenant = "src_3", "other" })
		var wg sync.WaitGroup
		send := func(source string) int {
			rec := httptest.NewRecorder()
			w.receiver.Take(rec, request("POST", "/in/"+source, source), source)
			return rec.Code
		}
		for range 2 {
			wg.Go(func() {
				if got := w.post("x"); got.status/100 != 2 {
					t.Errorf("answered %d", got.status)
				}
			})
		}
		synctest.Wait()
		if got := w.post("x"); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "1" {
			t.Errorf("more than half for one source: answered %d", got.status)
		}
		if got := send("src_2"); got != http.StatusServiceUnavailable {
			t.Errorf("more than half for one tenant: answered %d", got)
		}
		wg.Go(func() {
			if got := send("src_3"); got != http.StatusAccepted {
				t.Errorf("another tenant: answered %d", got)
			}
		})
		synctest.Wait()
		close(release)
		wg.Wait()
		if got := w.post(
			"y",
		); got.status != http.StatusAccepted || w.receiver.busy.all != (share{}) ||
			len(w.receiver.busy.tenants)+len(w.receiver.busy.remotes) != 0 {
			t.Errorf("afterwards: answered %d, held %+v", got.status, w.receiver.busy)
		}
	})
}

func TestOnlySoMuchAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, release := holding(t, func(o *Options) { o.Bounds.MaxBuffered = 1000 })
		w.source(open)
		// as if: else the reserve is not for it
		w.receiver.source("src_1").meter.verified.Store(w.now.UnixNano())
		var wg sync.WaitGroup
		wg.Go(func() { w.post(strings.Repeat("w", 400)) })
		synctest.Wait()
		if got := w.post(strings.Repeat("x", 101)); got.status != http.StatusServiceUnavailable {
			t.Errorf("more than half for one tenant: answered %d", got.status)
		}
		wg.Go(func() {
			if got := w.post(strings.Repeat("x", 100)); got.status != http.StatusAccepted {
				t.Errorf("exactly half for one tenant: answered %d", got.status)
			}
		})
		synctest.Wait()
		close(release)
		wg.Wait()
		if got := w.post(strings.Repeat("y", 600)); got.status != http.StatusAccepted || w.receiver.busy.all != (share{}) {
			t.Errorf("one that is more than half by itself: answered %d, held %+v", got.status, w.receiver.busy.all)
		}
	})
}

func TestWhatCannotBeKeptIsNotTaken(t *testing.T) {
	w := newWorld(t)
	w.source(open)
	for name, c := range map[string]struct {
		err    error
		status int
		later  string
	}{
		"a store that fails": {errors.New("the disk is on fire at /var/lib"), 500, ""},
		"a lost answer":      {fmt.Errorf("postgres at /var/lib: %w", store.ErrUnknown), 503, "1"},
		"overload": {&grapnel.Error{Code: grapnel.CodeOverloaded, Detail: "too much to do", RetryAfter: 2500 * time.Millisecond}, 503,
			"3"},
		"too much waiting": {&grapnel.Error{Code: grapnel.CodeQuota, RetryAfter: time.Second}, 429, "1"},
		"too many types":   {&grapnel.Error{Code: grapnel.CodeTooManyTypes}, 422, ""},
		"a full disk":      {&grapnel.Error{Code: grapnel.CodeStorageFull}, 507, "1"},
		"the end":          {&grapnel.Error{Code: grapnel.CodeUnavailable}, 503, "1"},
		"a defect":         {&grapnel.Error{Code: grapnel.CodeInvalid, Detail: "something inside"}, 500, ""},
	} {
		w.err = c.err
		got := w.post(`{}`)
		if got.status != c.status || got.header.Get("Retry-After") != c.later || strings.Contains(got.body, "/var/lib") ||
			strings.Contains(got.body, "inside") {
			t.Errorf("%s: answered %d, Retry-After %q, %s", name, got.status, got.header.Get("Retry-After"), got.body)
		}
	}
	w.err = nil
	key := grapnel.Verify{Scheme: "api_key", Secrets: secrets("right")}
	w.source(key, func(s *grapnel.Source) { s.OnUnverified = grapnel.Quarantine })
	w.err = errors.New("no")
	if got := w.post(`{}`); got.status != http.StatusInternalServerError {
		t.Errorf("quarantine that fails: answered %d", got.status)
	}
}

func TestAConflictIsKeptAndIsNoEvent(t *testing.T) {
	w := newWorld(t)
	w.source(grapnel.Verify{Scheme: "none", IDHeader: "X-Id"}, func(s *grapnel.Source) { s.Dedupe.Ignore = []string{"$.at"} })
	first := w.post(`{"a":1,"at":1}`, "X-Id", "1")
	if got := w.post(
		`{"at":2, "a":1}`,
		"X-Id",
		"1",
	); got.status != 200 || !got.Duplicate || got.Conflict || got.ID != first.ID ||
		len(w.asides) != 0 {
		t.Errorf("the same in other words: answered %d %s", got.status, got.body)
	}
	got := w.post(`{"a":2,"at":1}`, "X-Id", "1")
	if got.status != 200 || !got.Duplicate || !got.Conflict || got.ID != first.ID || len(w.events) != 1 || len(w.asides) != 1 {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	aside := w.asides[0]
	if aside.Why != grapnel.AsideConflict || aside.Event != first.ID || string(aside.Body) != `{"a":2,"at":1}` || aside.Known != "1" ||
		aside.Tenant != "acme" {
		t.Errorf("kept as %+v", aside)
	}
	w.err = nil
	if got := w.post(`{"a":2}`, "X-Id", "2"); got.status != 202 || got.Duplicate {
		t.Errorf("another id: answered %d %s", got.status, got.body)
	}
	w.now = w.now.Add(time.Second) // the pace allows another conflict to be kept, however few at once
	if got := w.post(`{"a":2}`, "X-Id", "1"); !got.Conflict {
		t.Errorf("answered %s", got.body)
	}
}

func TestTheChainOfWhatARequestIsKnownBy(t *testing.T) {
	v := grapnel.Verify{Scheme: "shopify", Secrets: secrets("hush")}
	sign := func(body string) string { // signs as Shopify does
		for _, vec := range vectors(t) {
			if vec.scheme == "shopify" && vec.Body == body {
				return vec.Headers["X-Shopify-Hmac-Sha256"]
			}
		}
		t.Fatal("there is no such vector")
		return ""
	}
	body := "my secret message"
	ask := func(by []grapnel.DedupeBy, headers ...string) *grapnel.Intake {
		w := newWorld(t)
		w.source(v, func(s *grapnel.Source) { s.Dedupe.By = by })
		w.post(body, append(headers, "X-Shopify-Hmac-Sha256", sign(body))...)
		return w.events[0].Intake
	}
	event, delivery := []string{"X-Shopify-Event-Id", "e"}, []string{"X-Shopify-Webhook-Id", "d"}
	both := append(append([]string{}, event...), delivery...)
	for _, c := range []struct {
		by      []grapnel.DedupeBy
		headers []string
		want    grapnel.DedupeBy
	}{
		{everyKind, both, grapnel.ByEventID},
		{everyKind, delivery, grapnel.ByDeliveryID},
		{everyKind, nil, grapnel.ByContent},
		{[]grapnel.DedupeBy{grapnel.ByDeliveryID, grapnel.ByEventID}, both, grapnel.ByDeliveryID},
		{[]grapnel.DedupeBy{grapnel.ByContent, grapnel.ByEventID}, both, grapnel.ByContent},
		{[]grapnel.DedupeBy{grapnel.ByEventID}, delivery, ""},
		{nil, both, ""},
	} {
		if got := ask(c.by, c.headers...); got.By != c.want || (got.Known == "") != (c.want == "") {
			t.Errorf("%v with %v: known by %q %q, want %q", c.by, c.headers, got.By, got.Known, c.want)
		}
	}
	// Shopify reports one event under several topics, each of which is an event here.
	w := newWorld(t)
	w.source(v)
	for _, topic := range []string{"orders/create", "orders/paid", "orders/create"} {
		w.post(body, "X-Shopify-Hmac-Sha256", sign(body), "X-Shopify-Event-Id", "e", "X-Shopify-Topic", topic)
	}
	if len(w.events) != 2 {
		t.Errorf("%d events, want one for each topic", len(w.events))
	}
}

// Two types with the same content are two events if only the content identifies them.
func TestContentIsOfAType(t *testing.T) {
	w := newWorld(t)
	w.source(grapnel.Verify{Scheme: "none", TypeHeader: "X-Type"})
	for _, kind := range []string{"a", "b", "a"} {
		w.post(`{}`, "X-Type", kind)
	}
	if len(w.events) != 2 {
		t.Errorf("%d events, want one for each type", len(w.events))
	}
}

// The cost of one header is bounded, even if the right signature is among many.
func TestTooManySignatures(t *testing.T) {
	for _, v := range vectors(t) {
		if v.scheme != "stripe" {
			continue
		}
		for n, want := range map[int]int{8: http.StatusAccepted, 10: http.StatusUnauthorized} {
			w := v.world(t, v.Verify.Secrets...)
			r := v.request()
			r.Header.Set("Stripe-Signature", r.Header.Get("Stripe-Signature")+strings.Repeat(",v1="+strings.Repeat("0", 64), n))
			if got := w.send(r); got.status != want {
				t.Errorf("%s and %d more: answered %d %s", v.Name, n, got.status, got.body)
			}
		}
	}
}

func TestASigningKeyIsNoToken(t *testing.T) {
	const key = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	w := newWorld(t)
	w.source(grapnel.Verify{Scheme: "gitlab", Secrets: secrets(key, "a token")})
	if got := w.post(`{}`, "X-Gitlab-Token", key); got.status != http.StatusUnauthorized {
		t.Errorf("the key as a token: answered %d", got.status)
	}
	if got := w.post(`{}`, "X-Gitlab-Token", "a token"); got.status != http.StatusAccepted {
		t.Errorf("the token: answered %d", got.status)
	}
}

func TestWhatIsKnownIsForgottenAfterTheWindow(t *testing.T) {
	w := newWorld(t)
	w.source(open, func(s *grapnel.Source) { s.Dedupe.Window = time.Hour })
	first := w.post(`{"a":1}`)
	w.now = w.now.Add(time.Hour - 1)
	if got := w.post(`{"a":1}`); !got.Duplicate || got.ID != first.ID {
		t.Errorf("within the window: %s", got.body)
	}
	w.now = w.now.Add(1) // counted from the first request, not from the one in between
	if got := w.post(`{"a":1}`); got.Duplicate {
		t.Errorf("after the window: %s", got.body)
	}
	w.source(open)
	w.post(`{"b":1}`)
	if last := len(w.known); last != 2 {
		t.Fatal(last)
	}
	for _, k := range w.known {
		if until := k.Until.Sub(w.now); until != time.Hour && until != grapnel.DefaultDedupeWindow {
			t.Errorf("known for %s", until)
		}
	}
}

func TestOneOfManyCopiesWins(t *testing.T) {
	w := newWorld(t)
	w.source(open)
	server := w.serve()
	var wg sync.WaitGroup
	answers := make([]string, 20)
	for i := range answers {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(`{"n":1}`))
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := server.Client().Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			text, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if err != nil {
				t.Error(err)
			}
			answers[i] = fmt.Sprint(answer.StatusCode, strings.Contains(string(text), w.first()))
		})
	}
	wg.Wait()
	count := map[string]int{}
	for _, a := range answers {
		count[a]++
	}
	if count["202true"]+count["202 true"] != 1 || count["200true"]+count["200 true"] != 19 || len(w.events) != 1 {
		t.Errorf("%d events, answers %v", len(w.events), count)
	}
}

func (w *world) first() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events[0].ID
}

func TestTypesAndKeys(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		kind, key, body   string
		wantType, wantKey string
		fails             bool
	}{
		{"", "", `{"type":"a.b","x":1}`, "a.b", "", false},
		{`"order." + event.data.status`, `event.data.id`, `{"id":17,"status":"paid"}`, "order.paid", "17", false},
		{`event.headers["x-kind"]`, `event.headers["x-kind"] + event.type`, `{"type":"t"}`, "Some_Kind_", "Some Kind!t", false},
		{`event.type == "t" ? "u" : event.type`, `has(event.key) ? event.key : "none"`, `{"type":"t"}`, "u", "none", false},
		{`event.data.missing`, `event.data.missing.too`, `{"type":"t"}`, "t", "", true},
		{`event.data.list`, `event.data.list`, `{"type":"t","list":[1]}`, "t", "", true},
		{`event.data.type`, ``, `no JSON`, "webhook", "", true},
		{`""`, `""`, `{"type":"t"}`, "webhook", "", false},
	} {
		w.source(open, func(s *grapnel.Source) { s.Type, s.Key, s.Dedupe.By = c.kind, c.key, nil })
		got := w.post(c.body, "X-Kind", "Some Kind!")
		if got.status != http.StatusAccepted {
			t.Fatalf("%s: answered %d %s", c.kind, got.status, got.body)
		}
		ev := w.events[len(w.events)-1]
		if ev.Type != c.wantType || ev.Key != c.wantKey {
			t.Errorf("%s, %s of %s: type %q, key %q", c.kind, c.key, c.body, ev.Type, ev.Key)
		}
		failed := false
		for _, check := range ev.Intake.Checks {
			failed = failed || !check.Passed
		}
		if failed != c.fails {
			t.Errorf("%s of %s: checks %v", c.kind, c.body, ev.Intake.Checks)
		}
	}
}

func TestNamesBecomeTypes(t *testing.T) {
	for name, want := range map[string]string{
		"": "webhook", "invoice.paid": "invoice.paid", "orders/create": "orders_create",
		"zen:event-type:ticket.created": "zen_event-type_ticket.created",
		"Merge Request Hook":            "Merge_Request_Hook", ".": "_._", "a..b": "a._.b", "ü": "__", "*": "_",
		strings.Repeat("x", 65):                                 strings.Repeat("x", 64),
		strings.Repeat("x", 64) + "." + strings.Repeat("y", 64): strings.Repeat("x", 64) + "." + strings.Repeat("y", 63),
		strings.Repeat("a.", 100):                               strings.Repeat("a.", 63) + "a",
	} {
		got := validType(name)
		if got != want || !grapnel.ValidType(got) {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
	if long := strings.Repeat(
		"k",
		grapnel.MaxKeyLength+1,
	); len(validKey(long)) > grapnel.MaxKeyLength ||
		validKey(long) == validKey(long+"k") {
		t.Error("long keys become the same, or stay long")
	}
	if validKey("inv_1") != "inv_1" || validKey("a\nb") == "a\nb" {
		t.Error("keys")
	}
}

func TestContentTypes(t *testing.T) {
	w := newWorld(t)
	w.source(open, func(s *grapnel.Source) { s.Dedupe.By = nil })
	for _, c := range []struct{ sent, body, want string }{
		{"application/json", `{}`, "application/json"},
		{"application/json", `{`, "application/json"},
		{"application/json; charset=utf-8", `{"a":1}`, "application/json; charset=utf-8"},
		{"application/json; charset=utf-8", `<a/>`, "application/json; charset=utf-8"},
		{"application/x-www-form-urlencoded", `a=1`, "application/x-www-form-urlencoded"},
		{"text/xml; charset=latin1", "<a>\xe9</a>", "text/xml; charset=latin1"},
		{"application/vnd.acme+json", `{`, "application/vnd.acme+json"},
		{"nonsense", `{}`, octets},
		{"", `{}`, "application/json"},
		{"", `a`, octets},
		{"text/plain", `{}`, "text/plain"},
		{"application/json", strings.Repeat("[", 65) + strings.Repeat("]", 65), "application/json"},
	} {
		headers := []string{"Content-Type", c.sent}
		if c.sent == "" {
			headers = nil
		}
		w.post(c.body, headers...)
		if ev := w.events[len(w.events)-1]; ev.ContentType != c.want || string(ev.Data) != c.body {
			t.Errorf("%q with %.20q: %q", c.sent, c.body, ev.ContentType)
		}
	}
}

func TestGreetings(t *testing.T) {
	challenge := `{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`
	w := newWorld(t)
	w.now = time.Unix(1531420620, 0)
	w.source(grapnel.Verify{Scheme: "slack", Secrets: secrets("s")})
	if got := w.post(
		challenge,
		"X-Slack-Request-Timestamp",
		"1531420618",
		"X-Slack-Signature",
		"v0="+strings.Repeat("0", 64),
	); got.status != 401 {
		t.Errorf("a challenge from anybody: answered %d %s", got.status, got.body)
	}
	got := w.post(challenge, "X-Slack-Request-Timestamp", "1531420618", "X-Slack-Signature", slackSignature("s", "1531420618", challenge))
	if got.status != 200 || got.body != "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P" ||
		!strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") {
		t.Errorf("Slack's challenge: answered %d %q", got.status, got.body)
	}
	// Zoom expects its token back, signed with the shared secret. Another language's HMAC computed
	// the value.
	const validation = `{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1654503849680,"event":"endpoint.url_validation"}`
	w.now = time.Unix(1654503850, 0)
	w.source(grapnel.Verify{Scheme: "zoom", Secrets: secrets("another secret token", "a-secret-token-of-a-test")})
	signed := []string{
		"X-Zm-Request-Timestamp",
		"1654503849",
		"X-Zm-Signature",
		"v0=9bd2fc32ea48982d3fe99eeabc56a077262011459b2daeffc342b48a2f7f6701",
	}
	const wanted = `{"encryptedToken":"6754212a4ddc1c35fdb288a4fe8090ef7de0c580f03478ef33928eba0861bc9c","plainToken":"qgg8vlvZRS6UYooatFL8Aw"}`
	if got := w.post(validation, signed...); got.status != 200 || got.body != wanted || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("Zoom's validation: answered %d %q", got.status, got.body)
	}
	if got := w.post(strings.Replace(validation, "qgg8", "QGG8", 1), signed...); got.status != 401 {
		t.Errorf("a validation from anybody: answered %d %s", got.status, got.body)
	}
	// Another language's Ed25519 signed this, like the vectors of discord.json.
	const key, stamp = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8", "1733000000"
	w.now = time.Unix(1733000002, 0)
	w.source(grapnel.Verify{Scheme: "discord", Secrets: secrets(key)})
	for _, c := range []struct {
		body, signature string
		status          int
		answer          string
	}{
		{`{"version":1,"application_id":"1234560123453231555","type":0}`, "fc7df98d46f70ce01ed5c2b1d7d8485e87060f1cb6770c696a40d0eb9ea6fe69" +
			"bb21c6247657c7cad43dfa54f63c41c4c697af77d7805ed96f072b16943b620f", 204, ""},
		{`{"id":"1","type":1}`, "19aee4181a619e781d8008fbea3028637918d6492d94fe47f8d02c832b3d2ae5" +
			"a9bd7633a53c2610aac547ec27b6794369642fc0fa573f5a2fc808839add830c", 200, `{"type":1}`},
	} {
		got := w.post(c.body, "X-Signature-Timestamp", stamp, "X-Signature-Ed25519", c.signature)
		if got.status != c.status || got.body != c.answer {
			t.Errorf("Discord's %s: answered %d %q", c.body, got.status, got.body)
		}
		if got := w.post(c.body+" ", "X-Signature-Timestamp", stamp, "X-Signature-Ed25519", c.signature); got.status != 401 {
			t.Errorf("a ping from anybody: answered %d", got.status)
		}
	}
	if len(w.events)+len(w.asides) != 0 {
		t.Error("a greeting became something")
	}
}

func TestQuarantineCannotFillTheDisk(t *testing.T) {
	w := newWorld(t)
	w.source(grapnel.Verify{Scheme: "api_key", Secrets: secrets("right")}, func(s *grapnel.Source) { s.OnUnverified = grapnel.Quarantine })
	asidesAtOnce := w.receiver.o.Bounds.AsideBurst
	for i := range asidesAtOnce + 50 {
		if i == asidesAtOnce {
			w.source(w.sources["src_1"].Verify, func(s *grapnel.Source) { s.OnUnverified, s.Description = grapnel.Quarantine, "another revision" })
		}
		got := w.post(`{}`, "X-Api-Key", "wrong")
		want := http.StatusAccepted
		if i >= asidesAtOnce {
			want = http.StatusTooManyRequests
		}
		if got.status != want {
			t.Fatalf("request %d: answered %d", i, got.status)
		}
	}
	if len(w.asides) != asidesAtOnce {
		t.Errorf("%d kept", len(w.asides))
	}
	if got := w.post(`{}`, "X-Api-Key", "right"); got.status != http.StatusAccepted {
		t.Errorf("what is verified: answered %d", got.status)
	}
}

// TestQuarantineIsLimitedInBytes: large bodies are cut off, and headers count too. An hour later
// the same amount is allowed again.
func TestQuarantineIsLimitedInBytes(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.AsideBytes, o.Bounds.AsideBody = 10<<10, 1<<10 })
	w.source(grapnel.Verify{Scheme: "api_key", Secrets: secrets("right")}, func(s *grapnel.Source) { s.OnUnverified = grapnel.Quarantine })
	kept := func() (bytes int) {
		w.asides = nil
		for i := range 30 {
			got := w.post(strings.Repeat("x", 100<<10), "X-Filler", strings.Repeat("y", 1<<10))
			if want := http.StatusTooManyRequests; got.status != want && (got.status != http.StatusAccepted || len(w.asides) != i+1) {
				t.Fatalf("request %d: answered %d %s", i, got.status, got.body)
			}
		}
		for _, a := range w.asides {
			bytes += len(a.Body)
			for _, h := range a.Headers {
				bytes += len(h.Name) + len(h.Value)
			}
			if len(a.Body) != 1<<10 || a.Size != 1<<10 || !says(a.Checks, "of the body's 102400 bytes the first 1024 are stored") {
				t.Errorf("kept %d bytes with the checks %v", len(a.Body), a.Checks)
			}
		}
		return bytes
	}
	for range 2 {
		if bytes := kept(); bytes < 4<<10 || bytes > 10<<10 {
			t.Errorf("%d bytes in %d requests", bytes, len(w.asides))
		}
		w.now = w.now.Add(time.Hour)
	}
}

// TestConflictsAreLimited: if one signature is valid for many bodies, an attacker who has seen one
// cannot fill the disk with them.
func TestConflictsAreLimited(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Bounds.AsideBurst, o.Bounds.AsideRate = 3, 1 })
	w.source(grapnel.Verify{Scheme: "none", IDHeader: "X-Id"})
	w.post(`{}`, "X-Id", "1")
	for i := range 5 {
		want := http.StatusOK
		if i >= 3 {
			want = http.StatusTooManyRequests
		}
		if got := w.post(fmt.Sprint(`{"a":`, i, `}`), "X-Id", "1"); got.status != want {
			t.Errorf("conflict %d: answered %d %s", i, got.status, got.body)
		}
	}
	if got := w.post(`{}`, "X-Id", "1"); got.status != http.StatusOK || got.Conflict || len(w.asides) != 3 {
		t.Errorf("a repetition: answered %d %s, %d kept", got.status, got.body, len(w.asides))
	}
}

func TestSettingsThatCannotWorkAreTheServersFault(t *testing.T) {
	w := newWorld(t)
	for _, s := range []grapnel.Source{
		{Verify: grapnel.Verify{Scheme: "of the future"}},
		{Verify: grapnel.Verify{Scheme: "slack"}},
		{Verify: open, Type: "event.nope"},
		{Verify: open, Dedupe: grapnel.Dedupe{Ignore: []string{"x"}}},
	} {
		s.ID, s.Revision = "src_1", w.sources["src_1"].Revision+1
		w.sources["src_1"] = s
		if got := w.post(`{}`); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || len(w.events) != 0 {
			t.Errorf("%+v: answered %d", s, got.status)
		}
		if last := w.refused[len(w.refused)-1]; last.Err == nil {
			t.Errorf("%+v: nobody is told why", s)
		}
	}
}

func TestCounters(t *testing.T) {
	w := newWorld(t)
	w.post(`{}`)
	w.source(open)
	w.post(`{}`)
	w.post(`{}`)
	w.post(`{}`, "Content-Encoding", "gzip")
	registry := prometheus.NewRegistry()
	registry.MustRegister(w.receiver.Collectors()...)
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(rec, request(http.MethodGet, "/metrics", ""))
	for _, line := range []string{
		`grapnel_ingress_requests_total{outcome="unknown",scheme=""} 1`, `grapnel_ingress_requests_total{outcome="accepted",scheme="none"} 1`,
		`grapnel_ingress_requests_total{outcome="duplicate",scheme="none"} 1`, `grapnel_ingress_requests_total{outcome="unfit",scheme="none"} 1`,
		`grapnel_ingress_busy 0`,
	} {
		if !strings.Contains(rec.Body.String(), line+"\n") {
			t.Errorf("no line %s in\n%s", line, rec.Body.String())
		}
	}
}

func TestABucketIsExact(t *testing.T) {
	b := newBucket(&grapnel.RateLimit{PerSecond: 10, Burst: 5})
	now, taken := time.Unix(1_700_000_000, 0), 0
	for range 1000 { // ten per millisecond, for steps of 0.1 s
		if _, ok := b.take(now); ok {
			taken++
		}
		now = now.Add(10 * time.Millisecond)
	}
	if taken != 5+99 {
		t.Errorf("%d tokens in ten seconds", taken)
	}
	if _, ok := newBucket(nil).take(now); !ok {
		t.Error("no limit is a limit")
	}
	for _, least := range []grapnel.RateLimit{{PerSecond: 1e-12}, {PerSecond: 1e-300, Burst: 50},
		{PerSecond: grapnel.MinPerSecond, Burst: 100}} {
		b, taken := newBucket(&least), 0
		for range 200 {
			if wait, ok := b.take(now); ok {
				taken++
			} else if wait <= 0 {
				t.Errorf("%+v: wait %s", least, wait)
			}
			now = now.Add(time.Second)
		}
		if taken != max(least.Burst, 1) {
			t.Errorf("%+v: %d tokens in two hundred seconds", least, taken)
		}
	}
}

// A provider that disconnects does not stop its request from being stored or refused properly, and
// nothing panics.
func TestAProviderThatGoesAway(t *testing.T) {
	w := newWorld(t)
	w.source(open)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.send(request("POST", "/in/src_1", "{}").WithContext(ctx))
}
