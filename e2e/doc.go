// Package e2e proves promises on the real binary, from the outside. It builds grapnel, starts
// `grapnel serve` on loopback, talks to it over HTTP, kills it and breaks its disk. Then it
// compares the answers that publishers got and the requests that receivers saw with what the server
// reports; package internal/proof/sim/history is the judge.
//
// Only the public contract is used. The judge's evidence is the harness's own ledger: publishers
// write down each call before they make it and its answer afterwards, receivers write down a
// request before they answer it.
//
// What it does not prove: SIGKILL leaves the kernel's page cache intact, so the kill loop says
// nothing about fsync; the tests that inject storage faults do. No test here measures absolute
// times; package bench does.
//
// The tests understand three variables: GRAPNEL_SEED repeats a run's choices, GRAPNEL_SOAK=1 runs
// the long forms, and GRAPNEL_SOAK_FOR=20m says how long those last that have no number of rounds
// (default: an hour).
package e2e
