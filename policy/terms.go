package policy

import "time"

// Limit narrows max_attempts and max_age after an answer with one of its codes. All attempts of a
// delivery count, whatever they were answered: a limit says how much longer such an answer is worth
// another try, not how often it was heard.
type Limit struct {
	Codes    []string `json:"codes"` // statuses and error classes, as in Classify
	Attempts int      `json:"attempts"`
	Within   Duration `json:"within,omitempty"` // of the first attempt; 0: no limit
}

// Class is the kind of an attempt's failure, decided once, where the response is read.
type Class string

// Limits of a receiver's Retry-After.
const (
	// MaxRetryAfter is the longest pause that a Retry-After causes.
	MaxRetryAfter = 24 * time.Hour
	// credibleRetryAfter is the longest Retry-After that is honoured; a longer one counts as a
	// mistake and is ignored.
	credibleRetryAfter = 7 * 24 * time.Hour
)
