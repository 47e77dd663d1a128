// Package scheme is the table of the schemes by which providers sign their webhooks, and verifies
// requests by it. The server's sources and the kit for receivers use it.
//
// Its guarantees:
//
//   - A signature is compared in constant time, with every secret, and over the bytes as they came.
//   - Whatever can be read in two ways, such as a header that is there twice, is not believed.
//   - Each step is noted, so that an operator sees all faults of a request. No secret is in them.
//
// It does not promise that a request arrives once, nor that the signature covers the ids: see
// Verifier.SignsIDs.
package scheme

import (
	"slices"
)

// All lists every scheme, sorted by name.
func All() []Scheme {
	all := make([]Scheme, len(rows))
	for i, r := range rows {
		all[i] = r.describe()
	}
	return all
}

// Of returns the scheme with a name; false: none.
func Of(name string) (Scheme, bool) {
	r := Find(name)
	if r == nil {
		return Scheme{}, false
	}
	return r.describe(), true
}

// MayWait says whether a source may be created before its secret: the proof has to be stored with
// the request, as a token or password is not. A provider that greets gets an answer only with it.
func (r *Row) MayWait() bool {
	return r.Proof != ByNothing && r.Proof != ByToken && r.Proof != ByBasic && r.Proof != ByEither && r.Greets == NoGreeting
}

func (r *Row) describe() Scheme {
	s := r.Scheme
	s.Tolerance, s.MayWait = r.timed(), r.MayWait()
	s.Settings = slices.Clone(s.Settings)
	if s.Tolerance && !slices.Contains(s.Settings, "tolerance") {
		s.Settings = append(s.Settings, "tolerance")
	}
	s.EventID, s.DeliveryID, s.Type, s.Key = names(r.IDs.Event), names(r.IDs.Delivery), names(r.Kind), names(r.Key)
	return s
}
