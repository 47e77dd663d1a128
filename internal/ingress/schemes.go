package ingress

import (
	"cmp"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
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

// Schemes lists every scheme, sorted by name.
func Schemes() []Scheme {
	all := make([]Scheme, len(rows))
	for i, r := range rows {
		all[i] = r.describe()
	}
	return all
}

// SchemeOf returns the scheme with a name; false: none.
func SchemeOf(name string) (Scheme, bool) {
	r := find(name)
	if r == nil {
		return Scheme{}, false
	}
	return r.describe(), true
}

// IDsSigned says whether the signature covers the ids of a source's requests. Those that an
// expression takes from the body are covered if the body is.
func IDsSigned(s *grapnel.Source) bool {
	r := find(s.Verify.Scheme)
	if r == nil || s.EventID == "" {
		return r != nil && !r.Unsigned
	}
	t, _ := parseTemplate(cmp.Or(s.Verify.Signed, r.signed)) // CheckVerify has read it
	return r.proof == byStandard || t.has("body")
}

func (r *row) describe() Scheme {
	s := r.Scheme
	s.Tolerance, s.MayWait = r.timed(), r.mayWait()
	s.Settings = slices.Clone(s.Settings)
	if s.Tolerance && !slices.Contains(s.Settings, "tolerance") {
		s.Settings = append(s.Settings, "tolerance")
	}
	s.EventID, s.DeliveryID, s.Type, s.Key = names(r.ids.event), names(r.ids.delivery), names(r.kind), names(r.key)
	return s
}
