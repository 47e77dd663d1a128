package ingress

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
)

const apiToken = "made-up"

// api is a provider's API on loopback. It refuses requests without a token.
func api(t *testing.T, handler func(w http.ResponseWriter, r *http.Request)) Account {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+apiToken || !strings.HasPrefix(r.Header.Get("User-Agent"), "Grapnel/") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	return Account{Token: apiToken, URL: server.URL, Client: server.Client()}
}

// delivery is a delivery as in GitHub's documentation.
func delivery(id int, guid, at, status string, code int, redelivery bool) string {
	return fmt.Sprintf(`{"id":%d,"guid":%q,"delivered_at":%q,"redelivery":%v,"duration":0.27,"status":%q,"status_code":%d,`+
		`"event":"issues","action":"opened","installation_id":123,"repository_id":456,"throttled_at":null}`, id, guid, at, redelivery, status,
		code)
}

func TestGitHubsDeliveries(t *testing.T) {
	var asked []string
	account := api(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		here := "http://" + r.Host + r.URL.Path
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{}`))
		case r.URL.Query().Get("cursor") == "":
			w.Header().Set("Link", `<`+here+`?per_page=100&cursor=v1_2>; rel="next", <`+here+`>; rel="first"`)
			_, _ = fmt.Fprintf(w, "[%s,%s]", delivery(5, "guid-b", "2026-11-20T10:00:05Z", "OK", 200, true),
				delivery(4, "guid-c", "2026-11-20T10:00:04Z", "Invalid HTTP Response: 503", 503, false))
		default:
			_, _ = fmt.Fprintf(
				w,
				"[%s,%s,%s]",
				delivery(3, "guid-b", "2026-11-20T10:00:03Z", "timed out", 0, false),
				delivery(
					2,
					"guid-a",
					"2026-11-20T10:00:02Z",
					"OK",
					202,
					false,
				),
				delivery(1, "guid-z", "2026-11-20T09:00:00Z", "failed to connect", 0, false),
			)
		}
	})
	var g Reconciler = &GitHub{Account: account, Hook: "repos/octocat/Hello-World/hooks/42"}
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	got, err := g.Sent(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	want := []Sent{
		{ID: "5", Event: "guid-b", Type: "issues", At: at.Add(5 * time.Second), Status: 200, Detail: "OK"},
		{ID: "4", Event: "guid-c", Type: "issues", At: at.Add(4 * time.Second), Failed: true, Status: 503, Detail: "Invalid HTTP Response: 503"},
		{ID: "2", Event: "guid-a", Type: "issues", At: at.Add(2 * time.Second), Status: 202, Detail: "OK"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := g.Resend(t.Context(), got[1]); err != nil {
		t.Error(err)
	}
	wantAsked := []string{
		"GET /repos/octocat/Hello-World/hooks/42/deliveries?per_page=100",
		"GET /repos/octocat/Hello-World/hooks/42/deliveries?per_page=100&cursor=v1_2",
		"POST /repos/octocat/Hello-World/hooks/42/deliveries/4/attempts",
	}
	if d := cmp.Diff(wantAsked, asked); d != "" {
		t.Error(d)
	}
}

func TestTheTokenGoesNowhereElse(t *testing.T) {
	account := api(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", `<https://elsewhere.example.com/steal>; rel="next"`)
		_, _ = fmt.Fprintf(w, "[%s]", delivery(1, "g", "2026-11-20T10:00:00Z", "OK", 200, false))
	})
	if _, err := (&GitHub{Account: account, Hook: "app/hook"}).Sent(
		t.Context(),
		time.Time{},
	); err == nil ||
		!strings.Contains(err.Error(), "another host") {
		t.Errorf("%v", err)
	}
}

// stripeEvent is an event as in Stripe's documentation.
func stripeEvent(id string, created int64, pending int) string {
	return fmt.Sprintf(
		`{"id":%q,"object":"event","api_version":"2019-02-19","created":%d,"data":{"object":{"id":"seti_1","object":"setup_intent"}},`+
			`"livemode":false,"pending_webhooks":%d,"request":{"id":null,"idempotency_key":null},"type":"setup_intent.created"}`,
		id,
		created,
		pending,
	)
}

func TestStripesEvents(t *testing.T) {
	account := api(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/v1/events" || q.Get("created[gte]") != "1700000000" || q.Get("limit") != "100" ||
			q.Get("types[]") != "setup_intent.created" {
			t.Errorf("asked for %s", r.URL)
		}
		var data []string
		more := false
		switch {
		case q.Get("delivery_success") == "true":
			data = []string{stripeEvent("evt_3", 1700000030, 0), stripeEvent("evt_2", 1700000020, 0)}
		case q.Get("starting_after") == "":
			data, more = []string{stripeEvent("evt_4", 1700000040, 1), stripeEvent("evt_3", 1700000030, 1)}, true
		case q.Get("starting_after") == "evt_3":
			data = []string{stripeEvent("evt_1", 1700000010, 2)}
		default:
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = fmt.Fprintf(w, `{"object":"list","url":"/v1/events","has_more":%v,"data":[%s]}`, more, strings.Join(data, ","))
	})
	var s Reconciler = &Stripe{Account: account, Types: []string{"setup_intent.created"}}
	got, err := s.Sent(t.Context(), time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range got {
		told = append(told, fmt.Sprintf("%s %v %d %s", e.Event, e.Failed, e.At.Unix()-1700000000, e.Detail))
		if !json.Valid(e.Body) || !strings.Contains(string(e.Body), `"`+e.Event+`"`) {
			t.Errorf("%s has the body %s", e.Event, e.Body)
		}
	}
	want := []string{
		"evt_4 true 40 1 endpoints have not got it", "evt_3 false 30 ", "evt_2 false 20 ", "evt_1 true 10 2 endpoints have not got it",
	}
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
	if err := s.Resend(t.Context(), got[0]); grapnel.CodeOf(err) != grapnel.CodeUnsupported {
		t.Errorf("%v", err)
	}
}

func TestAProviderThatRefuses(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   grapnel.Code
	}{
		{404, `{"message":"Not Found"}`, grapnel.CodeNotFound}, {403, `{"message":"Resource not accessible"}`, grapnel.CodeInvalid},
		{429, ``, grapnel.CodeUnavailable}, {502, `<html>`, grapnel.CodeUnavailable}, {200, `<html>`, ""}, {200, `{"data":[{}]}`, ""},
	} {
		account := api(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		for _, r := range []Reconciler{&GitHub{Account: account, Hook: "app/hook"}, &Stripe{Account: account}} {
			_, err := r.Sent(t.Context(), time.Time{})
			if err == nil || grapnel.CodeOf(err) != c.want || strings.Contains(err.Error(), apiToken) {
				t.Errorf("%T, %d %s: %v", r, c.status, c.body, err)
			}
		}
	}
	gone := Account{Token: apiToken, URL: "http://127.0.0.1:1"}
	if _, err := (&Stripe{Account: gone}).Sent(t.Context(), time.Time{}); grapnel.CodeOf(err) != grapnel.CodeUnavailable {
		t.Errorf("nobody there: %v", err)
	}
}
