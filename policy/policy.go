// Package policy holds the rules that turn the outcomes of attempts into decisions: when to retry,
// when to give up, which outcome is a success. It is pure: attempts so far and an outcome in,
// decision and next time out. The engine, the planned attempts of a delivery, the simulator and the
// linter all call the same functions, so a shown plan is the plan that is carried out.
package policy

import (
	"time"
)

// Policy says how deliveries to an endpoint are tried. Its JSON form is that of the API; decode it
// with Parse. Omitted fields come from the policy that Preset names.
type Policy struct {
	Name string `json:"name,omitempty"`
	// its base: a preset, or a named policy of which it is a copy. A preset names itself.
	Preset string `json:"preset,omitempty"`
	// the preset whose Shape it has; empty: that of Preset
	Shape       string              `json:"shape,omitempty"`
	Timeout     Duration            `json:"timeout"`
	Schedule    Schedule            `json:"schedule"`
	Jitter      Jitter              `json:"jitter"`
	MaxAttempts int                 `json:"max_attempts"` // 0: no limit
	MaxAge      Duration            `json:"max_age"`      // 0: no limit
	Success     []string            `json:"success"`
	Classify    map[string]Decision `json:"classify"`
	Limits      []Limit             `json:"limits"` // empty: none
	RetryAfter  RetryAfterRule      `json:"retry_after"`
	OnExhausted Exhaustion          `json:"on_exhausted"`
	Then        Then                `json:"then"`
	Disable     Disable             `json:"disable"`
	Breaker     *Breaker            `json:"breaker"` // nil: the default breaker
}

// The classes, and the empty class of an attempt that has not happened.
const (
	ClassNone      Class = "none" // success
	ClassDNS       Class = "dns"
	ClassConnect   Class = "connect"
	ClassTLS       Class = "tls"
	ClassTimeout   Class = "timeout"
	ClassReset     Class = "reset"
	ClassProtocol  Class = "protocol"
	ClassRedirect  Class = "redirect"
	ClassBlocked   Class = "blocked" // our own guard refused the address
	ClassStatus3xx Class = "status_3xx"
	ClassStatus4xx Class = "status_4xx"
	ClassStatus429 Class = "status_429"
	ClassStatus5xx Class = "status_5xx"
	ClassInternal  Class = "internal" // our own fault: consumes no attempt
	ClassProxy     Class = "proxy"    // a forward proxy on the way to the endpoint failed
	ClassToken     Class = "token"    // no usable token of the endpoint's OAuth2 token server
)

// The classes of a lease. A lease has no status; one that was acked is ClassNone.
const (
	ClassNack   Class = "nack"
	ClassReject Class = "reject"
	ClassLease  Class = "lease_over" // the consumer did not settle in time
)

// Classes lists all classes.
func Classes() []Class {
	return []Class{ClassNone, ClassDNS, ClassConnect, ClassTLS, ClassTimeout, ClassReset, ClassProtocol, ClassRedirect, ClassBlocked,
		ClassStatus3xx, ClassStatus4xx, ClassStatus429, ClassStatus5xx, ClassInternal, ClassNack, ClassReject, ClassLease, ClassProxy,
		ClassToken}
}

// ClassOf is the class of an answer by its status.
func ClassOf(status int) Class {
	switch {
	case status >= 200 && status <= 299:
		return ClassNone
	case status >= 300 && status <= 399:
		return ClassRedirect
	case status == 429:
		return ClassStatus429
	case status >= 400 && status <= 499:
		return ClassStatus4xx
	case status >= 500 && status <= 599:
		return ClassStatus5xx
	default:
		return ClassProtocol
	}
}

// Decision is the consequence of an outcome.
type Decision string

// The decisions.
const (
	Deliver         Decision = "deliver"
	Retry           Decision = "retry"
	Fail            Decision = "fail"
	Throttle        Decision = "throttle" // retry, and pause the whole endpoint until then
	DisableEndpoint Decision = "disable"  // fail, and disable the endpoint
)

// Outcome is the result of an attempt.
type Outcome struct {
	Status        int // HTTP status; 0 when there was no response
	Class         Class
	RetryAfter    time.Duration // from the receiver; meaningful if HasRetryAfter
	HasRetryAfter bool
	// in place of the schedule's, set by a consumer; meaningful if HasDelay
	Delay    time.Duration
	HasDelay bool
	// of the header webhook-delivery; Heed says which part of it counts
	Wish Wish
}

// Progress is the state of a delivery that the policy needs.
type Progress struct {
	Attempts int // countable attempts so far
	// start of the first attempt; before that, when the delivery became the head of its lane
	Anchor time.Time
	Seed   uint64 // of this delivery's jitter: the same seed always gives the same times
	// outcome of the last attempt, for Plan; zero: unknown
	Last Outcome
}

// Step is the decision after an attempt.
type Step struct {
	Decision  Decision
	Next      time.Time // of the next attempt; zero: none
	Latest    time.Time // the latest the jitter could have put Next
	Exhausted bool      // a retry was right, but the attempts or the age are used up
	Expired   bool      // Exhausted because of the age
	Limited   bool      // Exhausted because of a limit for this outcome
	Hold      time.Time // Throttle, or a wish in its place: the endpoint is paused until then
	Disables  bool      // the endpoint is to be disabled, whatever the decision
}

// Planned is one attempt still to come if every one before it fails.
type Planned struct {
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	Latest time.Time `json:"latest" doc:"the latest that jitter can put it"`
}

// asked says whether the outcome carries a Retry-After that this policy heeds.
func (p *Policy) asked(o Outcome) bool {
	return p.RetryAfter != RetryAfterIgnore && o.HasRetryAfter && o.RetryAfter >= 0 && o.RetryAfter <= credibleRetryAfter
}
