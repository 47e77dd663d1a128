// Package match finds the endpoints that want an event: those of its tenant that subscribe to its
// type, accept events of its source, and whose filter, a CEL expression over the event, is true.
//
// Its guarantees:
//
//   - An endpoint is only ever matched with events of its own tenant.
//   - The answer depends on the event and the endpoints alone, not on the clock or the load of the
//     machine. A filter's work is bounded by a cost that counts operations; a limit of time would
//     lose an event on a slow day.
//   - Types are compared before filters run. The event's data are decoded at most once, and only if
//     a filter reads them.
//   - A filter runs at most once for an event, however many endpoints have it. A Budget bounds the
//     cost of all filters of a request together; beyond it the result is an error and no answer.
//   - A Router never changes, so it is safe for concurrent use.
//
// It does not promise that a filter which cannot be evaluated (a missing field, data that are no
// JSON, too much work) lets the event through. The event does not match, and Explain gives the
// reason.
package match

import "github.com/grapnelhq/grapnel"

// Verdict is the decision on an endpoint that subscribes to an event's type, and its reason.
type Verdict struct {
	Endpoint *grapnel.Endpoint
	Wanted   bool
	Reason   string // when it is not wanted
}
