// Package match says which endpoints want an event: those of its tenant that subscribe to its type, take events of its source, and
// whose filter, a CEL expression over the event, is true.
//
// What holds:
//
//   - An endpoint is only ever matched with events of its own tenant.
//   - The answer depends on the event and the endpoints alone, not on the clock and not on how busy the machine is. A filter's
//     work is bounded by a cost that counts operations; a limit of time would lose an event on a slow day.
//   - Types are compared before filters run, and the event's data are decoded at most once, and only if a filter reads them.
//   - A filter runs at most once for an event, however many endpoints have it. What all filters of a request may cost
//     together is bounded by a Budget; beyond it there is an error and no answer.
//   - A Router is never changed, so any number of goroutines may use it.
//
// What it does not promise: that a filter which cannot be evaluated (a missing field, data that are no JSON, too much work)
// lets the event through. It does not match, and Explain says why.
package match

import "github.com/grapnelhq/grapnel"

// Verdict is why an endpoint that subscribes to an event's type gets the event or does not.
type Verdict struct {
	Endpoint *grapnel.Endpoint
	Wanted   bool
	Reason   string // when it is not wanted
}
