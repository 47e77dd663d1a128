package words

import (
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

var then = time.Date(2026, 11, 23, 9, 23, 34, 0, time.UTC)

// overview is one with endpoints that are healthy, and others, the worst first.
func overview(healthy int, bad ...wire.OverviewEndpoint) *wire.Overview {
	o := &wire.Overview{Attention: bad}
	o.Endpoints.All, o.Endpoints.Healthy = healthy+len(bad), healthy
	for i := range bad {
		*o.Endpoints.State(bad[i].Health.State)++
	}
	return o
}

func TestOverallVerdict(t *testing.T) {
	ago := func(d time.Duration) *time.Time { at := then.Add(-d); return &at }
	open := func(name string, held int) wire.OverviewEndpoint {
		probe, drain := then.Add(30*time.Second), policy.Duration(21*time.Second)
		return wire.OverviewEndpoint{Description: name, Health: wire.Health{State: grapnel.HealthOpen,
			FailingSince: ago(8 * time.Minute), Held: held, NextProbeAt: &probe, DrainEstimate: &drain}}
	}
	paused := wire.OverviewEndpoint{URL: "https://a.example/hooks/", Health: wire.Health{State: grapnel.HealthPaused, Since: ago(time.Hour)}}
	with := func(o *wire.Overview, day wire.Totals) *wire.Overview { o.Totals = day; return o }
	late := open("a", 0)
	late.Health.FailingSince = ago(time.Minute)
	refusing := func(o *wire.Overview) *wire.Overview {
		o.Refuses = "New events are refused because the storage is full."
		return o
	}
	many := overview(1, open("a", 2000), open("b", 10))
	many.Endpoints.All, many.Endpoints.Open = 70, 69
	for _, c := range []struct {
		name         string
		o            *wire.Overview
		answer, next string
	}{
		{"none", overview(0), "There is no endpoint yet.", ""},
		{"one well", overview(1), "The endpoint takes its deliveries.", "No delivery ended"},
		{"all well", with(overview(2), wire.Totals{Delivered: 10, FirstAttempts: 12, FirstAttemptSuccess: 9, Attempts: 15, FailedAttempts: 5}),
			"All 2 endpoints take their deliveries.", "and none failed. 75 % of 12 first attempts succeeded; 5 of 15 attempts failed."},
		{"well, with failures", with(overview(1), wire.Totals{Delivered: 10, Failed: 3}), "The endpoint takes its deliveries.", "10 delivered and 3 failed"},
		{"one open", overview(1, open("acme-prod", 412)),
			"acme-prod has failed for 8 min. 412 deliveries wait in order; nothing is lost.", "as a probe in 30 s; the others are held. Once it works, the held deliveries take about 21 s."},
		{"all dropped", with(overview(1), wire.Totals{Dropped: 4, Skipped: 1}), "The endpoint takes its deliveries.",
			"No delivery was delivered or failed in the last 24 h; 5 were dropped, discarded or skipped."},
		{"two open, one for longer", overview(0, open("b", 9), late), "b and a have failed for up to 8 min. 9 deliveries wait", "b: It gets"},
		{"two open, the longer one second", overview(0, late, open("b", 9)), "a and b have failed for up to 8 min. 9 deliveries wait", "a: It gets"},
		{"two open, the worse first", overview(0, open("b", 9), open("a", 1)), "b and a have failed for 8 min. 10 deliveries wait", "b: It gets"},
		{"four open", overview(0, open("a", 4), open("b", 3), open("c", 2), open("d", 1)), "a, b and 2 others have failed", ""},
		{"more than are listed", many, "a, b and 67 others have failed for 8 min. More than 2\u202f000 deliveries wait", ""},
		{"open and paused", overview(0, open("a", 1), paused), "a has failed for 8 min. 1 delivery waits in order", "1 other endpoint needs attention too."},
		{"a full disk", refusing(overview(1)), "Grapnel refuses new events right now. The endpoint takes its deliveries.",
			"New events are refused because the storage is full. No delivery ended in the last 24 h."},
		{"a full disk, and trouble", refusing(overview(0, open("a", 1))), "Grapnel refuses new events right now. a has failed for 8 min.", ""},
		{"only its own deliveries", overview(0, open("Old CRM", 56), wire.OverviewEndpoint{URL: "https://b.example",
			Health: wire.Health{State: grapnel.HealthFailing, Held: 126}}), "Old CRM has failed for 8 min. 56 deliveries wait in order",
			"1 other endpoint needs attention too; 126 more deliveries wait there."},
		{"degraded", overview(1, wire.OverviewEndpoint{Description: "Old CRM", Health: wire.Health{State: grapnel.HealthDegraded,
			Reason: "7 of 51 first attempts failed in the last hour", Since: ago(8 * time.Minute)}}), "Old CRM has been degraded for 8 min.",
			"7 of 51 first attempts failed in the last hour. Failed deliveries are tried again"},
		{"paused", overview(0, paused), "a.example/hooks has been paused for 1 h.", "until an operator resumes it"},
	} {
		v := Overall(then, c.o)
		if !strings.HasPrefix(v.Say(), c.answer) || !strings.Contains(v.Next, c.next) {
			t.Errorf("%s:\n%s\n%s\nwant\n%s\n%s", c.name, v.Say(), v.Next, c.answer, c.next)
		}
	}
}

// TestFirstAttemptsCountFromWhenTheyAreMade: also those of deliveries that are not finished; and
// there is no share of none.
func TestFirstAttemptsCountFromWhenTheyAreMade(t *testing.T) {
	outage := wire.Totals{Delivered: 6, FirstAttempts: 20, FirstAttemptSuccess: 6, Attempted: 6, Attempts: 50, FailedAttempts: 44}
	figures := Figures(&outage, "")
	if f := figures[1]; f.Value != "30" || f.Unit != "%" || f.Note != "of 20 first attempts" {
		t.Errorf("%+v", f)
	}
	if f := figures[0]; f.Note != "44 of 50 attempts failed" {
		t.Errorf("%+v", f)
	}
	if f := Figures(&wire.Totals{Dropped: 9}, "")[1]; f.Value != "–" || f.Unit != "" || f.Note != "" {
		t.Errorf("of none: %+v", f)
	}
}

func TestBacklogAndDeadLettersInWords(t *testing.T) {
	oldest := then.Add(-3 * time.Hour)
	o := &wire.Overview{OldestPending: &oldest,
		Pending:     wire.PendingStates{All: 1500, Ready: 2, Scheduled: 400, Held: 1000, Waiting: 98},
		DeadLetters: wire.DeadLetterCount{All: 12, Endpoints: 3}}
	for _, c := range []struct{ want, got string }{
		{"1\u202f500 deliveries are pending: 2 ready, 400 scheduled, 1\u202f000 held and 98 waiting in order. The oldest is 3 h old.",
			Backlog(then, o)},
		{"12 deliveries have failed for good at 3 endpoints.", DeadLetters(o)},
		{"Nothing is pending.", Backlog(then, &wire.Overview{})},
		{"1\u202f500 deliveries are pending, the oldest for 3 h.", Pending(then, o)},
		{"Nothing is pending.", Pending(then, &wire.Overview{})},
		{"1 delivery is pending.", Pending(then, &wire.Overview{Pending: wire.PendingStates{All: 1}})},
		{"It is due at 23 Nov, 14:45 UTC.", Sentence("it is due at 2026-11-23T14:45:29Z")},
		{"Überlastet bis morgen.", Sentence("überlastet bis morgen")},
		{"2026-13-45T14:45:29Z and x2026-11-23T14:45:29Z", Instants("2026-13-45T14:45:29Z and x2026-11-23T14:45:29Z")},
		{"There are no dead letters.", DeadLetters(&wire.Overview{})},
		{"3 healthy, 1 circuit open", States(&wire.EndpointStates{Healthy: 3, Open: 1})},
		{"No attempt is scheduled.", Ahead(then, &wire.Overview{}).Empty},
		{"Pending deliveries wait for their endpoint, not for a time.", Ahead(then, &wire.Overview{Pending: wire.PendingStates{All: 1}}).Empty},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	hour := policy.Duration(time.Hour)
	o.Ahead = []wire.Ahead{{Until: hour / 12, Attempts: 3}, {From: hour / 12, Until: hour, Attempts: 4},
		{From: 5 * hour, Until: 6 * hour, Attempts: 20}}
	o.AheadLater = 1
	w := Ahead(then, o)
	want := "27 attempts are scheduled in the next 24 h, most of them (20) in the hour from 14:23 UTC. 1 is later."
	if w.Says != want || w.Hours[0] != 7 || w.Hours[5] != 20 || len(w.Soon) != 2 {
		t.Errorf("%+v, want %q", w, want)
	}
	o.Ahead[2].Attempts = 13
	if w := Ahead(then, o); !strings.HasPrefix(w.Says, "20 attempts are scheduled in the next 24 h, most of them (13)") {
		t.Error(w.Says)
	}
	o.Ahead = append(o.Ahead, wire.Ahead{From: 7 * hour, Until: 8 * hour, Attempts: 6})
	if w := Ahead(then, o); !strings.HasPrefix(w.Says, "26 attempts are scheduled in the next 24 h, the most (13) in the hour from 14:23") {
		t.Error(w.Says)
	}
	o.Pending.More = true
	if w := Ahead(then, o); !strings.HasPrefix(w.Says, "At least 26 attempts") {
		t.Error(w.Says)
	}
}
