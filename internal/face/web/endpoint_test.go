package web

import (
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// TestTheDayOfAnEndpointIsThatOfTheOverview: it has the hour in which the last 24 h began.
func TestTheDayOfAnEndpointIsThatOfTheOverview(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if m, is := answer.(map[string]any); is && name == "endpoint_stats" {
			m["data"] = []any{map[string]any{"at": then.Add(-24 * time.Hour).Truncate(time.Hour), "delivered": 5, "attempts": 5, "attempted": 5}}
		}
		return answer
	}
	s.signIn()
	if body := s.ask("GET", "/endpoints/ep_1", nil).Body.String(); !strings.Contains(body, "5 delivered, 0 failed in 24 h") {
		t.Error("deliveries of 24 hours ago are not of the last 24 h")
	}
}

// TestARedeliveryIsTimedFromItsCreation: its event may have been accepted long before.
func TestARedeliveryIsTimedFromItsCreation(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	v, of, at := s.visitOf("/deliveries"), "dlv_1", then.Add(2*time.Second)
	d := &client.Delivery{ID: "dlv_2", Status: grapnel.Delivered, AttemptsMade: 1, CreatedAt: then, FinishedAt: &at}
	said := func() (text string) {
		for _, p := range v.deliveryVerdict(d, nil, &deliveryModel{}).Pieces {
			text += p.Text
		}
		return text
	}
	if got := said(); got != "Delivered at attempt 1, 2.0 s after the event was accepted." {
		t.Error(got)
	}
	d.ReplayOf = &of
	if got := said(); got != "Delivered at attempt 1, 2.0 s after this redelivery was created." {
		t.Error(got)
	}
}

// TestIssuesOfOnePageAreNotAll: a page does not know what the others have.
func TestIssuesOfOnePageAreNotAll(t *testing.T) {
	page := func(next, newest string, states ...string) string {
		m, found := issuesModel{pager: pager{Newest: newest}}, &client.Page[client.Issue]{Next: next}
		for _, state := range states {
			found.Data = append(found.Data, client.Issue{State: state})
		}
		m.answer(found, issueViews[0].state)
		return m.Verdict.Pieces[0].Text
	}
	for _, c := range []struct{ got, want string }{
		{page("", "", "open", "acknowledged"), "1 issue is open."},
		{page("c", "", "open", "acknowledged"), "At least 1 issue is open."},
		{page("", "/issues", "open"), "At least 1 issue is open."},
		{page("", "", "acknowledged"), "1 issue, none open."},
		{page("c", "", "acknowledged", "acknowledged"), "2 issues on this page, none open."},
	} {
		if c.got != c.want {
			t.Errorf("%s; want %s", c.got, c.want)
		}
	}
}

// TestReplayTheseBeginsWithTheIssue: as grapnel issues replay does, without older dead letters.
func TestReplayTheseBeginsWithTheIssue(t *testing.T) {
	s := newSite(t, nil)
	s.api.edit = func(name string, answer any) any {
		if m, is := answer.(map[string]any); is && name == "issue" {
			m["events_from"] = then.Add(-90 * time.Minute)
		}
		return answer
	}
	s.signIn()
	if body := s.ask("GET", "/issues/iss_1", nil).Body.String(); !strings.Contains(body, "from%3A2026-11-23T07%3A53%3A34Z") {
		t.Error("the link to the preview selects older events too")
	}
}

// TestTheChartOfAListHasTheWholeSpan: the hour in which the last 24 h began is a column too, as on
// the overview.
func TestTheChartOfAListHasTheWholeSpan(t *testing.T) {
	s := newSite(t, nil)
	ago := time.Duration(0)
	s.api.edit = func(name string, answer any) any {
		if m, is := answer.(map[string]any); is && name == "stats" {
			m["data"] = []any{map[string]any{"at": then.Add(-ago).Truncate(time.Hour), "delivered": 5, "attempts": 5, "attempted": 5}}
		}
		return answer
	}
	s.signIn()
	for since, is := range map[string]time.Duration{"24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour} {
		ago = is
		if body := s.ask("GET", "/deliveries?q=since:"+since, nil).Body.String(); !strings.Contains(body, "5 delivered, 0 failed.") {
			t.Errorf("deliveries of %s ago are not in the chart", since)
		}
	}
}

// TestTheTimeOfARedeliveryIsNoAcceptance: on its page, the event was accepted before.
func TestTheTimeOfARedeliveryIsNoAcceptance(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	of := "dlv_1"
	for _, c := range []struct {
		replayOf *string
		want     string
	}{{nil, "Accepted"}, {&of, "Created"}} {
		m := deliveryModel{}
		m.facts(s.visitOf("/deliveries"), &client.Delivery{ID: "dlv_2", CreatedAt: then, ReplayOf: c.replayOf}, nil, nil)
		if got := m.Facts[0].Name; got != c.want {
			t.Errorf("the page says %s", got)
		}
	}
}

// TestThePartOfACauseIsAHundredPercentOnlyOfAll: the table has the number of the sentence, with one
// digit, and rounds no part to none or all.
func TestThePartOfACauseIsAHundredPercentOnlyOfAll(t *testing.T) {
	for _, c := range []struct {
		n    int
		want string
	}{{0, "0"}, {1, "0.1"}, {147, "14.7"}, {500, "50"}, {999, "99.9"}, {1000, "100"}} {
		got := new(visit).causeRow(&client.Causes{Failures: 1000, Successes: 1000}, &client.Cause{Failures: c.n, Successes: c.n})
		if got.Failures != c.want || got.Successes != c.want {
			t.Errorf("%d of 1000 are %s %% and %s %%", c.n, got.Failures, got.Successes)
		}
	}
}
