package api

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// lived makes a history of two tenants, four endpoints and three types over several hours.
func (w *world) lived() (duplicates []grapnel.Event) {
	w.t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	for range 2 {
		w.endpoint(admin, "")
		w.endpoint(acmeAdmin, "")
	}
	var pending []int64
	for i := range 40 {
		w.clock = w.clock.Add(time.Duration(random.IntN(1500)) * time.Second)
		tenant, key := "default", admin
		if random.IntN(3) == 0 {
			tenant, key = "acme", acmeAdmin
		}
		eventType := []string{"paid", "line.added", "user"}[random.IntN(3)]
		body := fmt.Sprintf(`{"id":"e%d","type":"%s","data":1}`, i, eventType)
		w.as(key, 202, "POST", "/v1/events", body)
		if random.IntN(4) == 0 {
			w.as(key, 200, "POST", "/v1/events", body)
			duplicates = append(duplicates, grapnel.Event{Tenant: tenant, Type: eventType, AcceptedAt: w.clock})
		}
		_, made, err := w.engine.Event(w.t.Context(), store.Everyone(), tenant, fmt.Sprint("e", i))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range made {
			pending = append(pending, d.Seq)
		}
		pending = slices.DeleteFunc(pending, func(number int64) bool { return w.tryOnce(random, number) })
	}
	return duplicates
}

// tryOnce records an attempt that ends now, and says whether the delivery is finished.
func (w *world) tryOnce(random *rand.Rand, number int64) bool {
	d, err := w.engine.Delivery(w.t.Context(), store.Everyone(), number)
	if err != nil {
		w.t.Fatal(err)
	}
	took := time.Duration(1+random.IntN(3000)) * time.Millisecond
	c := store.Change{Delivery: number, Expect: d.AttemptsMade, At: w.clock, Status: grapnel.Pending, Due: w.clock,
		Trigger: grapnel.TriggerSchedule,
		Attempt: &grapnel.Attempt{Number: d.AttemptsMade + 1, StartedAt: w.clock.Add(-took), Duration: took, Class: policy.ClassTimeout,
			Decision: policy.Retry}}
	switch random.IntN(6) {
	case 0, 1:
		c.Status, c.Attempt.Class, c.Attempt.StatusCode, c.Attempt.Decision = grapnel.Delivered, policy.ClassNone, 200, policy.Deliver
	case 2:
		c.Status, c.ReasonCode, c.Attempt.Class, c.Attempt.StatusCode, c.Attempt.Decision = grapnel.Failed, grapnel.ReasonPermanent,
			policy.ClassStatus4xx, 400, policy.Fail
	case 3:
		c.Attempt.Class, c.Attempt.StatusCode = policy.ClassStatus5xx, 503
	case 4:
		if random.IntN(3) == 0 {
			c.Attempt, c.Status = nil, grapnel.Dropped
		}
	}
	if _, err := w.engine.Record(w.t.Context(), []store.Change{c}); err != nil {
		w.t.Fatal(err)
	}
	return c.Status.Final()
}

// Every figure of every grouping is what the rows of deliveries and attempts say.
func TestFiguresAreThoseOfTheRows(t *testing.T) {
	w := newWorld(t)
	begin := w.clock
	duplicates := w.lived()
	list, err := w.engine.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		d, err := w.engine.Delivery(t.Context(), store.Everyone(), list[i].Seq)
		if err != nil {
			t.Fatal(err)
		}
		list[i] = *d
	}
	at := func(width time.Duration) func(time.Time) string {
		return func(when time.Time) string { return when.Truncate(width).Format(time.RFC3339) }
	}
	for by, group := range map[string]func(d *grapnel.Delivery, when time.Time) string{
		"type":     func(d *grapnel.Delivery, _ time.Time) string { return d.Type },
		"endpoint": func(d *grapnel.Delivery, _ time.Time) string { return d.EndpointID },
		"tenant":   func(d *grapnel.Delivery, _ time.Time) string { return d.Tenant },
		"hour":     func(_ *grapnel.Delivery, when time.Time) string { return at(time.Hour)(when) },
		"day":      func(_ *grapnel.Delivery, when time.Time) string { return at(24 * time.Hour)(when) },
	} {
		r := recount{groups: map[string]*counted{}, group: group}
		for i := range list {
			r.delivery(&list[i])
		}
		for i := range duplicates {
			e := &duplicates[i]
			if by != "endpoint" {
				r.of(&grapnel.Delivery{Type: e.Type, Tenant: e.Tenant}, e.AcceptedAt).duplicates++
			}
		}
		answer := w.ask(admin, "GET", "/v1/stats?by="+by+"&from="+begin.Format(time.RFC3339), "")
		var stats wire.Stats
		if err := json.Unmarshal(answer.body, &stats); err != nil || answer.StatusCode != 200 {
			t.Fatalf("by %s: %d %s %v", by, answer.StatusCode, answer.body, err)
		}
		got := map[string]wire.Figures{}
		for _, g := range stats.Groups {
			got[g.Name] = g.Figures
		}
		want := map[string]wire.Figures{}
		for name, c := range r.groups {
			want[name] = c.figures()
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("by %s (-want +got):\n%s", by, d)
		}
		if len(stats.Groups) < map[string]int{"type": 3, "endpoint": 4, "tenant": 2, "hour": 5, "day": 1}[by] {
			t.Errorf("by %s: only %d groups", by, len(stats.Groups))
		}
		all := recount{groups: map[string]*counted{}, group: func(*grapnel.Delivery, time.Time) string { return "" }}
		for i := range list {
			all.delivery(&list[i])
		}
		if by != "endpoint" {
			all.of(nil, begin).duplicates = int64(len(duplicates))
		}
		if d := cmp.Diff(all.groups[""].figures(), *stats.All); d != "" {
			t.Errorf("all, by %s (-want +got):\n%s", by, d)
		}
		w.reasons(all.groups[""], begin)
	}
}

// reasons compares the answer by reason.
func (w *world) reasons(all *counted, from time.Time) {
	w.t.Helper()
	var stats wire.Stats
	if err := json.Unmarshal(w.ask(admin, "GET", "/v1/stats?by=reason&from="+from.Format(time.RFC3339), "").body, &stats); err != nil {
		w.t.Fatal(err)
	}
	errors, retries, ends := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, r := range stats.Reasons {
		if r.Of == "deliveries" {
			ends[r.Name] = r.Count
			continue
		}
		errors[r.Name] = r.Count
		if r.Retried > 0 {
			retries[r.Name] = r.Retried
		}
	}
	want := all.figures()
	if d := cmp.Diff([]map[string]int64{want.Errors, want.RetryReasons, want.EndReasons}, []map[string]int64{errors, retries, ends}); d != "" {
		w.t.Errorf("by reason (-want +got):\n%s", d)
	}
}

// recount counts from rows, by group.
type recount struct {
	groups map[string]*counted
	group  func(d *grapnel.Delivery, when time.Time) string
}

type counted struct {
	wire.Figures
	attempts         []int // of each finished delivery
	spent, attempted int64
	success, latency []time.Duration
	duplicates       int64
}

func (r *recount) of(d *grapnel.Delivery, when time.Time) *counted {
	name := r.group(d, when)
	if r.groups[name] == nil {
		c := &counted{}
		c.Errors, c.RetryReasons, c.EndReasons = map[string]int64{}, map[string]int64{}, map[string]int64{}
		r.groups[name] = c
	}
	return r.groups[name]
}

func (r *recount) delivery(d *grapnel.Delivery) {
	for _, a := range d.Attempts {
		c := r.of(d, a.StartedAt.Add(a.Duration))
		if c.Attempts++; a.Number == 1 {
			c.FirstAttempts++
		}
		if a.Class != policy.ClassNone {
			c.FailedAttempts++
			c.Errors[string(a.Class)]++
		}
		if a.Decision == policy.Retry {
			c.TriedAgain++
			c.RetryReasons[string(a.Class)]++
		}
		if a.StatusCode > 0 {
			c.latency = append(c.latency, a.Duration)
		}
	}
	if !d.Status.Final() {
		return
	}
	c, n := r.of(d, d.FinishedAt), len(d.Attempts)
	*map[grapnel.Status]*int64{grapnel.Delivered: &c.Delivered, grapnel.Failed: &c.Failed, grapnel.Dropped: &c.Dropped}[d.Status]++
	c.attempts = append(c.attempts, n)
	if d.ReasonCode != "" {
		c.EndReasons[string(d.ReasonCode)]++
	}
	if n > 0 {
		c.attempted++
		c.spent += int64(n)
	}
	if n > 1 {
		c.Retried++
	}
	if d.Status == grapnel.Delivered {
		c.success = append(c.success, d.FinishedAt.Sub(d.CreatedAt))
		if n == 1 {
			c.FirstAttemptSuccess++
		}
	}
}

func (c *counted) figures() wire.Figures {
	f := c.Figures
	f.Duplicates, f.Attempted = c.duplicates, c.attempted
	f.Latency, f.TimeToSuccess = percentiles(c.latency, 100*time.Microsecond), percentiles(c.success, time.Millisecond)
	if c.attempted > 0 {
		again, mean := float64(c.Retried)/float64(c.attempted), float64(c.spent)/float64(c.attempted)
		f.RetryRate, f.AttemptsPerDelivery = &again, &mean
	}
	if c.FirstAttempts > 0 {
		first := float64(c.FirstAttemptSuccess) / float64(c.FirstAttempts)
		f.FirstAttemptSuccessRate = &first
	}
	f.AttemptCounts = []wire.AttemptCount{}
	slices.Sort(c.attempts)
	for _, n := range slices.Compact(slices.Clone(c.attempts)) {
		all := len(slices.DeleteFunc(slices.Clone(c.attempts), func(other int) bool { return other != n }))
		f.AttemptCounts = append(f.AttemptCounts, wire.AttemptCount{Attempts: n, Deliveries: int64(all)})
	}
	return f
}

// percentiles finds the durations by their rank, and the ends of their buckets.
func percentiles(all []time.Duration, first time.Duration) (l wire.Latency) {
	if len(all) == 0 {
		return l
	}
	slices.Sort(all)
	for part, into := range map[float64]**policy.Duration{.5: &l.P50, .95: &l.P95, .99: &l.P99} {
		exact, end := all[int(math.Ceil(part*float64(len(all))))-1], float64(first)
		for i := 1; end < float64(exact); i++ {
			end = float64(first) * math.Exp2(float64(i)/4)
		}
		d := policy.Duration(time.Duration(end).Round(time.Microsecond))
		*into = &d
	}
	return l
}

// A pass for one endpoint of a tenant gets figures of that one, and none by type.
func TestFiguresOfALimitedPass(t *testing.T) {
	w := newWorld(t)
	mine := w.settle(acmeAdmin, "mine")
	w.settle(acmeAdmin, "sibling")
	me := w.pass(portalScopes, mine.endpoint)
	for by, want := range map[string]string{"endpoint": mine.endpoint, "tenant": "acme"} {
		got := w.as(me, 200, "GET", "/v1/stats?by="+by, "")
		own := w.as(acmeAdmin, 200, "GET", "/v1/stats?by=endpoint&endpoint="+mine.endpoint, "")
		groups := got["groups"].([]any)
		if len(groups) != 1 || groups[0].(map[string]any)["name"] != want {
			t.Errorf("by %s: answered %v", by, got)
		}
		if d := cmp.Diff(own["all"], got["all"]); d != "" {
			t.Errorf("by %s: %s", by, d)
		}
	}
	for _, query := range []string{"by=type", "by=tenant&type=mine.made", "by=hour&type=mine.made", "by=reason&type=mine.made"} {
		if r := w.ask(me, "GET", "/v1/stats?"+query, ""); r.StatusCode != 403 {
			t.Errorf("%s: answered %d %s", query, r.StatusCode, r.body)
		}
	}
	if got := w.as(acmeAdmin, 200, "GET", "/v1/stats?by=day&endpoint=ep_none", ""); got["groups"] != nil {
		t.Errorf("of no endpoint: answered %v", got)
	}
	w.as(w.pass(portalScopes), 200, "GET", "/v1/stats?by=type", "")
}

// Groups beyond the limit are added up.
func TestGroupsBeyondTheLimit(t *testing.T) {
	w := newWorld(t)
	w.lived()
	all := w.must(200, "GET", "/v1/stats?by=type&from=2026-01-02T00:00:00Z", "")
	two := w.must(200, "GET", "/v1/stats?by=type&groups=1&from=2026-01-02T00:00:00Z", "")
	groups := two["groups"].([]any)
	if len(groups) != 2 || groups[1].(map[string]any)["other"] != true || groups[1].(map[string]any)["name"] != "" {
		t.Fatalf("answered %v", groups)
	}
	if d := cmp.Diff(all["groups"].([]any)[0], groups[0]); d != "" {
		t.Errorf("the busiest: %s", d)
	}
	if d := cmp.Diff(all["all"], two["all"]); d != "" {
		t.Errorf("all: %s", d)
	}
}
