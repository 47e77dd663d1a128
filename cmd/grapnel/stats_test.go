package main

import (
	"testing"

	"github.com/grapnelhq/grapnel/client"
)

// TestFirstTriesOfBothTablesAgree: with --by and without, they are of the attempted deliveries.
func TestFirstTriesOfBothTablesAgree(t *testing.T) {
	rate := 0.6
	f := client.Figures{FirstAttemptSuccessRate: &rate,
		Totals: client.Totals{Delivered: 6, FirstAttemptSuccess: 6, Discarded: 94, Attempted: 10}}
	if one, other := statsRow("total", &f.Totals)[7], groupRow("total", &f)[3]; one != other || one != "60.0%" {
		t.Errorf("%s without --by, %s with it", one, other)
	}
}

// TestOnlyAllIsAHundredPercent: as on the dashboard; and only none is 0 %.
func TestOnlyAllIsAHundredPercent(t *testing.T) {
	for first, want := range map[int64]string{10_000: "100.0%", 9999: "99.9%", 1: "0.1%", 0: "0.0%"} {
		rate := float64(first) / 10_000
		f := client.Figures{FirstAttemptSuccessRate: &rate, RetryRate: &rate,
			Totals: client.Totals{FirstAttemptSuccess: first, Attempted: 10_000}}
		if one, others := statsRow("total", &f.Totals)[7], groupRow("total", &f)[3:5]; one != want || others[0] != want || others[1] != want {
			t.Errorf("%d: %s without --by, %s with it, want %s", first, one, others, want)
		}
	}
}
