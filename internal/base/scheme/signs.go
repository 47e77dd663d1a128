package scheme

import (
	"slices"
	"strings"
)

// From the one that proves least to the one that proves most.
const (
	SignsUnsaid   Signs = iota // only where the signature covers all that the row reads
	SignsIDs                   // the ids are in headers, and signed
	SignsAnything              // the same bytes may be signed again for another event
	SignsType                  // the same, but never for another type
	SignsOnce                  // a time or a token is signed: two events do not have the same signature
)

// MustSay says whether the row reads something from outside the signature, or says itself that ids
// are unsigned.
func (r *Row) MustSay() bool {
	return r.Unsigned || r.ReadsHeaders() || r.signed != "" && !strings.Contains(r.signed, "{body}")
}

// ReadsHeaders says whether the row takes an id or the type from a header.
func (r *Row) ReadsHeaders() bool {
	return slices.ContainsFunc(slices.Concat(r.IDs.Event, r.IDs.Delivery, r.Kind), func(p Place) bool { return p.in == inHeader })
}
