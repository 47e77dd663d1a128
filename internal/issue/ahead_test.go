package issue

import (
	"testing"
	"time"
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
