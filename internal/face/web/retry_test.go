package web

import (
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRetryOfASearch: all that match a search for pending deliveries are retried by one order;
// a search that takes finished ones too is not.
func TestRetryOfASearch(t *testing.T) {
	for q, whole := range map[string]bool{"status:held key:k1": true, "status:pending,held": true, "status:held,failed": false} {
		api := &watched{}
		s := newSite(t, func(o *Options) { api.Handler = o.API; o.API = api })
		s.signIn()
		form := url.Values{"token": {s.token("/deliveries")}, "all": {"1"}, "q": {q}, "back": {"/deliveries"}}
		api.all = nil
		w := s.ask("POST", "/deliveries/retry", form)
		ordered := slices.ContainsFunc(api.all, func(one seen) bool { return one.path == "/v1/deliveries/retry" })
		if w.Code != http.StatusSeeOther || ordered != whole {
			t.Errorf("%s: answered %d, asked %+v", q, w.Code, api.all)
		}
	}
}

// TestTheButtonThatRetriesAnEndpoint: an endpoint's page counts the stuck ordering keys, and its
// button retries all that waits; the next page says what came of it. Without stuck keys or the
// scope there is no button.
func TestTheButtonThatRetriesAnEndpoint(t *testing.T) {
	api, did, keys, next, scope := &watched{}, map[string]any{}, 3, any(nil), "admin"
	s := newSite(t, func(o *Options) { api.Handler = o.API; o.API = api })
	var ordered atomic.Bool // a page asks several questions at once
	s.api.asked = func(r *http.Request) { ordered.Store(r.Method == "POST") }
	s.api.edit = func(name string, answer any) any {
		doc, _ := answer.(map[string]any)
		switch {
		case name == "whoami":
			doc["scopes"] = []string{scope}
		case name == "lanes":
			doc["data"], doc["next"] = doc["data"].([]any)[:keys], next
		case name == "endpoint" && ordered.Load():
			return did
		}
		return answer
	}
	s.signIn()
	const at, button = "/endpoints/ep_01m83vb7tgeys9z96ww92vg6s3", " stuck ordering keys now</button>"
	page := func() string { return html.UnescapeString(s.ask("GET", at, nil).Body.String()) }
	for _, c := range []struct {
		next any
		says string
		did  map[string]any
		then string
	}{
		{nil, "Retry 3" + button, map[string]any{"retried": 3}, "3 deliveries are attempted now; those behind follow in order."},
		{"c", "Retry 3+" + button, map[string]any{"retried": 900, "more": true}, "900 deliveries are attempted now; those behind follow in order. There are more: press it again."},
		{nil, "Retry 3" + button, map[string]any{"retried": 1, "probe": true}, "The circuit is open: one delivery probes the endpoint. The others follow if it succeeds."},
		{nil, "Retry 3" + button, map[string]any{"retried": 0}, "Nothing waits for a later attempt."},
	} {
		next, did = c.next, c.did
		if body := page(); !strings.Contains(body, `action="`+at+`/retry"`) || !strings.Contains(body, c.says) {
			t.Errorf("no %s: %s", c.says, body)
		}
		api.all = nil
		w := s.ask("POST", at+"/retry", url.Values{"token": {s.token(at)}, "back": {at}})
		if w.Code != 303 || len(api.all) != 1 || api.all[0].path != "/v1"+at+"/retry" || api.all[0].body != `{"reason":"from the dashboard"}` {
			t.Errorf("answered %d, asked %+v", w.Code, api.all)
		}
		if body := page(); !strings.Contains(body, `role="status">`+c.then+"<") {
			t.Errorf("%v: the page does not say %s", c.did, c.then)
		}
	}
	for _, c := range []struct {
		keys  int
		scope string
	}{{0, "admin"}, {3, "read"}} {
		keys, scope, s.cookies = c.keys, c.scope, nil
		s.signIn()
		if strings.Contains(page(), at+"/retry") {
			t.Errorf("%+v: there is a button", c)
		}
	}
}

// TestTheButtonsOfAnIssue: they count the deliveries whose last attempt ended as the issue's
// failures did, those that wait and those that failed, and act on these. An issue of all other
// failures has no class and no status code.
func TestTheButtonsOfAnIssue(t *testing.T) {
	const ep, from = "ep_01m7wwe4gnee9b97smc0j84cyv", "2026-11-20T09:02:01Z"
	for _, c := range []struct{ class, letters, waiting, retries, replays, order string }{
		{"status_4xx", "endpoint=" + ep + "&error_class=status_4xx&from=2026-11-20T09%3A02%3A01Z&limit=99&status_code=422",
			"error_class=status_4xx&limit=99&status=pending&status=held&status_code=422", `{"error_class":"status_4xx","status_code":422,"reason":"from the dashboard"}`,
			" from:" + from + " error:status_4xx code:422", `{"from":"` + from + `","status":["failed"],"error_class":"status_4xx","status_code":422,"dry_run"`},
		{"other", "endpoint=" + ep + "&from=2026-11-20T09%3A02%3A01Z&limit=99", "limit=99&status=pending&status=held", `{"reason":"from the dashboard"}`,
			" from:" + from, `{"from":"` + from + `","status":["failed"],"dry_run"`},
	} {
		api := &watched{}
		var asked []string
		s := newSite(t, func(o *Options) { api.Handler = o.API; o.API = api })
		s.api.asked = func(r *http.Request) {
			if q := r.URL.Query(); q.Get("limit") == "99" {
				asked = append(asked, r.URL.Path+" "+q.Encode())
			}
		}
		s.api.edit = func(name string, answer any) any {
			doc, _ := answer.(map[string]any)
			switch name {
			case "issue":
				if doc["error_class"], doc["events_from"] = c.class, from; c.class == "other" {
					doc["status_code"] = nil
				}
			case "dead_letters":
				doc["next"] = "c"
			case "deliveries":
				doc["data"] = doc["data"].([]any)[:2]
			}
			return answer
		}
		s.signIn()
		body := s.ask("GET", "/issues/iss_1", nil).Body.String()
		if want := []string{"/v1/dead-letters " + c.letters, "/v1/endpoints/" + ep + "/deliveries " + c.waiting}; !slices.Equal(asked, want) {
			t.Errorf("%s: counted %q, want %q", c.class, asked, want)
		}
		q := "endpoint:" + ep + " status:failed" + c.replays
		replay := `<a class="btn" href="/replays/new` + withQuery("q", q) + `">Replay these 6+</a>`
		for _, want := range []string{replay, "Retry the 2 that wait</button>"} {
			if !strings.Contains(strings.ReplaceAll(html.UnescapeString(body), "\n  ", ""), want) {
				t.Errorf("%s: no %s: %s", c.class, want, body)
			}
		}
		api.all = nil
		if w := s.ask("POST", "/issues/iss_1/retry", url.Values{"token": {s.token("/issues/iss_1")}}); w.Code != 303 ||
			len(api.all) != 1 || api.all[0].path != "/v1/endpoints/"+ep+"/retry" || api.all[0].body != c.retries {
			t.Errorf("%s: answered %d, asked %+v", c.class, w.Code, api.all)
		}
		api.all = nil
		if s.ask("GET", "/replays/new"+withQuery("q", q), nil); len(api.all) != 1 || !strings.HasPrefix(api.all[0].body, c.order) {
			t.Errorf("%s: the replay asked %+v", c.class, api.all)
		}
	}
}
