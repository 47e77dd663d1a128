package demo

import (
	"encoding/json"
	"net/http"
)

// The receivers; a receiver's path is its name. Healthy accepts every signed request.
const (
	Healthy = "healthy"
	Flaky   = "flaky"
	Ledger  = "ledger"

	// Anything accepts every request and verifies nothing, for endpoints that a viewer adds.
	Anything = "anything"
)

// answer is a receiver's answer to a verified request.
type answer struct {
	status int
	why    string // empty if the status is 2xx
}

var accepted = answer{status: http.StatusOK}

func newFlaky() flaky { return flaky{refusals: map[string]int{}} }

func (f *flaky) take(event string) answer {
	left, known := f.refusals[event]
	switch {
	case f.down:
		if !known {
			f.refusals[event] = 0 // when it is up again the event is accepted at once
		}
		return answer{http.StatusServiceUnavailable, "it is down for a moment; watch the circuit"}
	case !known:
		f.arrivals++
		if f.arrivals%3 != 1 {
			return accepted
		}
		left = 2
	}
	if left == 0 {
		delete(f.refusals, event)
		return accepted
	}
	f.refusals[event] = left - 1
	return answer{http.StatusServiceUnavailable, "it is flaky; watch the retry"}
}

func newLedger() ledger { return ledger{booked: map[string]bool{}} }

func (l *ledger) take(event string, body []byte) answer {
	var envelope struct {
		Data struct{ Currency string }
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return answer{http.StatusBadRequest, "the body is not JSON"}
	}
	if envelope.Data.Currency == "JPY" && !l.fixed {
		return answer{http.StatusUnprocessableEntity, "currency JPY is not known"}
	}
	l.Requests++
	l.Naive++
	if l.booked[event] {
		return accepted
	}
	l.booked[event] = true
	l.Events++
	l.Effects++
	if l.Events%3 == 1 {
		return answer{http.StatusInternalServerError, "it failed after it had booked the payment; watch the duplicate"}
	}
	return accepted
}

// Fix repairs the ledger: it accepts payments in yen from now on.
func (r *Receivers) Fix() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger.fixed = true
}

// Fixed says whether the ledger has been repaired.
func (r *Receivers) Fixed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ledger.fixed
}

// Count returns the ledger's counts.
func (r *Receivers) Count() Count {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ledger.Count
}

// down makes the flaky receiver refuse every request, or ends that.
func (r *Receivers) down(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flaky.down = is
}
