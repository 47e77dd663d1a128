package sqlite

import "github.com/grapnelhq/grapnel"

// names caches the numbers that rows contain in place of names. Only the writer assigns numbers, so
// its cache is valid until a transaction is rolled back.
type names struct {
	tenants map[string]int64
	kinds   map[kind]int64
	targets map[string]int64 // by endpoint
	ids     map[int64]string // of endpoints, by target
	types   map[int64]string // of events, by kind
	blocks  map[string]int64 // the last block recorded for a source
}

// kind is an event's tenant, type and source together. Queries filter by each of them.
type kind struct{ tenant, eventType, source string }

func (n *names) forget() {
	n.tenants = make(map[string]int64)
	n.kinds = make(map[kind]int64)
	n.targets = make(map[string]int64)
	n.ids = make(map[int64]string)
	n.types = make(map[int64]string)
	n.blocks = make(map[string]int64)
}

// cached returns the value of a key, which look finds if it is not cached.
func cached[K, V comparable](known map[K]V, most int, key K, look func() (V, error)) (V, error) {
	value, is := known[key]
	if is {
		return value, nil
	}
	value, err := look()
	if err == nil {
		keep(known, most, key, value)
	}
	return value, err
}

// keep caches a value, and empties the cache first if it is full.
func keep[K comparable, V any](known map[K]V, most int, name K, value V) {
	if len(known) >= most {
		clear(known)
	}
	known[name] = value
}

// account is the counts of a target and a tenant that a transaction writes once, however much
// happens there, in the row of the pending count: how many deliveries are pending and were ever
// created, and the totals of the current hour. That row is written anyway when a delivery comes or
// goes, so counting costs a transaction neither a statement nor a page more. Totals of earlier
// hours are in total_hour.
type account struct {
	made, pending int64 // how they change
	open          bool  // the account has totals
	hour          int64 // which they are of: the latest
	totals        grapnel.Totals
	touched       bool // in this transaction
}

type accountOf struct{ target, tenant int64 }

// accounts are the accounts that the writer caches.
type accounts struct {
	known   map[accountOf]*account
	touched []accountOf
	last    *account // the last one used, while it is touched: the next use is mostly of the same one
	lastOf  accountOf
}

func (s *accounts) forget() {
	s.known = make(map[accountOf]*account)
	s.touched, s.last = s.touched[:0], nil
}

// typeTotal is the totals of an event type in an hour. A transaction writes each touched one once,
// however much happens in it; those of all types that are not told apart have no name.
type typeTotal struct {
	typeOf
	totals  grapnel.Totals
	touched bool // in this transaction
}

type typeOf struct {
	hour, tenant int64
	name         string
}

type tenantHour struct{ hour, tenant int64 }

// typeTotals are the totals that the writer caches.
type typeTotals struct {
	known   map[typeOf]*typeTotal
	told    map[tenantHour]int64 // how many types have a row of their own
	touched []*typeTotal

	// The last one used: the next use is mostly of the same one.
	last     *typeTotal
	lastKind int64
	lastHour int64
}

func (s *typeTotals) forget() {
	s.known, s.told = make(map[typeOf]*typeTotal), make(map[tenantHour]int64)
	s.touched, s.last = s.touched[:0], nil
}

// blockOutcome is an outcome that occurs among a block's delivered deliveries.
type blockOutcome struct{ outcome, block int64 }

// targetOutcome is an outcome that occurs among a target's delivered deliveries.
type targetOutcome struct{ outcome, target int64 }

// outcomes are the outcomes known to be stored.
type outcomes struct {
	blocks  map[blockOutcome]bool
	targets map[targetOutcome]bool
}

func (o *outcomes) forget() {
	o.blocks, o.targets = make(map[blockOutcome]bool), make(map[targetOutcome]bool)
}

// holders are how many leases consumers have, as the writer remembers it: every Claim asks for it,
// and it may be many.
type holders struct {
	known bool
	held  map[holder]int
}

// holder is a consumer at a queue.
type holder struct {
	target   int64
	consumer string
}

func (h *holders) forget() { h.known, h.held = false, nil }

func (h *holders) add(at holder, by int) {
	if !h.known {
		return
	}
	if h.held[at] += by; h.held[at] == 0 {
		delete(h.held, at)
	}
}
