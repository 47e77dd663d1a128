package alert

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// TestEveryRuleCanFire gives facts at which each rule fires, and says so in a sentence.
func TestEveryRuleCanFire(t *testing.T) {
	standard, _ := policy.Preset("standard")
	ago := func(d time.Duration) time.Time { return begin.Add(-d) }
	off := int64(-2)
	ep := func(id string) *grapnel.Endpoint {
		return &grapnel.Endpoint{ID: id, Tenant: "t", URL: "https://" + id + ".example/hook", Status: grapnel.EndpointEnabled,
			Policy: standard}
	}
	disabled, byHand, queue := ep("off"), ep("hand"), ep("q")
	disabled.Status, disabled.DisabledReason = grapnel.EndpointDisabled, "100 deliveries in a row failed"
	byHand.Status, byHand.DisabledReason = grapnel.EndpointDisabled, "an operator disabled it: moving"
	queue.Queue = &grapnel.Queue{Name: "orders"}
	f := Facts{Now: begin, Endpoints: []Endpoint{
		{Endpoint: ep("bad"), Health: grapnel.Health{State: grapnel.HealthOpen, Since: ago(time.Hour),
			FailingSince: ago(5 * 24 * time.Hour), NextAttemptAt: begin, Disabling: 100, Reason: "connection refused"}},
		{Endpoint: ep("picky"), Health: grapnel.Health{State: grapnel.HealthDegraded, FirstAttempts: 51, FirstFailed: 7}},
		{Endpoint: disabled}, {Endpoint: byHand},
		{Endpoint: queue, Due: ago(time.Hour)},
		{Endpoint: ep("slow"), Health: grapnel.Health{State: grapnel.HealthHealthy}, Due: ago(2 * time.Minute), Tries: 3,
			CertificateUntil: begin.Add(5 * 24 * time.Hour), ClientCertUntil: begin.Add(13 * 24 * time.Hour)},
	},
		Backlogs: []Backlog{{"t", 9000, 1000}, {"", 9000, 1000}},
		Hours: []Hours{{"t", Hour{30, 60, 10}, Baseline{Failed: 1, Success: 0.99, Firsts: 1000}, []Group{{ep("slow"),
			grapnel.ReasonPermanent, 1, begin, begin, "failed: the endpoint answered 400"}}}, {"", Hour{30, 60, 10},
			Baseline{Failed: 1, Success: 0.99, Firsts: 1000}, nil}},
		Sources: []Source{{&grapnel.Source{ID: "src", Tenant: "t", Name: "stripe"}, ago(48 * time.Hour), 40}},
		Disk:    &Disk{5, 100}, Imbalance: &off,
		Burns:  []Burn{{"availability", "1 h and 5 min", 20, 30, 13.44, grapnel.SeverityPage}},
		Keys:   []grapnel.Key{{ID: "key_1", Name: "ops"}},
		Ending: []grapnel.Key{{ID: "key_2", Tenant: "t", ExpiresAt: begin.Add(24 * time.Hour)}, {ID: "key_3", ExpiresAt: begin.Add(-time.Hour)}},
		Own:    Own{"hooks.example", begin.Add(-time.Hour)}, Backups: &Backups{1, "no directory is at /backup", begin},
	}
	got := map[string]int{}
	for _, s := range f.Samples() {
		rule, known := RuleOf(s.Rule)
		if !known {
			t.Fatalf("no rule %s", s.Rule)
		}
		if !rule.bad(s.Value, rule.Threshold) {
			t.Errorf("%s does not fire at %g", s.Rule, s.Value)
		}
		if s.Subject.ID == "hand" {
			t.Error("an endpoint that a person disabled has an alert")
		}
		if s.Text == "" || strings.Contains(s.Text, "%!") || !strings.HasSuffix(s.Text, ".") && !strings.HasSuffix(s.Text, "?") {
			t.Errorf("%s says %q", s.Rule, s.Text)
		}
		if s.Tenant == "" && !rule.Operator || s.Tenant != "" && !rule.Tenants {
			t.Errorf("%s is not for %q", s.Rule, s.Tenant)
		}
		got[s.Rule]++
	}
	for _, r := range Rules() {
		want := 1
		if r.Tenants && r.Operator {
			want = 2
		}
		if got[r.Name] != want {
			t.Errorf("%s has %d samples, not %d", r.Name, got[r.Name], want)
		}
		if r.Title == "" || !strings.HasSuffix(r.About, ".") || rank(r.Severity) < 0 {
			t.Errorf("%+v is not complete", r)
		}
	}
}

// totals are 60 days of an hour each, in which 100 first attempts are made.
func totals(failed func(day, hour int) int64) (all []grapnel.Bucket) {
	for i := range 60 * 24 {
		n := failed(i/24, i%24)
		all = append(all, grapnel.Bucket{At: begin.Add(time.Duration(i-60*24) * time.Hour), Totals: grapnel.Totals{Failed: n,
			FirstAttempts: 100, FirstAttemptSuccess: 98 - n}})
	}
	return all
}

// TestBacktest finds the hours in which a rule would have fired in the last 28 days, and each
// outage once.
func TestBacktest(t *testing.T) {
	buckets := totals(func(day, hour int) int64 {
		switch {
		case day == 40 && hour < 5, day == 50 && hour == 3:
			return 60 // two outages
		case day == 10:
			return 90 // before the 28 days
		}
		return 1
	})
	from := begin.Add(-28 * 24 * time.Hour)
	for name, want := range map[string]int{DeadLetters: 2, FirstAttempts: 2} {
		rule, _ := RuleOf(name)
		fired := Backtest(rule, Settings{}.Of(rule, "t"), buckets, from, begin)
		if len(fired) != want || !fired[0].Equal(begin.Add(-20*24*time.Hour)) || !fired[1].Equal(begin.Add(-10*24*time.Hour+3*time.Hour)) {
			t.Errorf("%s would have fired at %v", name, fired)
		}
		if fired := Backtest(rule, InForce{Threshold: 99}, buckets, from, begin); len(fired) != 0 {
			t.Errorf("%s with a high threshold would have fired at %v", name, fired)
		}
	}
	// one hour of many dead letters in a tenant without history fires too
	rule, _ := RuleOf(DeadLetters)
	if fired := Backtest(rule, Settings{}.Of(rule, "t"), buckets[40*24:40*24+1], from, begin); len(fired) != 1 {
		t.Errorf("without history: %v", fired)
	}
}

// TestLastHour: at 20 minutes past, two thirds of the hour before count.
func TestLastHour(t *testing.T) {
	buckets := []grapnel.Bucket{{At: begin.Add(-time.Hour), Totals: grapnel.Totals{Failed: 30}}, {At: begin,
		Totals: grapnel.Totals{Failed: 5}}}
	if h := LastHour(buckets, begin.Add(20*time.Minute)); h.Failed < 24.99 || h.Failed > 25.01 {
		t.Errorf("%g dead letters", h.Failed)
	}
	if u := Usual(totals(func(int, int) int64 { return 3 }), begin); u.Failed != 3 || u.Success != 0.95 {
		t.Errorf("%+v", u)
	}
}

// TestTheNameOfAChannel: the alert about a channel without a description says which service it is.
func TestTheNameOfAChannel(t *testing.T) {
	for ep, want := range map[*grapnel.Endpoint]string{
		{ID: "chn_1", URL: "slack://…", Channel: &grapnel.Channel{}}:                         "slack://…",
		{ID: "chn_2", URL: "slack://…", Channel: &grapnel.Channel{}, Description: "on call"}: "on call",
		{ID: "ep_1", URL: "https://shop.example/hook"}:                                       "shop.example",
		{ID: "ep_2"}: "ep_2",
	} {
		if got := Name(ep); got != want {
			t.Errorf("%s is called %q, not %q", ep.ID, got, want)
		}
	}
}

// TestTheAlertOfADegradedEndpointOutlastsWorseStates: it neither begins nor ends while a worse state
// hides whether the endpoint is degraded, or before anything was counted.
func TestTheAlertOfADegradedEndpointOutlastsWorseStates(t *testing.T) {
	for _, c := range []struct {
		h              grapnel.Health
		status         grapnel.EndpointStatus
		hidden, sample bool
	}{
		{grapnel.Health{State: grapnel.HealthHealthy, FirstAttempts: 51, FirstFailed: 1}, grapnel.EndpointEnabled, false, false},
		{grapnel.Health{State: grapnel.HealthDegraded, FirstAttempts: 51, FirstFailed: 7}, grapnel.EndpointEnabled, false, true},
		{grapnel.Health{State: grapnel.HealthDegraded}, grapnel.EndpointEnabled, true, false},
		{grapnel.Health{State: grapnel.HealthFailing, FirstAttempts: 51, FirstFailed: 7}, grapnel.EndpointEnabled, true, false},
		{grapnel.Health{}, grapnel.EndpointEnabled, true, false},
		{grapnel.Health{State: grapnel.HealthPaused, FirstAttempts: 51, FirstFailed: 7}, grapnel.EndpointPaused, false, false},
	} {
		e := Endpoint{Endpoint: &grapnel.Endpoint{ID: "ep", Status: c.status}, Health: c.h}
		sample := slices.ContainsFunc(e.samples(begin), func(s Sample) bool { return s.Rule == EndpointDegraded })
		if e.Hidden() != c.hidden || sample != c.sample {
			t.Errorf("%+v: hidden %v, measured %v; want %v, %v", c.h, e.Hidden(), sample, c.hidden, c.sample)
		}
	}
}
