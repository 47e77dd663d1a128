// Package storetest is the suite that every store passes. It says in tests what package store says in words: a case for each
// rule, random histories compared with a small model of the contract, invariants checked on what the store shows of itself,
// and publishers and recorders that race.
//
// A store's own tests call Run. The suite looks at a store only through the contract, so it cannot see what a store keeps beside
// it, and it does not pull the plug: that an answered call survives the machine is for the store's own tests to show.
package storetest

import (
	"testing"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Harness makes the stores under test.
type Harness struct {
	// Open returns a new, empty store. The suite closes it.
	Open func(t *testing.T) store.Store
	// Reopen ends a store without any preparation and returns one on what it had made durable. It may be called many times.
	// Nil: the suite never restarts the store.
	Reopen func(t *testing.T, s store.Store) store.Store
	// Histories is how many random histories are played, unless -rapid.checks says it. Zero: rapid's default, 100.
	Histories int
}

// Run runs the whole suite. -rapid.checks=N plays that many random histories, -rapid.steps sets their length, and a failure
// prints how to play it again. Nothing here needs a disk: a harness may keep its files in memory.
func Run(t *testing.T, h Harness) {
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"Append", appendCases},
		{"Record", recordCases},
		{"Identity", identityCases},
		{"Heads", headCases},
		{"End", endCases},
		{"Again", againCases},
		{"Hasten", hastenCases},
		{"Standing", standingCases},
		{"Tell", tellCases},
		{"Audit", auditCases},
		{"Lanes", laneCases},
		{"Replays", replayCases},
		{"Leases", leaseCases},
		{"Filters", filterCases},
		{"Once", onceCases},
		{"Config", configCases},
		{"Sources", sourceCases},
		{"Known", knownCases},
		{"Inbox", inboxCases},
		{"History", historyCases},
		{"Scope", scopeCases},
		{"Copies", copyCases},
		{"Archive", archiveCases},
		{"Clear", clearCases},
		{"Reopen", reopenCases},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) { runCases(t, h, group.cases) })
	}
	Drawn(t, h)
}

// Drawn runs the parts of the suite that draw what they do: the random histories, and the races. It is the short form of the suite for
// stores whose cases take long.
func Drawn(t *testing.T, h Harness) {
	t.Run("Race", func(t *testing.T) { runCases(t, h, raceCases) })
	t.Run("Model", func(t *testing.T) { runModel(t, h) })
}

func runCases(t *testing.T, h Harness, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(newDesk(t, h)) })
	}
}

// testCase is one rule of the contract.
type testCase struct {
	name string
	run  func(*desk)
}
