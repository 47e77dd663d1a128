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

// TestOnlyAllIsAHundredPercent: as on the dashboard.
func TestOnlyAllIsAHundredPercent(t *testing.T) {
	rate := .9999
	f := client.Figures{FirstAttemptSuccessRate: &rate, Totals: client.Totals{FirstAttemptSuccess: 9999, Attempted: 10_000}}
	if one, other := statsRow("total", &f.Totals)[7], groupRow("total", &f)[3]; one != other || one != "99.9%" {
		t.Errorf("%s without --by, %s with it", one, other)
	}
}
