package grapnel

import "time"

// Replay is a durable job that delivers again. Which deliveries it is about is fixed when it is made: those that were over by then
// and match; what is over never changes. It goes through them in the order in which they were accepted, one step a transaction, so a crash
// skips none and repeats none.
type Replay struct {
	ID        string
	Tenant    string
	Endpoint  string // whose deliveries, and where they go again
	Selection Selection
	Rate      float64 // deliveries in a second
	StopAfter int     // failures in a row end it; 0: never
	Canary    bool    // the first one has to be delivered before the others start

	Status     ReplayStatus
	Reason     string // why it is paused, cancelled or stopped
	UpTo       int64  // the number of the newest delivery when it was made: nothing newer is meant
	Cursor     int64  // the number of the last delivery that was looked at
	Total      int    // deliveries to be made, as counted when it was made
	Started    int    // made so far
	Done       int    // of them over
	Delivered  int
	Failed     int // over, and not delivered
	Row        int // of them failures in a row, in the order in which they ended
	CreatedAt  time.Time
	UpdatedAt  time.Time
	FinishedAt time.Time
	Actor      string // who started it
	Revision   int64
}

// Selection says which deliveries of an endpoint are meant.
type Selection struct {
	Deliveries []int64   `json:"deliveries,omitempty"` // these, and nothing else; empty: by what follows
	From       time.Time `json:"from,omitzero"`        // of the event's acceptance, inclusive
	To         time.Time `json:"to,omitzero"`          // exclusive
	Types      []string  `json:"types,omitempty"`      // patterns; empty: any
	Keys       []string  `json:"keys,omitempty"`       // empty: any
	Status     []Status  `json:"status,omitempty"`     // final ones; empty: failed
	Again      bool      `json:"again,omitempty"`      // also those that were replayed with success already
}

// ReplayStatus is where a replay is.
type ReplayStatus string

// The statuses. The last three are final.
const (
	ReplayRunning   ReplayStatus = "running"
	ReplayPaused    ReplayStatus = "paused"
	ReplayCompleted ReplayStatus = "completed"
	ReplayCancelled ReplayStatus = "cancelled"
	ReplayStopped   ReplayStatus = "stopped" // too many failures in a row
)

// Final says whether the replay is over.
func (s ReplayStatus) Final() bool { return s != ReplayRunning && s != ReplayPaused }

// ReplayItem is one delivery of a replay.
type ReplayItem struct {
	Original  int64     // its number
	CreatedAt time.Time // of the original, for its id
	Made      int64     // the new delivery
	MadeAt    time.Time
	Status    Status // of the new one; Pending while it is not over
}

// Mark is what has been noted on a delivery since it was over. It changes nothing about what became of it.
type Mark struct {
	Note          string
	DiscardedAt   time.Time // it is no dead letter any more: somebody has looked at it
	DiscardReason string
	ReplayedAt    time.Time // when it was last delivered again
	ReplayedBy    string    // the replay's id; empty: by hand
	ReplayedAs    int64     // the new delivery
	ReplayResult  Status    // what became of that; Pending while it is not over
}
