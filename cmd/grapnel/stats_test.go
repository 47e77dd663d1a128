package main

import (
	"slices"
	"testing"

	"github.com/grapnelhq/grapnel/client"
)

// TestFirstTriesOfBothTablesAgree: with --by and without, they are of the first attempts, and
// these stand beside them.
func TestFirstTriesOfBothTablesAgree(t *testing.T) {
	rate := 0.6
	f := client.Figures{FirstAttemptSuccessRate: &rate,
		Totals: client.Totals{Delivered: 6, FirstAttempts: 10, FirstAttemptSuccess: 6, Discarded: 94}}
	one, other := statsRow("total", &f.Totals)[7:9], groupRow("total", &f)[3:5]
	if !slices.Equal(one, other) || !slices.Equal(one, []string{"60.0%", "10"}) {
		t.Errorf("%s without --by, %s with it", one, other)
	}
}

// TestOnlyAllIsAHundredPercent: as on the dashboard; and only none is 0 %.
func TestOnlyAllIsAHundredPercent(t *testing.T) {
	for first, want := range map[int64]string{10_000: "100.0%", 9999: "99.9%", 1: "0.1%", 0: "0.0%"} {
		rate := float64(first) / 10_000
		f := client.Figures{FirstAttemptSuccessRate: &rate, RetryRate: &rate,
			Totals: client.Totals{FirstAttempts: 10_000, FirstAttemptSuccess: first}}
		if one, others := statsRow("total", &f.Totals)[7], groupRow("total", &f)[3:6]; one != want || others[0] != want || others[2] != want {
			t.Errorf("%d: %s without --by, %s with it, want %s", first, one, others, want)
		}
	}
}
