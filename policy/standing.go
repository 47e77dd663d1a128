package policy

import "time"

// Standing is what the outcomes of an endpoint's attempts have led to, as far as it has to survive a restart. Circuit and
// Strike change it; it is recorded together with the outcome that changed it.
type Standing struct {
	// The breaker.
	OpenedAt    time.Time `json:"opened_at,omitzero"`    // zero: it is closed
	Cause       string    `json:"cause,omitempty"`       // while open: what the endpoint met last, in words
	ProbeAt     time.Time `json:"probe_at,omitzero"`     // while open: the next probe is not before
	Probes      int       `json:"probes,omitempty"`      // while open: how many have failed
	RecoveredAt time.Time `json:"recovered_at,omitzero"` // when it was closed last: what failed before has been due since

	HoldUntil time.Time `json:"hold_until,omitzero"` // the endpoint asked to be spared until then

	// The way to being disabled.
	Strikes      int       `json:"strikes,omitempty"`      // deliveries in a row whose first attempt ended in the class that disables
	FailingSince time.Time `json:"failing_since,omitzero"` // the first failure since the last success
	Warned       int       `json:"warned,omitempty"`       // how far, in percent, the last warning said it was
	SentencedAt  time.Time `json:"sentenced_at,omitzero"`  // when it was decided that the endpoint is to be disabled
	Sentence     string    `json:"sentence,omitempty"`     // why
}

// Open says whether the breaker is open.
func (s *Standing) Open() bool { return !s.OpenedAt.IsZero() }

// Sighting is one finished attempt as it is judged for its endpoint and not for its delivery.
type Sighting struct {
	Outcome  Outcome
	Decision Decision
	Hold     time.Time // Throttle: until when the endpoint is spared
	Cause    string    // what the attempt met, in words
	Started  time.Time
	Ended    time.Time
	Took     time.Duration // of a probe; the next one comes so much sooner
	Probe    bool
	First    bool // the first attempt of its delivery
	Counts   bool // towards disabling: not what a person asked for, no test, no replay, no news about another endpoint
	Seed     uint64
}

// EndpointWide says whether a failure is about the endpoint and not about what was sent: it would meet any other delivery as
// well. A 4xx is about the payload; what our own guard or an unreadable answer stopped proves neither.
func (o Outcome) EndpointWide() bool {
	switch o.Class {
	case ClassDNS, ClassConnect, ClassTLS, ClassTimeout, ClassReset, ClassStatus5xx:
		return true
	default:
		return false
	}
}

// alive says whether the outcome shows an endpoint at work, be it with a refusal.
func (o Outcome) alive() bool { return o.Status > 0 && o.complete() && o.Class != ClassStatus5xx }
