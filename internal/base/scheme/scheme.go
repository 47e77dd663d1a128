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
	"time"
)

// Scheme describes a scheme for people and documents.
type Scheme struct {
	Name       string   // in a source's verify.scheme
	Title      string   // of the provider
	Signature  string   // one sentence: its place and the text it covers
	Needs      string   // the kind of secret and where the provider shows it; empty: none
	Settings   []string // other fields of verify that it reads, with the names of the API
	Tolerance  bool     // a timestamp is checked, so verify.tolerance counts
	EventID    string   // where the id of an event is found; empty: nowhere
	DeliveryID string   // where the id of a delivery is found
	Type       string   // where the type is found
	Key        string   // where the ordering key is found
	Unsigned   bool     // the ids are not signed
	MayWait    bool     // a source may be created before its secret is known
	Success    int      // of accepted requests, where the provider does not take 202 for success; 0: it does
	// duration of the provider's retries; 0: it does not retry, or unknown
	RetriesFor time.Duration
	Retries    string // the same in words; empty: the provider does not say
	// the day on which RetriesFor was compared with the provider's documentation; empty: never
	Checked string
	Docs    string // where that is
}

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
