package server

import (
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/promise"
)

// TestBurnsOfPromises: a burn is the ratio of bad events by the budget; windows with few events say
// nothing.
func TestBurnsOfPromises(t *testing.T) {
	o, known := promise.Find(promise.Availability)
	if !known {
		t.Fatal("no such promise")
	}
	pair := promise.Burn{Severity: "page", Long: time.Hour, Short: 5 * time.Minute, Rate: 13.44}
	v := promise.Verdict{Objective: o, Burning: []promise.Burning{
		{Burn: pair, LongRatio: 20 * o.Budget(), ShortRatio: 15 * o.Budget(), Events: 200},
		{Burn: promise.Burn{Severity: "ticket", Long: 24 * time.Hour, Short: 2 * time.Hour, Rate: 2.8}, LongRatio: 1, ShortRatio: 1, Events: 5},
	}}
	all := burns(promise.Report{Promises: []promise.Verdict{v}})
	if len(all) != 1 || all[0].Windows != "1 h and 5 min" || all[0].Severity != grapnel.SeverityPage ||
		all[0].Short < 14.9 || all[0].Short > 15.1 || all[0].Long < 19.9 || all[0].Allowed != 13.44 {
		t.Errorf("%+v", all)
	}
}
