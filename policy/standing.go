package policy

import "time"

// Standing is the state of an endpoint that follows from its attempts and must survive a restart.
// Circuit and Strike change it; it is recorded together with the outcome that changed it.
type Standing struct {
	// The breaker.
	OpenedAt time.Time `json:"opened_at,omitzero"` // zero: closed
	// while open: the endpoint's last failure, in words
	Cause   string    `json:"cause,omitempty"`
	ProbeAt time.Time `json:"probe_at,omitzero"` // while open: the earliest time of the next probe
	Probes  int       `json:"probes,omitempty"`  // while open: number of failed probes
	// time of the last closing; deliveries postponed before are due since then
	RecoveredAt time.Time `json:"recovered_at,omitzero"`

	HoldUntil time.Time `json:"hold_until,omitzero"` // end of a pause that the endpoint asked for
	HeldAt    time.Time `json:"held_at,omitzero"`    // when it asked

	// While people see it as failing: its first failure. Then its first success after that. They are
	// stored so that a restart does not change since when.
	FailingAt time.Time `json:"failing_at,omitzero"`
	WorksAt   time.Time `json:"works_at,omitzero"`
	// While too large a part of the first attempts fails: since when. Then the end of the last such
	// time.
	DegradedAt time.Time `json:"degraded_at,omitzero"`
	SoundAt    time.Time `json:"sound_at,omitzero"`

	// Progress towards being disabled: consecutive deliveries whose first attempt failed with the
	// class that disables.
	Strikes int `json:"strikes,omitempty"`
	// the first failure since the last success
	FailingSince time.Time `json:"failing_since,omitzero"`
	Warned       int       `json:"warned,omitempty"` // percent of the last warning
	// time of the decision to disable the endpoint
	SentencedAt time.Time `json:"sentenced_at,omitzero"`
	Sentence    string    `json:"sentence,omitempty"` // the reason for the decision
	// one answer alone decided it: pending deliveries are held, even if the policy drops
	SentencedByAnswer bool `json:"sentenced_by_answer,omitempty"`
}

// Open says whether the breaker is open.
func (s *Standing) Open() bool { return !s.OpenedAt.IsZero() }

// Sighting is one finished attempt, as its endpoint's breaker sees it.
type Sighting struct {
	Outcome  Outcome
	Decision Decision
	Disables bool      // the endpoint is to be disabled, whatever the decision
	Hold     time.Time // the end of the pause that the endpoint asked for; zero: none
	Cause    string    // the result of the attempt, in words
	Started  time.Time
	Ended    time.Time
	Took     time.Duration // not negative; the probe after a probe comes that much earlier
	Probe    bool
	First    bool // the first attempt of its delivery
	// towards disabling: not on a person's request, no test, no replay, no operational event
	Counts bool
	Seed   uint64
}

// EndpointWide says whether a failure concerns the endpoint and not the content: any other delivery
// would fail too. A 4xx concerns the payload, and so does a 5xx with a wish that the policy grants:
// the receiver has decided. A block by our own guard and an unreadable answer prove neither.
func (o Outcome) EndpointWide() bool {
	switch o.Class {
	case ClassStatus5xx:
		return o.Wish == WishNone
	case ClassDNS, ClassConnect, ClassTLS, ClassTimeout, ClassReset:
		return true
	default:
		return false
	}
}

// alive says whether the outcome shows a working endpoint, even if it refuses.
func (o Outcome) alive() bool {
	return o.Status > 0 && o.complete() && (o.Class != ClassStatus5xx || o.Wish != WishNone)
}
