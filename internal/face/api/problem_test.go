package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
)

func TestEveryCodeHasItsStatus(t *testing.T) {
	want := map[grapnel.Code]int{
		grapnel.CodeInvalid: 422, grapnel.CodeMalformed: 400, grapnel.CodeTooLarge: 413, grapnel.CodeNotFound: 404,
		grapnel.CodeConflict: 409, grapnel.CodeTenantEnds: 409, grapnel.CodeUnsupported: 415,
		grapnel.CodeUnavailable: 503, grapnel.CodeOverloaded: 503, grapnel.CodeQuota: 429, grapnel.CodeStorageFull: 507,
		grapnel.CodeMismatch: 422, grapnel.CodeInFlight: 409, grapnel.CodeTooCostly: 422,
		grapnel.CodeDamaged: 410, grapnel.CodeSchemaTooCostly: 422, grapnel.CodeTooManyTypes: 422,
		codeUnauthenticated: 401, codeForbidden: 403, codeMethod: 405, codeInternal: 500,
		ingress.CodeUnverified: 401, ingress.CodeSlow: 408, grapnel.CodeRateLimited: 429, ingress.CodeHeaders: 431, ingress.CodeLoop: 422,
	}
	if len(want) != len(kinds) {
		t.Errorf("there are %d kinds of problems, %d are tested", len(kinds), len(want))
	}
	for code, status := range want {
		if p := problem(fmt.Errorf("wrapped: %w", grapnel.Errorf(code, "why")), "r", ""); p.Status != status ||
			p.Code != string(code) || p.Detail != "why" {
			t.Errorf("%s: %+v", code, p)
		}
	}
}

func TestInternalErrorsShowNothingAndAreLoggedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		logged bool
	}{
		"any error":      {errors.New("pq: password of 10.0.0.7"), 500, true},
		"a code unknown": {&grapnel.Error{Code: "strange", Detail: "password of 10.0.0.7"}, 500, true},
		"with a cause": {&grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "Try later.",
			Err: errors.New("password of 10.0.0.7")}, 503, true},
		"without a cause": {&grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "The endpoint is moving to another node."}, 503, false},
		"a lost answer":   {store.ErrUnknown, 503, true},
		"an overload": {&grapnel.Error{Code: grapnel.CodeOverloaded, Detail: "Too much.",
			Err: errors.New("password of 10.0.0.7")}, 503, false},
		"a quota": {&grapnel.Error{Code: grapnel.CodeQuota, Detail: "Too much.", Err: errors.New("password of 10.0.0.7")}, 429, false},
		"a full disk": {&grapnel.Error{Code: grapnel.CodeStorageFull, Detail: "No room.",
			Err: errors.New("password of 10.0.0.7")}, 507, false},
		"a caller gone":  {context.Canceled, 500, false},
		"a caller wrong": {&grapnel.Error{Code: grapnel.CodeConflict, Detail: "No.", Err: errors.New("password of 10.0.0.7")}, 409, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.broken = c.err
			r := w.ask(admin, "POST", "/v1/events", `{"type":"a","data":1}`, "X-Request-Id", "mine-1")
			if r.StatusCode != c.status || strings.Contains(string(r.body), "password") {
				t.Errorf("answered %d %s", r.StatusCode, r.body)
			}
			if later := r.Header.Get("Retry-After") != ""; later != (c.status > 500 || c.status == 429) {
				t.Errorf("Retry-After is %q", r.Header.Get("Retry-After"))
			}
			if n := strings.Count(w.logged.String(), "request_id=mine-1"); (n == 1) != c.logged || n > 1 {
				t.Errorf("it was logged %d times: %s", n, w.logged)
			}
		})
	}
}

// TestAnOutageIsALogLineAMinute: a fault of the server itself is logged with each request, because
// its problem tells the caller that the log has the request's id.
func TestAnOutageIsALogLineAMinute(t *testing.T) {
	w := newWorld(t)
	lines := func() []string {
		text := strings.Split(w.logged.String(), "\n")
		w.logged.Reset()
		return text[:len(text)-1]
	}
	fail := func(err error, n int) {
		w.engine.broken = err
		for range n {
			w.ask(admin, "POST", "/v1/events", `{"type":"a","data":1}`)
		}
	}
	for _, c := range []struct {
		after time.Duration
		says  []string
	}{{0, []string{"requests=1 "}}, {59 * time.Second, nil}, {time.Second, []string{"requests=80 "}}, {-time.Hour, []string{"requests=40 "}}} {
		w.clock = w.clock.Add(c.after)
		fail(store.ErrUnknown, 20)
		fail(&grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "Later.", Err: errors.New("no connection")}, 20)
		got := lines()
		if !slices.EqualFunc(got, c.says, strings.Contains) {
			t.Errorf("after %v the log has %q, want %q", c.after, got, c.says)
		}
	}
	if fail(errors.New("a defect"), 3); len(lines()) != 3 {
		t.Error("a fault of the server itself was not logged with each request")
	}
}

// When to try again is said in whole seconds that are never too few.
func TestRetryAfterIsRoundedUp(t *testing.T) {
	for after, want := range map[time.Duration]string{0: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2",
		90 * time.Second: "90", -time.Hour: "1"} {
		for _, code := range []grapnel.Code{grapnel.CodeOverloaded, grapnel.CodeQuota} {
			w := newWorld(t)
			w.engine.broken = fmt.Errorf("wrapped: %w", &grapnel.Error{Code: code, Detail: "Too much.", RetryAfter: after})
			for _, target := range []string{"/v1/events", "/v1/events/batch", "/v1/events/raw?type=a"} {
				body := map[string]string{"/v1/events": `{"type":"a","data":1}`, "/v1/events/batch": `{"events":[{"type":"a","data":1}]}`}[target]
				r := w.ask(admin, "POST", target, cmp.Or(body, "1"), "Idempotency-Key", "k"+target)
				if r.Header.Get("Retry-After") != want || r.object(t)["code"] != string(code) {
					t.Errorf("%s %s after %s: answered %d %v %s", code, target, after, r.StatusCode, r.Header, r.body)
				}
			}
		}
	}
}

// Being turned away is not an answer for ever: with the same key the request is tried again.
func TestOverloadIsNotRemembered(t *testing.T) {
	for _, code := range []grapnel.Code{grapnel.CodeOverloaded, grapnel.CodeQuota} {
		w := newWorld(t)
		ask := func() reply {
			return w.ask(admin, "POST", "/v1/events", `{"type":"a","data":1}`, "Idempotency-Key", "k")
		}
		w.engine.broken = grapnel.Errorf(code, "Too much.")
		first := ask()
		w.engine.broken = nil
		if again := ask(); first.StatusCode < 429 || again.StatusCode != 202 || again.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: answered %d, then %d %s", code, first.StatusCode, again.StatusCode, again.body)
		}
	}
}

func TestPanicsEndOneRequest(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Ready = func() error { panic("boom at /secret") } })
	r := w.ask("", "GET", "/readyz", "")
	if r.StatusCode != 500 || strings.Contains(string(r.body), "boom") || !strings.Contains(w.logged.String(), "boom") {
		t.Errorf("answered %d %s, logged %s", r.StatusCode, r.body, w.logged)
	}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("an aborted handler ended with %v", err)
		}
	}()
	w = newWorld(t, func(o *Options) { o.Ready = func() error { panic(http.ErrAbortHandler) } })
	w.ask("", "GET", "/readyz", "")
}

func TestReadiness(t *testing.T) {
	var why error
	w := newWorld(t, func(o *Options) { o.Ready = func() error { return why } })
	w.must(200, "GET", "/readyz", "")
	accepted := w.ask("", "GET", "/status", "", "Accept", "application/json")
	if !strings.Contains(string(accepted.body), `"events":"accepted"`) {
		t.Errorf("the status page says %s", accepted.body)
	}
	for _, c := range []struct {
		why  error
		says string
	}{
		{errors.New("the store at /secret/path is gone"), "cannot reach its database"},
		{grapnel.Errorf(grapnel.CodeUnavailable, "no connection to /secret"), "cannot reach its database"},
		{grapnel.Errorf(grapnel.CodeStorageFull, "no room in /secret"), "storage is full"},
	} {
		why = c.why
		probe := w.ask("", "GET", "/readyz", "")
		page := w.ask("", "GET", "/status", "", "Accept", "text/html")
		view := w.ask("", "GET", "/status", "", "Accept", "application/json")
		if p := probe.object(t); probe.StatusCode != 503 || probe.Header.Get("Retry-After") != "1" || p["code"] != "unavailable" ||
			!strings.Contains(fmt.Sprint(p["detail"]), c.says) {
			t.Errorf("%v: answered %d %v", why, probe.StatusCode, p)
		}
		if v := view.object(t); v["status"] != "unavailable" || v["events"] != "refused" || !strings.Contains(fmt.Sprint(v["detail"]), c.says) {
			t.Errorf("%v: the status is %v", why, v)
		}
		if !strings.Contains(string(page.body), "refuses new events") || !strings.Contains(string(page.body), c.says) {
			t.Errorf("%v: the page says %s", why, page.body)
		}
		if all := string(probe.body) + string(page.body) + string(view.body); strings.Contains(all, "/secret") {
			t.Errorf("%v: the answers tell the cause: %s", why, all)
		}
	}
	w.must(200, "GET", "/livez", "")
	if w.logged.Len() != 0 {
		t.Errorf("probes are logged: %s", w.logged)
	}
}

func TestRequestIDs(t *testing.T) {
	w := newWorld(t)
	for given, kept := range map[string]bool{"abc-1": true, "": false, "a b": false, "x\"y": false, strings.Repeat("x", 65): false} {
		r := w.ask("", "GET", "/livez", "", "X-Request-Id", given)
		id := r.Header.Get("X-Request-Id")
		if (id == given) != kept || !grapnel.ValidID(id) {
			t.Errorf("given %q, the request's id is %q", given, id)
		}
	}
}

// broken is a body that ends in the middle.
type broken struct{ io.Reader }

func (broken) Close() error { return nil }

func TestBodiesThatBreakOff(t *testing.T) {
	w := newWorld(t)
	before := w.dump()
	for _, length := range []int64{-1, 100} {
		r := httptest.NewRequest("POST", "/v1/events", broken{io.MultiReader(strings.NewReader(`{"type":"a","data":1}`), failing{})})
		r.ContentLength = length
		r.Header.Set("Authorization", "Bearer "+admin)
		if got := w.send(r); got.StatusCode != 400 {
			t.Errorf("answered %d %s", got.StatusCode, got.body)
		}
	}
	// Without a length the limit holds as well.
	r := httptest.NewRequest("POST", "/v1/events", broken{io.LimitReader(spaces{}, 1<<40)})
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer "+admin)
	if got := w.send(r); got.StatusCode != 413 {
		t.Errorf("answered %d %s", got.StatusCode, got.body)
	}
	if w.dump() != before {
		t.Error("something has changed")
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

type spaces struct{}

func (spaces) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func TestServerHasLimitsOnEverythingThatCanBeSlow(t *testing.T) {
	s := Server(http.NotFoundHandler(), Bounds{})
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 ||
		s.MaxHeaderBytes > 64<<10 {
		t.Errorf("a limit is missing: %+v", s)
	}
}

// TestLimitsHaveTheirStatus: each answer in docs/limits.md is a code with its status.
func TestLimitsHaveTheirStatus(t *testing.T) {
	page, err := os.ReadFile("../../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	answers := regexp.MustCompile("(\\d{3}) `([a-z_]+)`").FindAllStringSubmatch(string(page), -1)
	if len(answers) < 15 {
		t.Fatalf("only %d answers were found", len(answers))
	}
	for _, is := range answers {
		if k := kindOf(grapnel.Code(is[2])); k.code != grapnel.Code(is[2]) || fmt.Sprint(k.status) != is[1] {
			t.Errorf("%s: the status is %d", is[0], k.status)
		}
	}
}
