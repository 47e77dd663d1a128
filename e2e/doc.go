// Package e2e proves promises on the real binary, from the outside: it builds grapnel, starts `grapnel serve` on loopback, talks
// to it over HTTP, kills it, breaks its disk, and then holds what publishers were told and receivers saw against what the
// server says (package internal/sim/history is the judge).
//
// Only the public contract is used. The judge's evidence is a ledger of the harness's own: publishers write what they are
// about to do before they do it and what they were told afterwards, receivers write down a request before they answer it.
//
// What it does not prove: SIGKILL leaves the kernel's page cache alone, so the kill loop says nothing about fsync; the tests
// that inject storage faults do. Nothing here measures absolute times; package bench does.
//
// The tests understand three variables: GRAPNEL_SEED repeats a run's choices, GRAPNEL_SOAK=1 runs the long forms, and GRAPNEL_SOAK_FOR=20m
// says how long those go on that have no number of rounds (an hour).
package e2e
