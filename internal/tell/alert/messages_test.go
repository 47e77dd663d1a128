package alert

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// firing is a change that fires an alert.
func firing(n int, severity string, at time.Time) Change {
	k := Key{EndpointFailing, "t", "endpoint", fmt.Sprint("ep_", n), ""}
	return Change{Transition: Fire, Alert: &Alert{ID: NewID(k, at), Rule: k.Rule, Tenant: "t", Severity: severity,
		Subject: Subject{Kind: k.Kind, ID: k.ID}, State: Firing, Title: fmt.Sprint("alert ", n), Since: at}}
}

// stored is what a restart leaves of boxes.
func stored(t *testing.T, b *Boxes) Boxes {
	t.Helper()
	is, err := DecodeBoxes(b.Encode())
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// TestEveryTransitionHasOneMessage: whatever is held, for each recipient the messages carry each
// transition exactly once, and the ids that alerts remember are those of the messages.
func TestEveryTransitionHasOneMessage(t *testing.T) {
	bounds := bounds.Fill(Bounds{})
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		var boxes Boxes
		want, got := map[string]int{}, map[string]int{}
		said, sent := map[string]bool{}, map[string]bool{}
		all := map[string]Recipient{"a": {ID: "a"}, "b": {ID: "b", Gather: 5 * time.Minute}, "c": {ID: "c"}}
		now, n := begin, 0
		round := func(changes []Change) {
			boxes = stored(t, &boxes)
			wants := func(c *Change) []string {
				if c.Alert.Severity == grapnel.SeverityInfo {
					return []string{"a", "b"}
				}
				return []string{"a", "b", "c"}
			}
			for i := range changes {
				for _, id := range wants(&changes[i]) {
					want[id]++
				}
			}
			for _, m := range boxes.Post(now, bounds, "t", changes, all, wants) {
				if sent[m.Event] {
					t.Fatalf("seed %d: two messages have the id %s", seed, m.Event)
				}
				sent[m.Event] = true
				for _, to := range m.To {
					got[to] += m.Data.Count
				}
			}
			for i := range changes {
				for _, s := range changes[i].Alert.Messages {
					said[s.Event] = true
				}
			}
		}
		for range 100 {
			now = now.Add(10 * time.Second)
			quiet := all["c"]
			quiet.Quiet = time.Time{}
			if now.Minute()%10 < 5 {
				quiet.Quiet = now.Truncate(10 * time.Minute).Add(5 * time.Minute)
			}
			all["c"] = quiet
			var changes []Change
			for range []int{0, 0, 0, 1, 2, 20}[r.IntN(6)] {
				n++
				changes = append(changes, firing(n, []string{grapnel.SeverityPage, grapnel.SeverityWarning,
					grapnel.SeverityInfo}[r.IntN(3)], now))
			}
			round(changes)
		}
		for range 60 {
			now = now.Add(10 * time.Minute)
			all["c"] = Recipient{ID: "c"}
			round(nil)
		}
		for id := range all {
			if want[id] != got[id] {
				t.Errorf("seed %d: %s was to be told of %d transitions and was told of %d", seed, id, want[id], got[id])
			}
		}
		if len(said) != len(sent) {
			t.Errorf("seed %d: alerts name %d messages, and %d were sent", seed, len(said), len(sent))
		}
		for id := range said {
			if !sent[id] {
				t.Errorf("seed %d: no message has the id %s", seed, id)
			}
		}
		if len(boxes.Recipients) != 0 {
			t.Errorf("seed %d: boxes stay: %+v", seed, boxes)
		}
	}
}

// TestADigestOfAClockAhead: a digest that was begun while the clock was ahead is sent once the
// clock is right, not when the wrong time comes.
func TestADigestOfAClockAhead(t *testing.T) {
	bounds, ahead := bounds.Fill(Bounds{}), begin.AddDate(1, 0, 0)
	all := map[string]Recipient{"a": {ID: "a", Gather: 5 * time.Minute}}
	wants := func(*Change) []string { return []string{"a"} }
	var boxes Boxes
	if got := boxes.Post(ahead, bounds, "t", []Change{firing(1, grapnel.SeverityWarning, ahead)}, all, wants); len(got) != 0 {
		t.Fatalf("at once: %+v", got)
	}
	boxes = stored(t, &boxes)
	if !boxes.Due(begin) {
		t.Error("no digest is due")
	}
	if got := boxes.Post(begin, bounds, "t", nil, all, wants); len(got) != 1 || got[0].Data.Count != 1 {
		t.Errorf("once the clock is right: %+v", got)
	}
}

// TestStorm: a thousand alerts at once are one digest for each channel, and what follows within the
// window another.
func TestStorm(t *testing.T) {
	b := bounds.Fill(Bounds{})
	all := map[string]Recipient{"a": {ID: "a"}, "b": {ID: "b"}}
	wants := func(*Change) []string { return []string{"a", "b"} }
	var boxes Boxes
	var total []Message
	now := begin
	for _, n := range []int{2, 1000, 300, 2, 0, 0, 0, 0, 0, 0, 0, 0} {
		var changes []Change
		for i := range n {
			changes = append(changes, firing(len(total)*10_000+i, grapnel.SeverityWarning, now))
		}
		total = append(total, boxes.Post(now, b, "t", changes, all, wants)...)
		now = now.Add(10 * time.Second)
	}
	counts := map[string][]int{}
	for _, m := range total {
		for _, to := range m.To {
			counts[to] = append(counts[to], m.Data.Count)
		}
		if m.Data.Count == 1000 && (m.Type != grapnel.EventAlertDigest || len(m.Data.Alerts) != b.Titles ||
			m.Data.Title != "1\u202f000 alerts fired") {
			t.Errorf("%+v", m)
		}
	}
	for _, id := range []string{"a", "b"} {
		if fmt.Sprint(counts[id]) != "[1 1 1000 302]" {
			t.Errorf("%s got messages about %v alerts", id, counts[id])
		}
	}
}

// TestQuietHours: below a page nothing is sent until they end; then one digest has it all.
func TestQuietHours(t *testing.T) {
	b := bounds.Fill(Bounds{})
	end := begin.Add(time.Hour)
	all := map[string]Recipient{"a": {ID: "a", Quiet: end}}
	wants := func(*Change) []string { return []string{"a"} }
	var boxes Boxes
	page := firing(1, grapnel.SeverityPage, begin)
	sent := boxes.Post(begin, b, "t", []Change{page, firing(2, grapnel.SeverityWarning, begin), firing(3, grapnel.SeverityInfo, begin)},
		all, wants)
	if len(sent) != 1 || sent[0].Data.Severity != grapnel.SeverityPage || sent[0].Type != grapnel.EventAlertFired {
		t.Fatalf("in quiet hours: %+v", sent)
	}
	resolved := *page.Alert
	resolved.State, resolved.ResolvedAt, resolved.Severity = Resolved, begin.Add(time.Minute), grapnel.SeverityWarning
	if sent := boxes.Post(begin.Add(time.Minute), b, "t", []Change{{Alert: &resolved, Transition: Resolve}}, all, wants); len(sent) != 0 {
		t.Fatalf("in quiet hours: %+v", sent)
	}
	boxes = stored(t, &boxes)
	if !boxes.Due(end) || boxes.Due(end.Add(-time.Second)) {
		t.Error("the digest is not due at the end")
	}
	sent = boxes.Post(end, b, "t", nil, map[string]Recipient{"a": {ID: "a"}}, wants)
	if len(sent) != 1 || sent[0].Data.Count != 3 || sent[0].Data.Title != "2 alerts fired, 1 alert was resolved" ||
		sent[0].Data.Text != "alert 2\nalert 3\nResolved: alert 1" || sent[0].Data.Severity != grapnel.SeverityWarning {
		t.Errorf("after them: %+v", sent)
	}
}

func TestQuietUntil(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	night, noon := &grapnel.QuietHours{From: "22:00", To: "07:00"}, &grapnel.QuietHours{From: "12:00", To: "13:30"}
	for _, c := range []struct {
		hours *grapnel.QuietHours
		at    string
		want  string // empty: not quiet
	}{
		{night, "2026-11-23 21:59", ""}, {night, "2026-11-23 22:00", "2026-11-24 07:00"}, {night, "2026-11-24 00:30", "2026-11-24 07:00"},
		{night, "2026-11-24 07:00", ""}, {noon, "2026-11-24 12:30", "2026-11-24 13:30"}, {noon, "2026-11-24 13:30", ""},
		{night, "2026-10-25 02:30", "2026-10-25 07:00"}, // the clocks are set back
		{nil, "2026-11-24 00:30", ""}, {&grapnel.QuietHours{From: "x", To: "07:00"}, "2026-11-24 00:30", ""},
		{&grapnel.QuietHours{From: "07:00", To: "07:00"}, "2026-11-24 00:30", ""},
	} {
		at, err := time.ParseInLocation("2006-01-02 15:04", c.at, berlin)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if end := QuietUntil(c.hours, berlin, at); !end.IsZero() {
			got = end.Format("2006-01-02 15:04")
		}
		if got != c.want {
			t.Errorf("%v at %s: %q, not %q", c.hours, c.at, got, c.want)
		}
	}
}

// TestTheEndOfAnOccurrenceClosesItsIncident: people are not told of it, but a service that has an
// incident for each alert is, or the incident would stay open.
func TestTheEndOfAnOccurrenceClosesItsIncident(t *testing.T) {
	over := firing(1, grapnel.SeverityWarning, begin)
	over.Transition, over.Silent = Resolve, true
	over.Alert.State, over.Alert.ResolvedAt = Resolved, begin.Add(time.Hour)
	var boxes Boxes
	all := map[string]Recipient{"chat": {ID: "chat"}, "incidents": {ID: "incidents", Closes: true}}
	sent := boxes.Post(begin.Add(time.Hour), bounds.Fill(Bounds{}), "t", []Change{over}, all, func(*Change) []string { return []string{"chat", "incidents"} })
	if len(sent) != 1 || sent[0].Type != grapnel.EventAlertResolved || !slices.Equal(sent[0].To, []string{"incidents"}) {
		t.Errorf("sent is %+v", sent)
	}
}

// TestTheIncidentOfADigestIsClosed: a service that has incidents gets one for a storm, which is
// closed with the last of its alerts, and none for alerts that all end while the digest is held.
func TestTheIncidentOfADigestIsClosed(t *testing.T) {
	b, now := bounds.Fill(Bounds{}), begin
	r := Recipient{ID: "incidents", Closes: true}
	var boxes Boxes
	post := func(changes ...Change) (sent []Message) {
		t.Helper()
		boxes = stored(t, &boxes)
		sent = boxes.Post(now, b, "t", changes, map[string]Recipient{r.ID: r}, func(*Change) []string { return []string{r.ID} })
		now = now.Add(time.Hour)
		return sent
	}
	ends := func(c Change) Change {
		c.Transition, c.Alert.State, c.Alert.ResolvedAt = Resolve, Resolved, now
		return c
	}
	var storm []Change
	for n := range b.Burst + 1 {
		storm = append(storm, firing(n, grapnel.SeverityWarning, now))
	}
	opened := post(storm...)
	if len(opened) != 1 || opened[0].Data.State != string(Firing) {
		t.Fatalf("of a storm: %+v", opened)
	}
	again := storm[0]
	again.Transition = Repeat
	post(again)
	for n, c := range storm {
		sent := post(ends(c))
		if last := n == b.Burst; len(sent) != 1+map[bool]int{true: 1}[last] {
			t.Errorf("after %d of %d have ended: %+v", n+1, len(storm), sent)
		} else if end := sent[0]; last && (end.Type != grapnel.EventAlertResolved || end.Data.AlertID != opened[0].Event ||
			end.Data.State != string(Resolved) || end.Data.Rule != "digest" || end.Event == opened[0].Event) {
			t.Errorf("the incident %s is closed by %+v", opened[0].Event, end)
		}
	}

	r.Quiet = now.Add(3 * time.Hour)
	held := firing(99, grapnel.SeverityWarning, now)
	if sent := post(held); len(sent) != 0 {
		t.Errorf("in quiet hours: %+v", sent)
	}
	if sent := post(ends(held)); len(sent) != 1 || sent[0].Data.AlertID != held.Alert.ID {
		t.Errorf("at its end: %+v", sent)
	}
	r.Quiet, now = time.Time{}, r.Quiet
	if sent := post(); len(sent) != 0 {
		t.Errorf("after quiet hours: %+v", sent)
	}
	if post(); len(boxes.Recipients) != 0 {
		t.Errorf("boxes stay: %+v", boxes.Recipients[r.ID])
	}
}

// TestADigestThatWasNotCounted: a digest that was begun for a service without incidents is sent
// although the alerts that were counted since have all ended.
func TestADigestThatWasNotCounted(t *testing.T) {
	b, r := bounds.Fill(Bounds{}), Recipient{ID: "a", Gather: time.Hour}
	var boxes Boxes
	post := func(now time.Time, changes ...Change) []Message {
		return boxes.Post(now, b, "t", changes, map[string]Recipient{"a": r}, func(*Change) []string { return []string{"a"} })
	}
	late := firing(2, grapnel.SeverityWarning, begin)
	post(begin, firing(1, grapnel.SeverityWarning, begin))
	r.Closes = true
	post(begin.Add(time.Minute), late)
	late.Transition = Resolve
	post(begin.Add(2*time.Minute), late)
	if sent := post(begin.Add(time.Hour)); len(sent) != 1 || sent[0].Data.Count != 2 || sent[0].Data.State != string(Firing) {
		t.Errorf("sent is %+v", sent)
	}
}

// TestTheWordsOfAMessage: how long an alert lasts is not said if the clock was set back meanwhile.
func TestTheWordsOfAMessage(t *testing.T) {
	for _, c := range []struct {
		after      time.Duration
		how        Transition
		want, past string
	}{
		{5 * time.Minute, Resolve, "It lasted 5 min.", "It has ended."},
		{5 * time.Hour, Repeat, "For 5 h, and no person has acknowledged it. At first: so", "No person has acknowledged it. At first: so"},
	} {
		for after, want := range map[time.Duration]string{c.after: c.want, c.after - 24*time.Hour: c.past} {
			is := firing(1, grapnel.SeverityPage, begin)
			now := begin.Add(after)
			is.Transition, is.Alert.Text, is.Alert.ResolvedAt = c.how, "so", now
			if m := is.Alone(now); m.Data.Text != want {
				t.Errorf("%s after %s: %q, want %q", c.how, after, m.Data.Text, want)
			}
		}
	}
}

// TestEveryRuleIsDocumented: the page for people has a row for each rule, with its severity and
// whom it concerns.
func TestEveryRuleIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/trouble.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Rules() {
		concerns := map[bool]string{true: "tenants"}[r.Tenants]
		if r.Operator {
			concerns = strings.TrimPrefix(concerns+", operator", ", ")
		}
		row := "(?m)^\\| `" + r.Name + "` \\| .* \\| " + r.Severity + " \\| " + concerns + " \\|$"
		if !regexp.MustCompile(row).Match(page) {
			t.Errorf("docs/trouble.md has no row of %s, %s, %s", r.Name, r.Severity, concerns)
		}
	}
}
