package issue

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestAnIssueOfAClockThatWasAhead: once the clock is right, its last failure, its hours and its
// examples are those of now.
func TestAnIssueOfAClockThatWasAhead(t *testing.T) {
	now := time.Date(2026, 11, 23, 9, 23, 34, 0, time.UTC)
	i := New(Group{Tenant: "a", Endpoint: "ep_1", Class: "timeout"})
	failed := func(at time.Time, delivery string) {
		d := new(Delta)
		d.add(&Failure{Group: i.Group(), At: at, Delivery: delivery, Created: at})
		i.Merge(d, at)
	}
	for n := range examples {
		failed(now.AddDate(1, 0, n), "dlv_ahead"+string(rune('a'+n)))
	}
	failed(now, "dlv_now")
	failed(now.Add(time.Minute), "dlv_later")
	_, counts := i.Sparkline(now)
	if !i.Last.Equal(now.Add(time.Minute)) || counts[hours-1] != 2 || i.Count != examples+2 {
		t.Errorf("the last failure is of %s, the hour has %d of %d", i.Last, counts[hours-1], i.Count)
	}
	if len(i.Examples) != 2 || i.Examples[0].Delivery != "dlv_later" {
		t.Errorf("the newest deliveries are %v", i.Examples)
	}
}

// TestIssuesAreReadAfterAClockThatWasAhead: a node has read all issues by a clock that was a day
// ahead. Once that is right, the node resolves an issue that another node has opened, and deletes
// one that nothing has changed for long.
func TestIssuesAreReadAfterAClockThatWasAhead(t *testing.T) {
	w := newWorld(t)
	old, fresh := Group{Tenant: "a", Endpoint: "ep_1", Class: "timeout"}, Group{Tenant: "a", Endpoint: "ep_2", Class: "timeout"}
	b := NewTally(Bounds{}).bounds
	before := w.node(b)
	w.fails(before, old)
	before.flush()
	w.now = w.now.Add(b.Kept - purgePause)
	n, other := w.node(b), w.node(b)
	w.now = w.now.Add(24 * time.Hour)
	n.purge = w.now.Add(purgePause) // it has just looked for old ones
	n.flush()
	w.now = w.now.Add(-24 * time.Hour)
	w.fails(other, fresh)
	other.flush()
	n.flush()
	w.goes(n, fresh.Endpoint, b.Successes)
	n.flush()
	if i := w.issue(fresh); i.State != Resolved {
		t.Errorf("after %d successes the issue is %s", b.Successes, i.State)
	}
	w.now = w.now.Add(2 * purgePause)
	n.flush()
	if _, err := read(t.Context(), w.docs, store.Everyone(), "a", old.ID()); grapnel.CodeOf(err) != grapnel.CodeNotFound {
		t.Errorf("the old issue is still stored: %v", err)
	}
}
