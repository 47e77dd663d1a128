package torture

import (
	"net/http"
	"strings"
	"time"
)

// Class says what an answer tells a sender. Values are bits, so that a request can allow several.
type Class uint8

// The classes of answers.
const (
	Accepted   Class = 1 << iota // 2xx: the sender does not send it again
	Redirected                   // 3xx: the sender does not follow it
	Refused                      // 4xx other than those below: a later attempt may end the same
	Conflict                     // 409: refused, or another copy is running
	Busy                         // 408, 425, 429, 503: a later attempt may succeed
	Failed                       // other 5xx
	Silent                       // no answer: closed, reset, or later than the limit
)

const (
	again = Conflict | Busy | Failed // a sender repeats the request
	no    = Refused | Conflict       // the receiver does not take it
	some  = Accepted | Redirected | Refused | Conflict | Busy | Failed
)

// classOf returns the class of a status; 0: there was no answer.
func classOf(status int) Class {
	switch {
	case status == 0:
		return Silent
	case status < 300:
		return Accepted
	case status < 400:
		return Redirected
	case status == 409:
		return Conflict
	case status == 408, status == 425, status == 429, status == 503:
		return Busy
	case status < 500:
		return Refused
	}
	return Failed
}

// says is the class in words, as part of "a sender takes 2xx or …".
func (c Class) String() string {
	var all []string
	for i, text := range []string{"2xx", "3xx", "4xx", "409", "503 or 429", "5xx", "no answer"} {
		if c&(1<<i) != 0 {
			all = append(all, text)
		}
	}
	return strings.Join(all, ", ")
}

// History is the record of one case.
type History struct {
	Events   []*Event   `json:"events"`
	Requests []*Request `json:"requests"`
	States   []*State   `json:"states,omitempty"`
	Marks    []Mark     `json:"marks,omitempty"`
}

// Event is an event of a history, and how many effects it may have.
type Event struct {
	ID       string    `json:"id"`
	Key      string    `json:"key,omitempty"`
	Label    string    `json:"label,omitempty"`
	Least    int       `json:"least"` // effects that it has once a request of it is accepted
	Most     int       `json:"most"`  // effects that it never exceeds
	Readings []Reading `json:"readings,omitempty"`

	header http.Header // before it is signed
	body   []byte
	byKey  bool // its effects are read by its key
	other  bool // it is sent to the second source
}

// effects is the most that was ever read; false: nothing was.
func (e *Event) effects() (most int, read bool) {
	for _, r := range e.Readings {
		most, read = max(most, r.Effects), true
	}
	return most, read
}

// accepted reports whether a genuine request of an event was accepted, and whether one before it
// was not.
func (h *History) accepted(event int) (accepted, failed bool) {
	for _, r := range h.Requests {
		if r.Event == event && !r.Forged && !accepted {
			accepted = classOf(r.Status) == Accepted
			failed = failed || !accepted
		}
	}
	return accepted, failed
}

// Reading is one answer of the probe.
type Reading struct {
	At      time.Duration `json:"at"` // since the case began, in nanoseconds
	Effects int           `json:"effects"`
	State   string        `json:"state,omitempty"`
	Version string        `json:"version,omitempty"`
	Amount  string        `json:"amount,omitempty"`
}

// field is a value of a reading by its name in the probe's JSON; empty: the probe does not have it.
func (r Reading) field(name string) string {
	return map[string]string{"state": r.State, "version": r.Version, "amount": r.Amount}[name]
}

// Request is one request and its answer.
type Request struct {
	Event   int           `json:"event"` // index in History.Events
	Label   string        `json:"label"`
	Forged  bool          `json:"forged,omitempty"` // a receiver must not act on it
	Allowed Class         `json:"allowed"`
	Start   time.Duration `json:"start"`
	Took    time.Duration `json:"took"`
	Status  int           `json:"status,omitempty"`
	Error   string        `json:"error,omitempty"`   // why there is no status
	Outcome string        `json:"outcome,omitempty"` // its Webhook-Outcome
	Killed  bool          `json:"killed,omitempty"`  // the receiver was killed meanwhile
	Slow    bool          `json:"slow,omitempty"`    // it was made slow on purpose

	server string // by which the language of the receiver is guessed
}

// State is a value that a key must have at the end.
type State struct {
	Key   string        `json:"key"`
	Field string        `json:"field"` // version, state or amount
	Want  string        `json:"want"`
	Got   string        `json:"got,omitempty"` // empty: it was not read
	At    time.Duration `json:"at"`

	extra bool // the case is judged without it, too
}

func (s *State) wrong() bool { return s.Got != "" && s.Got != s.Want }

// Mark is something that was done to the receiver: killed, started, its clock set.
type Mark struct {
	At    time.Duration `json:"at"`
	Event string        `json:"event,omitempty"` // id of the only event that it concerns
	Text  string        `json:"text"`
}
