// Package insight says why deliveries fail. It puts failures that look alike into groups, and it
// explains failures by what they have in common and successes have not: a value in the payload, the
// event type, the size, the secret that signed, the address that answered, the certificate, a
// duration, a span of time.
//
// It is arithmetic over observations that its caller hands in, without a clock, a store or a
// goroutine: the same observations give the same causes, whatever their order.
//
// It promises a cause only if chance is a bad explanation (leastEvidence), and it never says more
// than that failures are associated with something: a receiver's code is not to be seen from here.
package insight

import "time"

// Observation is one attempt, with everything about it that may explain its outcome.
type Observation struct {
	At       time.Time
	Failed   bool
	Endpoint string
	Type     string // of the event
	Class    string // of the failure: timeout, tls, …; empty: an answer told it, or it did not fail
	Status   int    // 0: no answer
	Answer   string // of a failure: the fingerprint of the answer's body
	Size     int    // bytes of the request's body
	Took     time.Duration
	Traits   []Trait
}

// Trait is one thing that an observation had. Its kind says which sentence is made of it.
type Trait struct {
	Kind  Kind
	Name  string // of a field in the payload: its path; empty for the other kinds
	Value string // empty: the field has one that is not compared
}

// Kind is a kind of cause.
type Kind string

// The kinds, those that say most to a person first: of two causes that explain the same attempts
// equally well, the first is named.
const (
	Secret      Kind = "secret"      // the secrets that signed
	Certificate Kind = "certificate" // that the receiver showed
	Address     Kind = "address"     // that the request went to
	Endpoint    Kind = "endpoint"    // in causes over several endpoints
	Settings    Kind = "settings"    // the revision of the endpoint's settings
	Type        Kind = "type"        // of the event
	Field       Kind = "field"       // a value in the payload, or its absence
	Size        Kind = "size"        // from a number of bytes on
	TimeLimit   Kind = "time_limit"  // a duration at which failures end
	Outage      Kind = "outage"      // a span in which nearly everything failed, and after which it went
	Since       Kind = "since"       // a moment from which on it fails
)

func kinds() []Kind {
	return []Kind{Secret, Certificate, Address, Endpoint, Settings, Type, Field, Size, TimeLimit, Outage, Since}
}

// The limits of an explanation.
const (
	leastFailures = 8    // that a cause has to explain
	leastRate     = 0.5  // of the attempts with the cause, the part that has to fail
	leastLift     = 3    // by how much more often attempts fail with the cause than without it
	leastEvidence = 10.0 // how much less likely chance is, in powers of e, after counting every cause that was tried
	longestOutage = 30 * time.Minute
	mostGroups    = 5   // of failures that are explained one by one
	mostValues    = 256 // different values of one trait that are counted; the rest are passed over
	mostCauses    = 3   // that are named
)

// Cause is something that failures have in common and successes have not.
type Cause struct {
	Kind      Kind
	Name      string    // of a field: its path
	Value     string    // of a trait; of a time limit: its duration; for a field that is absent: Absent
	Bytes     int       // of Size: failing requests have this many bytes or more
	From, To  time.Time // of Outage and Since: the first and the last failure
	Failed    int       // attempts with it that failed
	Delivered int       // attempts with it that did not
	Failures  int       // of the attempts compared: for an address, those of which it is known
	Successes int
	Evidence  float64 // see leastEvidence
	Group     *Group  // the failures that were compared, if they are one group; nil: all
}

// Absent is the value of a field that a payload did not have.
const Absent = "\x00absent"

// Group is failures that look alike: of one endpoint, class, status, and answer without numbers,
// ids and times.
type Group struct {
	Endpoint    string
	Class       string
	Status      int
	Answer      string
	Count       int
	First, Last time.Time
	Example     int // index of its last observation
}
