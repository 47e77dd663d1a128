package allowance

import (
	"fmt"
	"testing"
	"time"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// TestTimePaysDebts: a tenant is within its allowance up to the burst, and beyond it not until time
// has paid. Other tenants are unaffected.
func TestTimePaysDebts(t *testing.T) {
	all := New(2*time.Second, 10)
	if !all.Within("ant", start) {
		t.Error("a tenant that has used nothing is not within its allowance")
	}
	for i, c := range []struct {
		at     time.Duration
		cost   time.Duration
		within bool
	}{
		{0, 2 * time.Second, true},                              // the burst
		{0, 1, false},                                           // beyond it
		{1, 0, true},                                            // paid
		{time.Second, 2 * time.Second, false},                   // 1 s is left of the debt
		{2*time.Second + 1, 0, true},                            // it is paid down to the burst
		{time.Hour, 2*time.Second + 1, false},                   // unused time saves nothing beyond the burst
		{time.Hour + time.Nanosecond, 0, true},                  // paid
		{2 * time.Hour, 2 * time.Second, true},                  // from the beginning
		{2*time.Hour + time.Second, 1 * time.Second, true},      // as fast as it is paid
		{2*time.Hour + time.Second, 1 * time.Nanosecond, false}, // faster
	} {
		now := start.Add(c.at)
		if within := all.Use("ant", now, now, c.cost); within != c.within || all.Within("ant", now) != c.within {
			t.Errorf("use %d: within %v instead of %v", i, within, c.within)
		}
		if !all.Within("bee", now) {
			t.Errorf("use %d: another tenant is not within its allowance", i)
		}
	}
}

// TestUseCountsFromItsBeginning: the duration of a use itself pays for it.
func TestUseCountsFromItsBeginning(t *testing.T) {
	all := New(3*time.Second, 10)
	if !all.Use("ant", start, start.Add(time.Second), 4*time.Second) {
		t.Error("4 s of cost, of which one has passed, are beyond a burst of 3 s")
	}
	if all.Use("ant", start.Add(time.Second), start.Add(time.Second), 1) {
		t.Error("a use that goes back behind the debt is free")
	}
}

// TestTenantsWithoutDebtAreForgotten: memory follows tenants in debt.
func TestTenantsWithoutDebtAreForgotten(t *testing.T) {
	all := New(time.Second, 4)
	for i := range 100 {
		now := start.Add(time.Duration(i) * time.Hour)
		all.Use(fmt.Sprint("t", i), now, now.Add(time.Second), 4*time.Second)
	}
	if len(all.paid) > 5 {
		t.Errorf("%d tenants are remembered", len(all.paid))
	}
	now := start.Add(1000 * time.Hour)
	for i := range 100 {
		all.Use(fmt.Sprint("t", i), now, now, time.Minute)
	}
	for i := range 100 {
		if all.Within(fmt.Sprint("t", i), now) {
			t.Fatalf("tenant %d is in debt and was forgotten", i)
		}
	}
}

// TestTakeChangesNothingBeyondTheBurst: it says when the use fits, and a use that is larger than
// the burst is taken by a tenant without debt. Returned uses count for nothing.
func TestTakeChangesNothingBeyondTheBurst(t *testing.T) {
	all := New(0, 10)
	for i, c := range []struct{ at, cost, wait time.Duration }{
		{0, 2 * time.Second, 0},                             // the burst
		{0, time.Second, time.Second},                       // beyond it
		{time.Second - 1, time.Second, 1},                   //
		{time.Second, time.Second, 0},                       // paid down to it
		{2 * time.Second, 5 * time.Second, time.Second},     // larger than the burst, and a debt
		{3 * time.Second, 5 * time.Second, 0},               //
		{3 * time.Second, 2 * time.Second, 5 * time.Second}, // all of it is owed
		{8 * time.Second, 2 * time.Second, 0},
	} {
		if wait := all.Take("ant", start.Add(c.at), c.cost, 2*time.Second); wait != c.wait {
			t.Errorf("use %d: wait %v instead of %v", i, wait, c.wait)
		}
		if debt := all.Debt("bee", start.Add(c.at)); debt != 0 {
			t.Errorf("use %d: another tenant owes %v", i, debt)
		}
	}
	all.Return("ant", start.Add(8*time.Second), 2*time.Second)
	if debt := all.Debt("ant", start.Add(8*time.Second)); debt != 0 {
		t.Error(debt)
	}
}
