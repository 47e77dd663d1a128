package api

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/insight"
	"github.com/grapnelhq/grapnel/internal/send/issue"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// issue stores n failures of an endpoint as its engine would, and returns the id of their issue.
func (w *world) issue(tenant, endpoint string, status, n int, answer string) string {
	w.t.Helper()
	g := issue.Group{Tenant: tenant, Endpoint: endpoint, Class: policy.ClassStatus4xx, Status: status, Answer: answer}
	tally := issue.NewTally(issue.Bounds{})
	for i := range n {
		tally.Failed(&issue.Failure{Group: g, At: w.clock.Add(-time.Duration(n-i) * time.Minute),
			Delivery: storeIDs.Delivery(w.clock, int64(900+i)),
			Key:      fmt.Sprint("k", i%2), Created: w.clock.Add(-time.Hour)})
	}
	k := issue.NewKeeper(issue.Options{Documents: w.engine, Tally: tally, Now: func() time.Time { return w.clock },
		Log:  slog.New(slog.DiscardHandler),
		Gone: func(string) bool { return false }, Leads: func() bool { return false }})
	if err := k.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return g.ID()
}

func idsIn(list map[string]any) (ids []string) {
	for _, one := range list["data"].([]any) {
		ids = append(ids, one.(map[string]any)["id"].(string))
	}
	return ids
}

// The list has the one that failed last first, can be filtered and paged, and each key sees the
// issues of its tenant.
func TestIssuesAreListed(t *testing.T) {
	w := newWorld(t)
	one, two := w.endpoint(admin, ""), w.endpoint(acmeAdmin, "")
	a := w.issue("default", one, 422, 3, "no")
	w.clock = w.clock.Add(time.Hour)
	b := w.issue("acme", two, 404, 200, "gone")
	w.clock = w.clock.Add(time.Hour)
	c := w.issue("default", one, 400, 1, "bad")
	for _, x := range []struct {
		key, query string
		want       []string
	}{
		{admin, "", []string{c, b, a}}, {admin, "?tenant=default", []string{c, a}}, {admin, "?endpoint=" + two, []string{b}},
		{acmeAdmin, "", []string{b}}, {acmeAdmin, "?endpoint=" + one, nil}, {admin, "?state=resolved,muted", nil},
		{admin, "?state=open", []string{c, b, a}},
		{admin, "?endpoint=" + two + "&tenant=default", nil},
	} {
		if got := idsIn(w.as(x.key, 200, "GET", "/v1/issues"+x.query, "")); strings.Join(got, " ") != strings.Join(x.want, " ") {
			t.Errorf("%s: %v, want %v", x.query, got, x.want)
		}
	}
	var paged []string
	for next := ""; ; {
		p := w.must(200, "GET", "/v1/issues?limit=1"+next, "")
		paged = append(paged, idsIn(p)...)
		if p["next"] == nil {
			break
		}
		next = "&cursor=" + p["next"].(string)
	}
	if strings.Join(paged, " ") != strings.Join([]string{c, b, a}, " ") {
		t.Errorf("page by page: %v", paged)
	}
	got := w.must(200, "GET", "/v1/issues/"+b, "")
	if n := got["deliveries"].(float64); got["approximate"] != true || n < 140 || n > 260 || got["keys"] != 2.0 || got["failures"] != 200.0 ||
		len(got["delivery_ids"].([]any)) != 5 || len(got["hours"].([]any)) != 48 || got["answer"] != "gone" {
		t.Errorf("%v", got)
	}
	if from := w.clock.Add(-121 * time.Minute).UTC().Format("2006-01-02T15:04:05.000000Z"); got["events_from"] != from {
		t.Errorf("a replay begins with events of %s, and the issue says %v", from, got["events_from"])
	}
	w.as(acmeAdmin, 404, "GET", "/v1/issues/"+a, "")
	w.must(404, "GET", "/v1/issues/iss_none", "")
}

// Why an issue's deliveries fail is explained without the failures of other issues.
func TestAnIssueIsExplained(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	w.play(48, func(i int) bool { return i%4 == 2 })
	id := w.issue("default", ep, 422, 12,
		insight.Fingerprint(fmt.Appendf(nil, `{"error":"invoice 1 refused at %s"}`, w.clock), issue.AnswerBytes))
	other := w.issue("default", ep, 404, 2, "")
	why := w.must(200, "GET", "/v1/issues/"+id, "")["why"].(map[string]any)
	if why["sentence"] == nil || why["failures"].(float64) == 0 || !strings.Contains(fmt.Sprint(why["groups"]), "invoice # refused") {
		t.Errorf("%v", why)
	}
	why = w.must(200, "GET", "/v1/issues/"+other, "")["why"].(map[string]any)
	if why["failures"] != 0.0 || why["successes"].(float64) == 0 || why["sentence"] != "None of the newest deliveries failed in this way at first." {
		t.Errorf("another issue: %v", why)
	}
}

// What people decide is stored with an entry of the audit, also by a pass that is limited to the
// endpoint; what changes nothing has none.
func TestIssuesAreDecided(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(acmeAdmin, "")
	id := w.issue("acme", ep, 422, 3, "no")
	me := w.pass(portalScopes, ep)
	until := w.clock.Add(time.Hour).UTC().Format(time.RFC3339)
	verbs := func() (all []string) {
		for _, e := range w.as(acmeAdmin, 200, "GET", "/v1/audit?endpoint="+ep, "")["data"].([]any) {
			if e := e.(map[string]any); strings.HasPrefix(fmt.Sprint(e["reason"]), id) {
				all = append(all, e["verb"].(string))
			}
		}
		return all
	}
	for _, step := range []struct{ key, body, state, verb string }{
		{me, `{"state":"acknowledged","owner":"Ana","reason":"on it"}`, "acknowledged", "acknowledge"},
		{me, `{"state":"acknowledged"}`, "acknowledged", ""},
		{acmeAdmin, `{"note":"asked them"}`, "acknowledged", "change"},
		{acmeAdmin, `{"state":"muted","muted_until":"` + until + `"}`, "muted", "mute"},
		{acmeAdmin, `{"state":"resolved","reason":"fixed"}`, "resolved", "resolve"},
		{acmeAdmin, `{"state":"open","owner":null}`, "open", "reopen"},
		{acmeAdmin, `{}`, "open", ""},
	} {
		before := len(verbs())
		got := w.as(step.key, 200, "PATCH", "/v1/issues/"+id, step.body)
		after := verbs()
		if got["state"] != step.state || step.verb == "" && len(after) != before ||
			step.verb != "" && (len(after) != before+1 || after[0] != step.verb) {
			t.Errorf("%s: %v, audit %v", step.body, got, after)
		}
	}
	got := w.as(me, 200, "GET", "/v1/issues/"+id, "")
	if got["owner"] != nil || got["note"] != "asked them" || got["changed_by"] == nil {
		t.Errorf("%v", got)
	}
	w.as(acmeAdmin, 200, "PATCH", "/v1/issues/"+id, `{"state":"muted"}`)
	w.clock = w.clock.Add(25 * time.Hour)
	me = w.pass(portalScopes, ep)
	if got := w.as(me, 200, "GET", "/v1/issues/"+id, ""); got["state"] != "open" || got["muted_until"] != nil {
		t.Errorf("after a day: %v", got)
	}
	w.as(acmeAdmin, 200, "GET", "/v1/issues?state=open", "")
	w.as(scoped(grapnel.ScopeRead), 403, "PATCH", "/v1/issues/"+id, `{"state":"resolved"}`)
}

// A pass without the right to payloads sees no answer of the receiver.
func TestAnIssueHidesTheAnswer(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(acmeAdmin, "")
	id := w.issue("acme", ep, 422, 3, "no")
	if got := w.as(w.pass([]grapnel.Scope{grapnel.ScopeRead}, ep), 200, "GET", "/v1/issues/"+id, ""); got["answer"] != "" {
		t.Errorf("%v", got)
	}
}

// Replaying an issue redelivers the dead letters that ended as its failures did, after a count.
func TestAnIssueIsReplayed(t *testing.T) {
	w := newWorld(t)
	ep := w.endpoint(admin, "")
	w.play(10, func(i int) bool { return i%2 == 0 })
	w.must(202, "POST", "/v1/events", `{"type":"invoice.paid","data":{}}`)
	w.finish(w.newest(t), grapnel.Failed, grapnel.ReasonExpired, "failed: it expired") // without an attempt
	if plan := w.must(200, "POST", "/v1/issues/"+w.issue("default", ep, 404, 1, "")+"/replay", `{"dry_run":true}`); plan["total"] != 0.0 {
		t.Errorf("dead letters of another status are counted: %v", plan)
	}
	id := w.issue("default", ep, 422, 5, "")
	if plan := w.must(200, "POST", "/v1/issues/"+id+"/replay", `{"dry_run":true}`); plan["total"] != 5.0 {
		t.Errorf("%v", plan)
	}
	made := w.must(202, "POST", "/v1/issues/"+id+"/replay", "")
	selection := made["selection"].(map[string]any)
	if made["total"] != 5.0 || selection["error_class"] != "status_4xx" || selection["status_code"] != 422.0 || selection["from"] == nil {
		t.Errorf("%v", made)
	}
}

// The numbers in the words about an issue are of all deliveries that were looked at: failures of
// other issues are deliveries too.
func TestTheWordsAboutAnIssueCountAllDeliveries(t *testing.T) {
	for _, c := range []struct {
		failures, successes, others int
		want                        string
	}{
		{10, 30, 0, "10 of the last 40 deliveries failed at first, and nothing that Grapnel sees sets them apart from the others."},
		{10, 30, 60, "10 of the last 100 deliveries failed in this way at first, and nothing that Grapnel sees sets them apart from the others."},
		{10, 0, 0, "All of the last 10 deliveries failed at first, so nothing sets the failures apart."},
		{10, 0, 60, "10 of the last 70 deliveries failed in this way at first and the others in other ways, so nothing sets the failures apart."},
		{1, 0, 0, "The only delivery failed at first, so there is nothing to compare it with."},
		{1, 0, 2, "1 of the last 3 deliveries failed in this way at first and the others in other ways, so nothing sets the failures apart."},
	} {
		p := &past{}
		for n, o := range map[int]insight.Observation{0: {Failed: true, Class: "status_4xx", Status: 422, Endpoint: "e"},
			1: {Endpoint: "e"}, 2: {Failed: true, Class: "status_5xx", Status: 503, Endpoint: "e"}} {
			for range []int{c.failures, c.successes, c.others}[n] {
				p.observations, p.of = append(p.observations, o), append(p.of, len(p.of))
			}
		}
		p.narrow(&issue.Issue{Class: "status_4xx", Status: 422})
		if got := p.sentence(&wire.Causes{Failures: c.failures, Successes: c.successes}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
