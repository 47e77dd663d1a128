package ingress

import "time"

// Scheme describes how a provider's requests are told from others, for people and documents.
type Scheme struct {
	Name       string        // in a source's verify.scheme
	Title      string        // of the provider
	Signature  string        // one sentence: where it is and what it covers
	Secret     string        // what the secret is and where the provider shows it; empty: there is none
	Settings   []string      // other fields of verify that it reads, with the names of the API
	Tolerance  bool          // a timestamp is signed, so verify.tolerance counts
	EventID    string        // where the id of an event is found; empty: nowhere
	DeliveryID string        //
	Type       string        //
	Key        string        //
	Unsigned   bool          // the ids are outside of what is signed
	RetriesFor time.Duration // how long the provider goes on trying; 0: it does not, or nobody knows
	Retries    string        // the same in words
	Checked    string        // the day on which that was compared with the provider's documentation; empty: there is no provider
	Docs       string        // where that is
}

// Schemes lists every scheme, sorted by name.
func Schemes() []Scheme { return nil }
