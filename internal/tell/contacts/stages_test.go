package contacts

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/policy"
)

var start0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// looked is a look at an endpoint that has failed since a time; zero: it works.
func looked(now, since time.Time, way int) *Look {
	l := &Look{Now: now, Endpoint: &grapnel.Endpoint{ID: "ep_1", Tenant: "acme", Status: grapnel.EndpointEnabled},
		Health: grapnel.Health{State: grapnel.HealthHealthy, FailingSince: since, Disabling: way, NextAttemptAt: now.Add(time.Minute)}}
	if !since.IsZero() {
		l.Health.State = grapnel.HealthFailing
	}
	return l
}

// TestStagesInOrder: failing, a day, soon disabled, disabled, recovered: each once, each in its turn.
func TestStagesInOrder(t *testing.T) {
	b := bounds.Fill(Bounds{})
	var trouble Trouble
	var told []Stage
	look := func(l *Look) {
		next, ended := trouble.Step(l, &b)
		if trouble = next; ended {
			trouble = Trouble{}
			return
		}
		if trouble.owes() {
			trouble.Told = trouble.Stage
			told = append(told, trouble.Told)
		}
		if trouble.Told == Recovered {
			trouble = Trouble{}
		}
	}
	now := start0
	for ; now.Before(start0.Add(5 * 24 * time.Hour)); now = now.Add(time.Minute) {
		look(looked(now, start0, int(100*now.Sub(start0)/(5*24*time.Hour))))
	}
	off := looked(now, start0, 100)
	off.Status, off.DisabledReason, off.DisabledAt, off.Good = grapnel.EndpointDisabled, "it failed for 5 days", now, 7
	look(off)
	look(off)
	for range 100 { // enabled by a person, and nothing is sent to it: nothing is known
		now = now.Add(time.Minute)
		l := looked(now, time.Time{}, 0)
		l.Good = 7
		look(l)
	}
	for range 100 {
		now = now.Add(time.Minute)
		l := looked(now, time.Time{}, 0)
		l.Good = 8
		look(l)
	}
	if want := []Stage{Failing, Day, Soon, Disabled, Recovered}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// TestNobodyIsToldOf: what a person does on purpose, what is short, and what is not known.
func TestNobodyIsToldOf(t *testing.T) {
	b := bounds.Fill(Bounds{})
	byHand := looked(start0.Add(time.Hour), start0, 0)
	byHand.Status, byHand.DisabledReason = grapnel.EndpointDisabled, "an operator disabled it: a test"
	paused := looked(start0.Add(time.Hour), start0, 0)
	paused.Status = grapnel.EndpointPaused
	unknown := looked(start0.Add(time.Hour), start0, 0)
	unknown.Health = grapnel.Health{}
	idle := looked(start0.Add(48*time.Hour), start0, 0) // one failed attempt two days ago, and nothing to send since
	idle.Health.NextAttemptAt, idle.Health.FailedAt = time.Time{}, start0.Add(time.Second)
	for name, l := range map[string]*Look{"disabled by hand": byHand, "paused": paused, "unknown": unknown, "idle": idle,
		"short": looked(start0.Add(b.First-time.Second), start0, 0), "well": looked(start0, time.Time{}, 0)} {
		if next, _ := (Trouble{}).Step(l, &b); next.Stage != "" {
			t.Errorf("%s: reached %q", name, next.Stage)
		}
		if next, _ := (Trouble{Stage: Failing, Told: Failing, Began: start0}).Step(l, &b); rank[next.Stage] > rank[Failing] {
			t.Errorf("%s: rose to %q", name, next.Stage)
		}
	}
}

// TestEachStageOnce: whatever happens to an endpoint, and whenever the state is written and read
// again, the messages of an episode rise, its end is told at most once and only after something was
// told, and no day has more messages than its budget.
func TestEachStageOnce(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		b := bounds.Tiny[Bounds](rapid.Uint64().Draw(t, "bounds"))
		b.PerDay = rapid.IntRange(1, 5).Draw(t, "messages a day")
		var trouble Trouble
		var budget Budget
		now, since, disabled, good := start0, time.Time{}, false, int64(0)
		perDay, last := map[string]int{}, Stage("")
		for range rapid.IntRange(1, 200).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 1000).Draw(t, "later")) * time.Millisecond * time.Duration(rapid.SampledFrom([]int{1, 1, 100_000}).Draw(t, "scale")))
			switch rapid.SampledFrom([]string{"", "", "fails", "works", "disabled", "enabled", "restart"}).Draw(t, "happens") {
			case "fails":
				if since.IsZero() && !disabled {
					since = now
				}
			case "works":
				if !disabled {
					since = time.Time{}
					good++
				}
			case "disabled":
				disabled = true
			case "enabled":
				if disabled {
					disabled, since = false, time.Time{}
				}
			case "restart":
				var again Trouble
				if err := json.Unmarshal(encode(trouble), &again); err != nil || again != trouble {
					t.Fatalf("%+v is stored as %+v: %v", trouble, again, err)
				}
			}
			l := looked(now, since, rapid.IntRange(0, 100).Draw(t, "way"))
			l.Good = good
			if disabled {
				l.Status, l.DisabledReason = grapnel.EndpointDisabled, "too many failures"
			}
			before := trouble
			next, ended := trouble.Step(l, &b)
			if trouble = next; ended {
				if before.Told != "" {
					t.Fatalf("an episode of which %q was told ended without a message", before.Told)
				}
				trouble = Trouble{}
				continue
			}
			if before.Told != "" && trouble.Told == "" {
				last = "" // another episode
			}
			if !trouble.owes() || !budget.take(now, b.PerDay) {
				continue
			}
			if trouble.Stage == Recovered && last == "" || rank[trouble.Stage] <= rank[last] {
				t.Fatalf("told %q after %q", trouble.Stage, last)
			}
			if perDay[budget.Day]++; perDay[budget.Day] > b.PerDay {
				t.Fatalf("%d messages on one day; at most %d", perDay[budget.Day], b.PerDay)
			}
			trouble.Told, last = trouble.Stage, trouble.Stage
			if last == Recovered {
				trouble, last = Trouble{}, ""
			}
		}
	})
}

// TestMessages: a message has the cause, the count, what waits, since when, and what its link is for;
// templates are filled once, and an unknown placeholder is refused.
func TestMessages(t *testing.T) {
	ep := &grapnel.Endpoint{ID: "ep_1", Tenant: "acme", URL: "https://me:s3cret@shop.example/hooks?token=s3cret"}
	f := &Facts{Class: policy.ClassStatus5xx, Status: 503, Failed: 42, Waiting: 17, Dead: 3, Unsent: 2}
	d := message(ep, &Trouble{Stage: Disabled, Began: start0}, f, &grapnel.Sender{})
	for _, want := range []string{"2 Jan 2026 03:04 UTC", "status 503", "42 attempts failed", "17 deliveries wait", "3 deliveries have failed for good",
		"2 messages were before this one not sent"} {
		if !strings.Contains(d.Text, want) {
			t.Errorf("%q is not in: %s", want, d.Text)
		}
	}
	if d.Title != "shop.example is disabled" || d.LinkName != "Replay missed deliveries" || strings.Contains(string(encode(d)), "s3cret") {
		t.Errorf("%s", encode(d))
	}
	if is := start(&d); is != "/replays/new?"+(url.Values{"q": {"endpoint:ep_1 status:failed"}}).Encode() {
		t.Errorf("the link opens %s", is)
	}
	ep.Description = "{text}\r\nBcc: all@example.com"
	d = message(ep, &Trouble{Stage: Failing, Began: start0}, &Facts{}, &grapnel.Sender{Subject: "Acme: {endpoint}", Text: "{stage} {waiting} {dead}"})
	if d.Title != "Acme: {text} Bcc: all@example.com" || d.Text != "failing 0 0" || start(&d) != "/endpoints/ep_1" {
		t.Errorf("%s", encode(d))
	}
	if CheckTemplate("{subject} {text} {since}") != nil || CheckTemplate("{link}") == nil || CheckTemplate("{{.X}}") == nil {
		t.Error("templates are not checked")
	}
	for stage := range rank {
		long := message(&grapnel.Endpoint{ID: "ep_1", Description: strings.Repeat("é", 999)}, &Trouble{Stage: stage, Began: start0}, f, &grapnel.Sender{})
		if long.Title == "" || len(long.Title) > mostTitle+3 || len(long.Text) > mostText+3 {
			t.Errorf("%s: %d and %d bytes", stage, len(long.Title), len(long.Text))
		}
	}
}
