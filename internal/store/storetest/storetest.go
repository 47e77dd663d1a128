// Package storetest is the suite that every store passes. It tests the contract of package store:
// one case per rule, random histories compared with a small model, invariants checked on the
// store's answers, and concurrent publishers and recorders.
//
// A store's own tests call Run. The suite uses only the contract, so it cannot see a store's
// internal state, and it does not cut the power: that an acknowledged call survives a crash of the
// machine is for the store's own tests to show.
package storetest

import (
	"slices"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store"
)

// Harness opens the stores under test.
type Harness struct {
	// Open returns a new, empty store. The suite closes it.
	Open func(t *testing.T) store.Store
	// Reopen ends a store without any preparation and returns one on its durable state. It may be
	// called many times. Nil: the suite never restarts the store.
	Reopen func(t *testing.T, s store.Store) store.Store
	// Histories is the number of random histories, unless -rapid.checks sets it. Zero: rapid's
	// default, 100.
	Histories int
}

// Run runs the whole suite. -rapid.checks=N plays N random histories, -rapid.steps sets their
// length, and a failure prints the command that repeats it. No part needs a disk: a harness may
// store its files in memory.
func Run(t *testing.T, h Harness) {
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"Append", appendCases},
		{"Record", recordCases},
		{"Identity", identityCases},
		{"IDs", idCases},
		{"Heads", headCases},
		{"End", endCases},
		{"Again", againCases},
		{"MakeDue", makeDueCases},
		{"Standing", standingCases},
		{"Tell", tellCases},
		{"Audit", auditCases},
		{"Lanes", laneCases},
		{"Replays", slices.Concat(replayCases, replayStepCases)},
		{"Leases", slices.Concat(leaseCases, leaseEndCases)},
		{"Filters", filterCases},
		{"Once", onceCases},
		{"Config", configCases},
		{"Sources", sourceCases},
		{"EventTypes", eventTypeCases},
		{"Known", knownCases},
		{"Inbox", inboxCases},
		{"History", historyCases},
		{"Backlogs", backlogCases},
		{"Scope", scopeCases},
		{"Copies", copyCases},
		{"Archive", slices.Concat(archiveCases, purgeCases)},
		{"Groups", groupCases},
		{"Clear", clearCases},
		{"Documents", documentCases},
		{"Reopen", reopenCases},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) { runCases(t, h, group.cases) })
	}
	Drawn(t, h)
}

// Drawn runs the random parts of the suite: the histories and the races. It is the short form for
// stores whose cases take long.
func Drawn(t *testing.T, h Harness) {
	t.Run("Race", func(t *testing.T) { runCases(t, h, raceCases) })
	t.Run("Model", func(t *testing.T) { runModel(t, h) })
}

func runCases(t *testing.T, h Harness, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(newDriver(t, h)) })
	}
}

// testCase is one rule of the contract.
type testCase struct {
	name string
	run  func(*driver)
}
