package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// seen is what a request looked like to the server.
type seen struct{ Method, Target, Body, Once, Bearer, Type string }

func look(r *http.Request) seen {
	body, _ := io.ReadAll(r.Body)
	return seen{
		r.Method,
		r.URL.RequestURI(),
		string(body),
		r.Header.Get("Idempotency-Key"),
		r.Header.Get("Authorization"),
		r.Header.Get("Content-Type"),
	}
}

// transport answers requests without a network, so that a test in a bubble need not wait for
// pauses.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func with(t *testing.T, f transport, change ...func(*client.Options)) *client.Client {
	t.Helper()
	o := client.Options{HTTP: &http.Client{Transport: f}}
	for _, c := range change {
		c(&o)
	}
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPublishSendsKeyAndKeepsBytes(t *testing.T) {
	var got seen
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = look(r)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id":"evt_1","accepted_at":"2026-01-02T03:04:05.000006Z","deliveries":2,"duplicate":false,"later":1.50}`)
	}))
	defer srv.Close()
	c, err := client.New(client.Options{Server: srv.URL + "/", Key: "grp_x"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: json.RawMessage(`{ "n": 1.00, "s":"<&>" }`), Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Once == "" {
		t.Error("the POST carried no Idempotency-Key")
	}
	got.Once = ""
	want := seen{"POST", "/v1/events", `{"type":"a.b","key":"k","data":{ "n": 1.00, "s":"<&>" }}`, "", "Bearer grp_x", "application/json"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if p.ID != "evt_1" || p.Deliveries != 2 || p.AcceptedAt.Nanosecond() != 6000 {
		t.Errorf("read %+v", p)
	}
	if !strings.Contains(string(p.JSON()), `"later":1.50`) {
		t.Errorf("a field unknown to the client got lost: %s", p.JSON())
	}
}

func TestListsCarryFiltersAndPages(t *testing.T) {
	var got []string
	c := with(t, func(r *http.Request) (*http.Response, error) {
		got = append(got, r.URL.RequestURI())
		return answer(200, `{"data":[{"id":"dlv_1","status":"failed","x":{"y":1e3}},{"id":"dlv_2"}],"next":"c2"}`), nil
	})
	page, err := c.Deliveries(t.Context(), client.DeliveryFilter{Endpoint: "ep_1", Status: []grapnel.Status{grapnel.Failed, grapnel.Held},
		Type: "a.*", From: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Limit: 2, Cursor: "c1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Endpoints(t.Context(), client.EndpointFilter{Tenant: "acme"}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"/v1/endpoints/ep_1/deliveries?cursor=c1&from=2026-01-02T00%3A00%3A00Z&limit=2&status=failed&status=held&type=a.%2A",
		"/v1/endpoints?tenant=acme",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(page.Data) != 2 || page.Next != "c2" || page.Data[0].Status != "failed" {
		t.Errorf("read %+v", page)
	}
	if string(page.Data[0].JSON()) != `{"id":"dlv_1","status":"failed","x":{"y":1e3}}` {
		t.Errorf("the row's own JSON is %s", page.Data[0].JSON())
	}
}

func TestBatchTellsResultsFromProblems(t *testing.T) {
	var got seen
	c := with(t, func(r *http.Request) (*http.Response, error) {
		got = look(r)
		return answer(
			202,
			`{"data":[{"id":"evt_1","deliveries":1},{"status":422,"code":"invalid","detail":"no","errors":[{"pointer":"/type","detail":"bad"}]}]}`,
		), nil
	})
	results, err := c.PublishBatch(t.Context(), []client.NewEvent{{Type: "a", Data: []byte("1")}, {Type: "", Data: []byte(`{"b": 2}`)}})
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	if got.Body != `{"events":[{"type":"a","data":1},{"type":"","data":{"b": 2}}]}` {
		t.Errorf("sent %s", got.Body)
	}
	if results[0].Err != nil || results[0].Published.ID != "evt_1" {
		t.Errorf("first: %+v", results[0])
	}
	if results[1].Published != nil || results[1].Err.Fields[0].Pointer != "/type" {
		t.Errorf("second: %+v", results[1])
	}
}

// The server writes answers without spaces, and changes nothing else of an event's data.
func TestEventsKeepTheirDigits(t *testing.T) {
	c, err := client.New(here)
	if err != nil {
		t.Fatal(err)
	}
	const data = `{ "n" : 1.50, "s" : "<\u00e9 \/" }`
	p, err := c.Publish(t.Context(), client.NewEvent{Type: "digits.kept", Data: json.RawMessage(data)})
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := c.Event(t.Context(), p.ID); err != nil || string(ev.Data) != `{"n":1.50,"s":"<\u00e9 \/"}` {
		t.Errorf("%v: %s", err, ev.Data)
	}
}

// A person who compares a signature with a body needs all bytes of it.
func TestRequestsKeepTheirBodies(t *testing.T) {
	c, err := client.New(here)
	if err != nil {
		t.Fatal(err)
	}
	source, err := c.CreateSource(t.Context(), client.NewSource{Name: "bodies", Verify: client.NewVerify{Scheme: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"n":1}`, "{ \"n\": 1.50 }\n", "a b\n", "\x00\xff"} {
		resp, err := http.Post(here.Server+source.IngestURL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var accepted struct{ ID string }
		err = errors.Join(json.NewDecoder(resp.Body).Decode(&accepted), resp.Body.Close())
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.InboxRequest(t.Context(), accepted.ID); err != nil || string(r.Content()) != body {
			t.Errorf("%v: %q came as %q", err, body, r.Content())
		}
	}
}

func TestPublishRefusesWhatIsNoJSON(t *testing.T) {
	c := with(t, func(*http.Request) (*http.Response, error) {
		t.Error("a request was sent")
		return answer(202, "{}"), nil
	})
	for _, data := range []string{"", "{", "{}{}", "hello"} {
		if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a", Data: json.RawMessage(data)}); err == nil {
			t.Errorf("%q was taken", data)
		}
	}
}

// Two keys that are not UTF-8 must not become the same key, which they do as JSON: each byte that
// is no text becomes the same character.
func TestPublishRefusesAKeyThatIsNoText(t *testing.T) {
	c := with(t, func(*http.Request) (*http.Response, error) {
		t.Error("a request was sent")
		return answer(202, "{}"), nil
	})
	one := json.RawMessage("1")
	for pointer, ev := range map[string]client.NewEvent{"/key": {Type: "a", Data: one, Key: "caf\xe9"},
		"/aggregate_id": {Type: "a", Data: one, AggregateType: "cafe", AggregateID: "\xe9"}} {
		_, err := c.PublishBatch(t.Context(), []client.NewEvent{{Type: "a", Data: one}, ev})
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Code != string(grapnel.CodeInvalid) || refused.Fields[0].Pointer != pointer {
			t.Errorf("%s: %v", pointer, err)
		}
	}
}

func TestProblemBecomesError(t *testing.T) {
	const text = `{"type":"x","title":"Not found","status":404,"detail":"there is no such endpoint","code":"not_found","request_id":"req_9"}`
	c := with(t, func(*http.Request) (*http.Response, error) { return answer(404, text), nil })
	_, err := c.Endpoint(t.Context(), "ep/../1")
	var e *client.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	want := &client.Error{
		Status:    404,
		Code:      "not_found",
		Title:     "Not found",
		Detail:    "there is no such endpoint",
		RequestID: "req_9",
		Problem:   []byte(text),
	}
	if d := cmp.Diff(want, e); d != "" {
		t.Error(d)
	}
}

func TestAnswersThatAreNotOurs(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reply *http.Response
		want  string
	}{
		{"a proxy's page", answer(500, "<html>oops"), "the server answered 500 Internal Server Error"},
		{"a redirect", answer(302, "", "Location", "https://elsewhere.test"),
			`the server redirects to "https://elsewhere.test"; use that address`},
		{"success that is not JSON", answer(200, "<html>hello"), "the server's answer cannot be read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := with(t, func(*http.Request) (*http.Response, error) { return tc.reply, nil })
			_, err := c.Endpoint(t.Context(), "ep_1")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// The table is the rule of when a call is repeated: how many requests the server sees.
func TestRepeating(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset")}
	get := func(ctx context.Context, c *client.Client) error { _, err := c.Endpoint(ctx, "e"); return err }
	post := func(ctx context.Context, c *client.Client) error { _, err := c.Retry(ctx, "d", ""); return err }
	del := func(ctx context.Context, c *client.Client) error { return c.DeleteEndpoint(ctx, "e", "") }
	for _, tc := range []struct {
		name  string
		do    func(context.Context, *client.Client) error
		reply func() (*http.Response, error)
		want  int
	}{
		{"GET, connection reset", get, func() (*http.Response, error) { return nil, reset }, 3},
		{"POST, connection reset", post, func() (*http.Response, error) { return nil, reset }, 3},
		{"DELETE, connection reset", del, func() (*http.Response, error) { return nil, reset }, 1},
		{"DELETE, connection refused", del, func() (*http.Response, error) { return nil, refused }, 3},
		{"GET, 503", get, func() (*http.Response, error) { return answer(503, "{}"), nil }, 3},
		{"DELETE, 503", del, func() (*http.Response, error) { return answer(503, "{}"), nil }, 1},
		{"DELETE, 429", del, func() (*http.Response, error) { return answer(429, "{}"), nil }, 3},
		{"DELETE, quota that asks for an hour", del, func() (*http.Response, error) {
			return answer(429, `{"code":"quota"}`, "Retry-After", "3600"), nil
		}, 1},
		{"POST, overloaded", post, func() (*http.Response, error) { return answer(503, `{"code":"overloaded"}`, "Retry-After", "1"), nil }, 3},
		{"POST, overloaded for an hour", post, func() (*http.Response, error) {
			return answer(503, `{"code":"overloaded"}`, "Retry-After", "3600"), nil
		}, 1},
		{"POST, 429 that asks for an hour", post, func() (*http.Response, error) { return answer(429, "{}", "Retry-After", "3600"), nil }, 1},
		{"POST, in flight", post, func() (*http.Response, error) { return answer(409, `{"code":"idempotency_in_flight"}`), nil }, 3},
		{"POST, conflict", post, func() (*http.Response, error) { return answer(409, `{"code":"conflict"}`), nil }, 1},
		{"GET, 500", get, func() (*http.Response, error) { return answer(500, "{}"), nil }, 1},
		{"GET, 404", get, func() (*http.Response, error) { return answer(404, "{}"), nil }, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				once := map[string]bool{}
				n := 0
				c := with(t, func(r *http.Request) (*http.Response, error) {
					n++
					once[r.Header.Get("Idempotency-Key")] = true
					return tc.reply()
				})
				if err := tc.do(t.Context(), c); err == nil {
					t.Error("the call succeeded")
				}
				if n != tc.want {
					t.Errorf("the server saw %d requests, want %d", n, tc.want)
				}
				if len(once) != 1 {
					t.Errorf("the repetitions carried %d different idempotency keys", len(once))
				}
			})
		})
	}
}

func TestRepetitionSucceedsAndHonoursRetryAfter(t *testing.T) {
	for _, status := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			c := with(t, func(*http.Request) (*http.Response, error) {
				if n++; n == 1 {
					return answer(status, "{}", "Retry-After", "2"), nil
				}
				return answer(202, `{"id":"evt_1"}`), nil
			})
			start := time.Now()
			p, err := c.Publish(t.Context(), client.NewEvent{Type: "a", Data: json.RawMessage("1")})
			if err != nil || p.ID != "evt_1" {
				t.Fatal(p, err)
			}
			if waited := time.Since(start); waited != 2*time.Second {
				t.Errorf("%d: waited %v, the server asked for 2s", status, waited)
			}
		})
	}
}

// What a person asks for carries their reason if they gave one, and nothing if they did not.
func TestReasonsAreCarried(t *testing.T) {
	var got []string
	c := with(t, func(r *http.Request) (*http.Response, error) {
		s := look(r)
		got = append(got, s.Method+" "+s.Target+" "+s.Body)
		return answer(200, `{"id":"x","health":{"state":"open","held":3,"drain_estimate":"1.5s"}}`), nil
	})
	ctx := t.Context()
	for _, reason := range []string{"", "a & b"} {
		e, err := c.PauseEndpoint(ctx, "ep_1", reason)
		if err != nil || e.Health.State != grapnel.HealthOpen || e.Health.Held != 3 || e.Health.DrainEstimate.Std() != 1500*time.Millisecond {
			t.Fatalf("read %+v: %v", e, err)
		}
		_, resume := c.ResumeEndpoint(ctx, "ep_1", reason)
		_, probe := c.ProbeEndpoint(ctx, "ep_1", reason)
		_, enable := c.EnableEndpoint(ctx, "ep_1", reason)
		_, retry := c.Retry(ctx, "dlv_1", reason)
		if err := errors.Join(resume, probe, enable, retry, c.DeleteEndpoint(ctx, "ep_1", reason)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"POST /v1/endpoints/ep_1/pause ", "POST /v1/endpoints/ep_1/resume ", "POST /v1/endpoints/ep_1/probe ",
		`PATCH /v1/endpoints/ep_1 {"status":"enabled"}`, "POST /v1/deliveries/dlv_1/retry ", "DELETE /v1/endpoints/ep_1 ",
		`POST /v1/endpoints/ep_1/pause {"reason":"a \u0026 b"}`, `POST /v1/endpoints/ep_1/resume {"reason":"a \u0026 b"}`,
		`POST /v1/endpoints/ep_1/probe {"reason":"a \u0026 b"}`, `PATCH /v1/endpoints/ep_1?reason=a+%26+b {"status":"enabled"}`,
		`POST /v1/deliveries/dlv_1/retry {"reason":"a \u0026 b"}`, "DELETE /v1/endpoints/ep_1?reason=a+%26+b ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestLanesAndAudit(t *testing.T) {
	var got []string
	c := with(t, func(r *http.Request) (*http.Response, error) {
		got = append(got, r.URL.RequestURI())
		if strings.Contains(r.URL.Path, "lanes") {
			return answer(
				200,
				`{"data":[{"key":"k","since":null,"waiting":10000,"waiting_more":true,"head":{"id":"dlv_1","status":"held"}}],"next":null}`,
			), nil
		}
		return answer(
			200,
			`{"data":[{"number":7,"at":"2026-01-02T03:04:05.000000Z","actor":"key_1","verb":"pause","endpoint_id":"ep_1","delivery_id":null,"reason":"r"}],"next":"c2"}`,
		), nil
	})
	lanes, err := c.Lanes(t.Context(), "ep_1", 3, "c")
	if err != nil || len(lanes.Data) != 1 || lanes.Data[0].Head.Status != grapnel.Held || !lanes.Data[0].WaitingMore {
		t.Fatalf("read %+v: %v", lanes, err)
	}
	audit, err := c.Audit(t.Context(), client.AuditFilter{Endpoint: "ep_1", Delivery: "dlv_1", Tenant: "t", Limit: 2, Cursor: "c1"})
	if err != nil || len(audit.Data) != 1 || audit.Data[0].Verb != grapnel.VerbPause || audit.Data[0].DeliveryID != "" || audit.Next != "c2" {
		t.Fatalf("read %+v: %v", audit, err)
	}
	want := []string{"/v1/endpoints/ep_1/lanes?cursor=c&limit=3", "/v1/audit?cursor=c1&delivery=dlv_1&endpoint=ep_1&limit=2&tenant=t"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestBudgetEndsRepeating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := with(t, func(*http.Request) (*http.Response, error) { n++; return answer(503, "{}"), nil })
		const calls = 200
		for range calls {
			if _, err := c.Endpoint(t.Context(), "e"); err == nil {
				t.Fatal("the call succeeded")
			}
		}
		// The reserve, and one in ten of the calls made.
		if extra := n - calls; extra < 10 || extra > 10+calls/10 {
			t.Errorf("%d calls were repeated %d times", calls, extra)
		}
	})
}

func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		c := with(t, hang, func(o *client.Options) { o.Timeout = time.Second })
		if _, err := c.Endpoint(t.Context(), "e"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the timeout: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Endpoint(ctx, "e"); !errors.Is(err, context.Canceled) {
			t.Errorf("after cancelling: %v", err)
		}
	})
}

// The two names that lead to another directory must not lead to another route: the deliveries of
// the endpoint ".." would be those of all endpoints.
func TestDotsAreNoID(t *testing.T) {
	c := with(t, func(r *http.Request) (*http.Response, error) {
		t.Errorf("it asked for %s", r.URL)
		return answer(200, `{"data":[]}`), nil
	})
	_, deliveries := c.Deliveries(t.Context(), client.DeliveryFilter{Endpoint: ".."})
	_, event := c.Event(t.Context(), ".")
	for name, err := range map[string]error{"deliveries": deliveries, "event": event} {
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Code != string(grapnel.CodeInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyIsNotCarriedAcrossARedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request with %q reached another server", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	c, err := client.New(client.Options{Server: srv.URL, Key: "grp_secret"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Endpoint(t.Context(), "e")
	if err == nil || strings.Contains(err.Error(), "grp_secret") {
		t.Errorf("got %v", err)
	}
}

// A key that was read from a file with its line break, or a content type with one, cannot be sent.
// That is no server that cannot be reached, for which a consumer would wait forever.
func TestHeadersThatCannotBeSent(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	c, err := client.New(client.Options{Server: srv.URL, Key: "grp_1\n"})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := client.New(client.Options{Server: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	consuming := c.Consume(ctx, "orders", nil, client.ConsumeOptions{Trouble: func(error) { stop() }})
	_, publishing := plain.PublishRaw(t.Context(), client.RawEvent{Type: "a", ContentType: "text/csv\r\n"})
	for name, err := range map[string]error{"Authorization": consuming, "Content-Type": publishing} {
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Code != string(grapnel.CodeInvalid) || !strings.Contains(refused.Detail, name) ||
			strings.Contains(refused.Detail, "grp_1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewRefusesWhatIsNoURL(t *testing.T) {
	for _, server := range []string{"127.0.0.1:8420", "ftp://x", "http://", "::"} {
		if _, err := client.New(client.Options{Server: server}); err == nil {
			t.Errorf("%q was taken", server)
		}
	}
}
