package issue

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/insight"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Group is what the issue's failures have in common.
func (i *Issue) Group() Group {
	return Group{Tenant: i.Tenant, Endpoint: i.Endpoint, Class: i.Class, Status: i.Status, Answer: i.Answer}
}

func someDelta(t *rapid.T, name string) *Delta {
	d := new(Delta)
	for range rapid.IntRange(1, 30).Draw(t, name) {
		n := rapid.IntRange(0, 400).Draw(t, "delivery")
		d.add(&Failure{At: start.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "hours")) * 17 * time.Minute),
			Delivery: fmt.Sprint("dlv_", n), Key: []string{"", "a", "b"}[n%3], Created: start.Add(-time.Duration(n) * time.Second), Again: n == 7})
	}
	return d
}

func merged(all ...*Delta) *Delta {
	sum := new(Delta)
	for _, d := range all {
		sum.Merge(d.clone())
	}
	return sum
}

// Merging deltas is commutative and associative, and a merge is the same as counting the failures
// one by one, so the order of nodes and flushes does not matter.
func TestMergeHasNoOrder(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		a, b, c := someDelta(t, "a"), someDelta(t, "b"), someDelta(t, "c")
		want := merged(a, b, c)
		for what, got := range map[string]*Delta{"c b a": merged(c, b, a), "b a c": merged(b, a, c), "a (b c)": merged(a, merged(b, c)),
			"(a b) c": merged(merged(a, b), c)} {
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s:\n%+v\n%+v", what, got, want)
			}
		}
		body, err := json.Marshal(want)
		var back Delta
		if err == nil {
			err = json.Unmarshal(body, &back)
		}
		if again, _ := json.Marshal(&back); err != nil || string(again) != string(body) {
			t.Fatalf("%v\n%s\n%s", err, body, again)
		}
	})
}

// A count is exact up to its limit and near the truth above, also if all were added several times.
func TestCountsOfManyAreEstimates(t *testing.T) {
	for _, n := range []int{0, 1, exact - 1, 1000, 20000} {
		var s sketch
		for i := range 2 * n {
			s.add(fmt.Sprint("dlv_", i%max(n, 1)))
		}
		got, approximate := s.count()
		if approximate != (n >= exact) || !approximate && got != n || approximate && (got < n*7/10 || got > n*13/10) {
			t.Errorf("%d counted as %d, approximate %v", n, got, approximate)
		}
		if len(s) > exact {
			t.Errorf("%d hashes", len(s))
		}
	}
}

func TestIDsFollowFromTheGroup(t *testing.T) {
	g := group(503, "busy")
	after, before := Range(g.Tenant, g.Endpoint)
	ids := map[string]bool{}
	for _, x := range []Group{g, group(502, "busy"), group(503, ""), g.Other(), group(50, "3busy")} {
		id := x.ID()
		if ids[id] = true; x.ID() != id || !IsID(id) || id <= after || id >= before {
			t.Errorf("id %s is not between %s and %s", id, after, before)
		}
	}
	for _, x := range []Group{{Tenant: "bolt", Endpoint: "ep_1", Class: g.Class, Status: 503, Answer: "busy"},
		{Tenant: "acme", Endpoint: "ep_2", Class: g.Class, Status: 503, Answer: "busy"}} {
		if ids[x.ID()] = true; x.ID() > after && x.ID() < before {
			t.Errorf("id %s of another endpoint is between %s and %s", x.ID(), after, before)
		}
	}
	if len(ids) != 7 {
		t.Errorf("%d ids of 7 groups", len(ids))
	}
}

// What the failures of an issue have in common is the same after it was stored, also of an answer
// that is cut within a character.
func TestAGroupIsStoredAsItIs(t *testing.T) {
	for _, answer := range []string{strings.Repeat("ü", AnswerBytes), "x" + strings.Repeat("ü", AnswerBytes), "no \xff text"} {
		g := group(500, insight.Fingerprint([]byte(answer), AnswerBytes))
		body, err := New(g).Encode()
		if err != nil {
			t.Fatal(err)
		}
		if i, err := Decode(body, 1); err != nil || i.Group() != g {
			t.Errorf("%q becomes %q %v", g.Answer, i.Answer, err)
		}
	}
}

// The life of an issue: it opens, is acknowledged, is resolved after enough successes, opens again,
// and then needs twice as many.
func TestLifeOfAnIssue(t *testing.T) {
	w := newWorld(t)
	n, g := w.node(Bounds{}), group(503, "busy")
	w.fails(n, g)
	w.fails(n, g)
	n.flush()
	if i := w.issue(g); i.State != Open || i.Delta.Count != 2 || len(i.Examples) != 2 || i.Examples[0].Delivery != "dlv_0002" {
		t.Fatalf("%+v", i)
	}
	w.set(g, Acknowledged)
	w.fails(n, g)
	n.flush()
	if i := w.issue(g); i.State != Acknowledged || i.Delta.Count != 3 {
		t.Fatalf("a failure changed the state: %+v", i)
	}
	w.goes(n, g.Endpoint, 19)
	n.flush()
	w.goes(n, "ep_2", 30)
	n.flush()
	if i := w.issue(g); i.State != Acknowledged {
		t.Fatalf("resolved after 19 successes: %+v", i)
	}
	w.fails(n, g) // begins the count anew
	w.goes(n, g.Endpoint, 19)
	n.flush()
	if i := w.issue(g); i.State != Acknowledged {
		t.Fatalf("resolved although it failed: %+v", i)
	}
	w.failing = true
	w.goes(n, g.Endpoint, 1)
	n.flush()
	if i := w.issue(g); i.State != Acknowledged {
		t.Fatalf("resolved while a delivery is being retried: %+v", i)
	}
	w.failing = false
	w.goes(n, g.Endpoint, 20)
	n.flush()
	if i := w.issue(g); i.State != Resolved || i.Regressions != 0 || !strings.Contains(i.Resolution, "20 deliveries") {
		t.Fatalf("not resolved: %+v", i)
	}
	if got := len(w.docs.audit); got != 2 || w.docs.audit[1].Actor != "grapnel" || w.docs.audit[1].Endpoint != g.Endpoint {
		t.Fatalf("audit %+v", w.docs.audit)
	}
	w.fails(n, g)
	n.flush()
	i := w.issue(g)
	if i.State != Open || i.Regressions != 1 || !i.ReopenedAt.Equal(w.now) || i.Delta.Count != 5 {
		t.Fatalf("not opened again: %+v", i)
	}
	w.goes(n, g.Endpoint, 39)
	n.flush()
	if i := w.issue(g); i.State != Open {
		t.Fatalf("resolved too early: %+v", i)
	}
	w.goes(n, g.Endpoint, 1)
	n.flush()
	if i := w.issue(g); i.State != Resolved {
		t.Fatalf("not resolved after twice as many: %+v", i)
	}
}

// A failure of before the resolution, which another node flushes later, opens nothing. Two nodes
// that flush a failure of after it open the issue once.
func TestALateFlushIsNoRegression(t *testing.T) {
	w := newWorld(t)
	a, b, g := w.node(Bounds{}), w.node(Bounds{}), group(503, "busy")
	w.fails(a, g)
	w.fails(b, g)
	a.flush()
	w.set(g, Resolved)
	b.flush()
	if i := w.issue(g); i.State != Resolved || i.Delta.Count != 2 {
		t.Fatalf("%+v", i)
	}
	w.fails(a, g)
	w.fails(b, g)
	w.docs.before = a.flush // between the read and the write of the other node
	b.flush()
	if i := w.issue(g); i.State != Open || i.Regressions != 1 || i.Delta.Count != 4 {
		t.Fatalf("%+v", i)
	}
}

func TestMutedUntil(t *testing.T) {
	w := newWorld(t)
	n, g := w.node(Bounds{}), group(503, "busy")
	w.fails(n, g)
	n.flush()
	i := w.issue(g)
	i.Set(Muted, w.now, "key_1", "")
	i.MutedUntil = w.now.Add(time.Hour)
	if got := i.At(w.now); got != Muted {
		t.Errorf("muted: %s", got)
	}
	if got := i.At(w.now.Add(time.Hour)); got != Open {
		t.Errorf("after its time: %s", got)
	}
}

// A restarted node resolves the issues of before, and those of deleted endpoints.
func TestRestartAndDeletedEndpoints(t *testing.T) {
	w := newWorld(t)
	a, g, gone := w.node(Bounds{Page: 1}), group(503, "busy"), group(502, "")
	gone.Endpoint = "ep_9"
	w.fails(a, g)
	w.fails(a, gone)
	a.flush()
	b := w.node(Bounds{Page: 1})
	w.gone["ep_9"] = true
	b.flush()
	w.goes(b, g.Endpoint, 20)
	b.flush()
	if i, j := w.issue(g), w.issue(gone); i.State != Resolved || j.State != Resolved || !strings.Contains(j.Resolution, "deleted") {
		t.Fatalf("%+v\n%+v", i, j)
	}
	w.now = w.now.Add(91 * 24 * time.Hour)
	b.flush()
	if len(w.docs.all) != 0 {
		t.Errorf("%d issues are left", len(w.docs.all))
	}
}

// A receiver whose answers are all different spends its bounds, in memory and in the store, and no
// others'. Nothing is lost of the counts.
func TestBoundedUnderHostileVariety(t *testing.T) {
	for name, b := range map[string]Bounds{
		"by tenant":   {OpenAtEndpoint: 5, OpenOfTenant: 10},
		"by endpoint": {OpenAtEndpoint: 3, OpenOfTenant: 100},
	} {
		b.Endpoint, b.Tenant, b.All, b.Stored, b.Batch = 8, 20, 50, 30, 4
		t.Run(name, func(t *testing.T) { boundedUnderHostileVariety(t, b) })
	}
}

func boundedUnderHostileVariety(t *testing.T, b Bounds) {
	t.Helper()
	w := newWorld(t)
	n := w.node(b)
	total := int64(0)
	for round := range 12 {
		for i := range 300 {
			g := group(500, fmt.Sprint("answer ", strings.Repeat("x", round), strings.Repeat("y", i)))
			g.Endpoint = fmt.Sprint("ep_", i%4)
			w.fails(n, g)
		}
		n.o.Tally.mu.Lock()
		if got := len(n.o.Tally.pending); got > b.Tenant {
			t.Fatalf("%d deltas in memory", got)
		}
		n.o.Tally.mu.Unlock()
		_, lost := n.o.Tally.pending, n.o.Tally.uncounted
		total += 300 - lost
		n.flush()
		open, stored, at := 0, 0, map[string]int{}
		for _, doc := range w.docs.all {
			i, err := Decode(doc.Body, doc.Revision)
			if err != nil {
				t.Fatal(err)
			}
			if stored++; i.State != Resolved && i.Class != ClassOther {
				open++
				at[i.Endpoint]++
			}
			if len(doc.Body) > 8<<10 {
				t.Errorf("an issue has %d bytes", len(doc.Body))
			}
		}
		if open != min(b.OpenOfTenant, 4*b.OpenAtEndpoint) || stored > b.Stored { // also after some were resolved
			t.Fatalf("%d open issues, %d stored", open, stored)
		}
		for endpoint, open := range at {
			if open > b.OpenAtEndpoint {
				t.Fatalf("%d open issues at %s", open, endpoint)
			}
		}
		if round%3 == 2 {
			for i := range 4 {
				w.goes(n, fmt.Sprint("ep_", i), 20)
			}
			n.flush()
		}
	}
	var counted int64
	docs, _ := w.docs.DocumentList(t.Context(), store.Everyone(), store.DocumentQuery{Kind: Kind, Limit: 1000})
	for _, doc := range docs {
		i, _ := Decode(doc.Body, doc.Revision)
		counted += i.Delta.Count
	}
	if counted > total || counted < total*8/10 { // those of replaced issues left with them
		t.Errorf("%d of %d failures are counted", counted, total)
	}
	other := w.node(b)
	quiet := Group{Tenant: "bolt", Endpoint: "ep_b", Class: "timeout"}
	w.fails(other, quiet)
	other.flush()
	if i := w.issue(quiet); i.Delta.Count != 1 {
		t.Errorf("%+v", i)
	}
}

// A resolved issue that fails again makes no space for a new one that fails in the same flush,
// whichever of the two is merged first.
func TestAReopenedIssueIsNotReplaced(t *testing.T) {
	one, two := group(500, "one"), group(500, "two")
	for _, old := range []Group{one, two} {
		fresh := one
		if old == one {
			fresh = two
		}
		w := newWorld(t)
		n := w.node(Bounds{Stored: 1})
		w.fails(n, old)
		n.flush()
		w.set(old, Resolved)
		w.now = w.now.Add(n.o.Bounds.Rescan)
		n.flush()
		w.fails(n, old)
		w.fails(n, fresh)
		n.flush()
		if i := w.issue(old); i.State != Open || i.Delta.Count != 2 || w.issue(fresh.Other()).Delta.Count != 1 {
			t.Errorf("%+v", i)
		}
	}
}

// The same history gives the same documents.
func TestDeterministic(t *testing.T) {
	var bodies []string
	for range 2 {
		w := newWorld(t)
		n := w.node(Bounds{Endpoint: 4, OpenAtEndpoint: 3})
		for i := range 60 {
			w.fails(n, group(500+i%7, ""))
			if i%10 == 9 {
				n.flush()
			}
		}
		text := ""
		docs, _ := w.docs.DocumentList(t.Context(), store.Everyone(), store.DocumentQuery{Kind: Kind, Limit: 1000})
		for _, doc := range docs {
			text += string(doc.Body) + "\n"
		}
		bodies = append(bodies, text)
	}
	if bodies[0] != bodies[1] {
		t.Errorf("%s\n%s", bodies[0], bodies[1])
	}
}

// Counting a success of an endpoint without issues allocates nothing.
func TestSuccessesCostNothing(t *testing.T) {
	tally := NewTally(Bounds{})
	count := func() { tally.Succeeded("ep_1") }
	if n := testing.AllocsPerRun(100, count); n != 0 {
		t.Errorf("%v allocations without issues", n)
	}
	tally.watch(map[string]bool{"ep_1": true})
	if n := testing.AllocsPerRun(100, count); n != 0 {
		t.Errorf("%v allocations with one", n)
	}
	if tally.streak("ep_1") == 0 {
		t.Error("nothing was counted")
	}
}

// TestAnIssueThatAClockAheadResolved: a failure opens it again once the clock is right.
func TestAnIssueThatAClockAheadResolved(t *testing.T) {
	w := newWorld(t)
	n, g := w.node(Bounds{}), group(503, "down")
	w.fails(n, g)
	n.flush()
	w.now = w.now.AddDate(1, 0, 0)
	w.set(g, Resolved)
	w.now = start.Add(time.Hour)
	w.fails(n, g)
	n.flush()
	if i := w.issue(g); i.State != Open || i.Regressions != 1 {
		t.Errorf("the issue is %s with %d regressions", i.State, i.Regressions)
	}
}

// A store that is away for an hour is a few lines in the log.
func TestAnOutageLogsFewLines(t *testing.T) {
	var logged strings.Builder
	w := newWorld(t)
	n := w.node(Bounds{})
	n.o.Log = slog.New(slog.NewTextHandler(&logged, nil))
	for range 2 {
		w.docs.away, w.now = true, w.now.Add(time.Hour)
		for range 300 {
			w.fails(n, Group{Tenant: "acme", Endpoint: "ep", Class: policy.ClassTimeout})
			n.try(t.Context(), time.Minute)
		}
		w.docs.away = false
		n.try(t.Context(), time.Minute)
	}
	if all, first := strings.Count(logged.String(), "\n"), strings.Count(logged.String(), "failures=1 "); all != 18 || first != 2 {
		t.Errorf("%d lines, %d of a first failure", all, first)
	}
}
