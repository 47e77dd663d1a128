package grapnel

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// Replay is a durable job that redelivers finished deliveries. Its selection is fixed when it is
// created: the matching deliveries that had finished by then, because a finished delivery never
// changes. It redelivers them in the order of acceptance, one step per transaction, so a crash
// skips none and repeats none.
type Replay struct {
	ID        string
	Tenant    string
	Endpoint  string // of the deliveries, original and new
	Selection Selection
	Rate      float64 // deliveries in a second
	StopAfter int     // consecutive failures that end it; 0: never
	Canary    bool    // the first must be delivered before the others start

	Status     ReplayStatus
	Reason     string // why it is paused, cancelled or stopped
	UpTo       int64  // row id of the newest delivery at creation; newer ones are excluded
	Cursor     int64  // row id of the last examined delivery
	Total      int    // deliveries to create, as counted at creation
	Started    int    // created so far
	Done       int    // of Started: finished
	Delivered  int
	Failed     int // finished, and not delivered
	Row        int // of Failed: the current run of consecutive ones
	CreatedAt  time.Time
	UpdatedAt  time.Time
	FinishedAt time.Time
	Actor      string // the operator or key that started it
	Revision   int64
}

// Selection selects deliveries of an endpoint.
type Selection struct {
	// exactly these; empty: selected by the fields below
	Deliveries []int64   `json:"deliveries,omitempty"`
	From       time.Time `json:"from,omitzero"`    // of the event's acceptance, inclusive
	To         time.Time `json:"to,omitzero"`      // exclusive
	Types      []string  `json:"types,omitempty"`  // patterns; empty: any
	Keys       []string  `json:"keys,omitempty"`   // empty: any
	Status     []Status  `json:"status,omitempty"` // final ones; empty: failed
	// of the last attempt; empty and 0: any
	Class      policy.Class `json:"class,omitempty"`
	StatusCode int          `json:"status_code,omitempty"`
	// also those that were already replayed with success
	Again bool `json:"again,omitempty"`
}

// Of says whether the selection wants deliveries of an event with this type and key.
func (s *Selection) Of(eventType, key string) bool {
	ofType := func(pattern string) bool { return MatchType(pattern, eventType) }
	return (len(s.Keys) == 0 || slices.Contains(s.Keys, key)) && (len(s.Types) == 0 || slices.ContainsFunc(s.Types, ofType))
}

// Ended says whether a delivery's last attempt is one that the selection wants.
func (s *Selection) Ended(last *Last) bool {
	return (s.Class == "" || s.Class == last.Class) && (s.StatusCode == 0 || s.StatusCode == last.StatusCode)
}

// ReplayStatus is the state of a replay.
type ReplayStatus string

// The statuses. The last three are final.
const (
	ReplayRunning   ReplayStatus = "running"
	ReplayPaused    ReplayStatus = "paused"
	ReplayCompleted ReplayStatus = "completed"
	ReplayCancelled ReplayStatus = "cancelled"
	ReplayStopped   ReplayStatus = "stopped" // too many consecutive failures
)

// Final says whether the replay is finished.
func (s ReplayStatus) Final() bool { return s != ReplayRunning && s != ReplayPaused }

// ReplayItem is one delivery of a replay.
type ReplayItem struct {
	Original  int64     // its row id
	CreatedAt time.Time // of the original, for its id
	Made      int64     // the new delivery
	MadeAt    time.Time
	Status    Status // of the new one; Pending until it is finished
}
