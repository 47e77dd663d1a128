package postgres

import (
	"slices"

	"github.com/grapnelhq/grapnel"
)

// tallyOf identifies a row of counts: an endpoint and a tenant.
type tallyOf struct {
	target int32
	tenant string
}

// tallyStatuses are the statuses whose deliveries are counted, in the order of the columns.
var tallyStatuses = [...]grapnel.Status{grapnel.Pending, grapnel.Delivered, grapnel.Failed, grapnel.Dropped, grapnel.Discarded,
	grapnel.Skipped}

// tally is a change of counts: of created deliveries, and of those in each of tallyStatuses.
type tally struct {
	made int64
	in   [len(tallyStatuses)]int64
}

// of returns the count of a status.
func (y *tally) of(status grapnel.Status) *int64 {
	return &y.in[max(slices.Index(tallyStatuses[:], status), 0)]
}

// totalOf identifies a row of totals: an endpoint, a tenant and an hour since 1970.
type totalOf struct {
	hour   int64
	target int32
	tenant string
}

// typeOf identifies totals of an event type; without a type, of all types that are not told apart.
type typeOf struct {
	hour              int64
	tenant, eventType string
}
