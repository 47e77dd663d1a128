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

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Run runs the whole suite. -rapid.checks=N plays N random histories, -rapid.steps sets their
// length, and a failure prints the command that repeats it. No part needs a disk: a harness may
// store its files in memory.
func Run(t *testing.T, h Harness) {
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) { runCases(t, h, group.cases) })
	}
	Drawn(t, h)
}

// Short runs the groups of the suite that make every kind of write, for stores that are tried in
// many surroundings.
func Short(t *testing.T, h Harness) {
	for _, group := range groups {
		if slices.Contains([]string{"Append", "Later", "Record", "Leases", "Config", "Replays", "Archive", "Inbox"}, group.name) {
			t.Run(group.name, func(t *testing.T) { runCases(t, h, group.cases) })
		}
	}
}

// groups are the cases by what they are about.
var groups = []struct {
	name  string
	cases []testCase
}{
	{"Append", appendCases},
	{"Later", laterCases},
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
	{"Feed", feedCases},
	{"Backlogs", backlogCases},
	{"TenantCounts", tenantCountCases},
	{"Scope", scopeCases},
	{"Copies", copyCases},
	{"Archive", slices.Concat(archiveCases, purgeCases)},
	{"Erase", eraseCases},
	{"Tenant", tenantCases},
	{"Groups", groupCases},
	{"Clear", clearCases},
	{"Documents", documentCases},
	{"Reopen", reopenCases},
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

func runModel(t *testing.T, h Harness) {
	histories(t, h.Histories)
	rapidtest.Check(t, func(rt *rapid.T) {
		m := newMachine(rt, t, h)
		m.owners, m.tenants, m.actors = map[string]string{epA: acme, epB: acme, epX: bolt}, someTenants, []string{"", acme, bolt}
		m.model.config.Version = m.config().Version
		for _, ep := range []grapnel.Endpoint{endpoint(epA, acme), endpoint(epB, acme), endpoint(epX, bolt)} {
			m.putEndpoint(everyone, ep, store.With{})
		}
		actions := m.actions()
		if h.Reopen != nil {
			actions["reopen"] = func(*rapid.T) { m.reopen() }
		}
		rt.Repeat(actions)
		m.compare(rt)
		m.sound()
		m.blind(store.Scope{}, "zero scope")
		m.blind(store.Of("stranger"), "stranger")
	})
}
