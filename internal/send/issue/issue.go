package issue

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// State is what people have decided about an issue, or Grapnel itself.
type State string

// The states.
const (
	Open         State = "open"
	Acknowledged State = "acknowledged" // a person is on it
	Muted        State = "muted"        // until MutedUntil; then it is open
	Resolved     State = "resolved"     // another failure opens it again
)

// States lists them.
func States() []State { return []State{Open, Acknowledged, Muted, Resolved} }

// Issue is failures that look alike, and what people have decided about them.
type Issue struct {
	ID       string       `json:"id"`
	Tenant   string       `json:"tenant"`
	Endpoint string       `json:"endpoint"`
	Class    policy.Class `json:"class"`
	Status   int          `json:"status,omitempty"`
	Answer   string       `json:"answer,omitempty"`
	Delta

	State      State     `json:"state"`
	MutedUntil time.Time `json:"muted_until,omitzero"`
	Owner      string    `json:"owner,omitempty"`
	Note       string    `json:"note,omitempty"`

	ChangedAt   time.Time `json:"changed_at,omitzero"` // of State
	ChangedBy   string    `json:"changed_by,omitempty"`
	Resolution  string    `json:"resolution,omitempty"`  // why it was resolved
	ReopenedAt  time.Time `json:"reopened_at,omitzero"`  // the first failure after the last resolution
	Regressions int       `json:"regressions,omitempty"` // failures after a resolution that opened it again
	ResolvedAt  time.Time `json:"resolved_at,omitzero"`  // the last time
	Revision    int64     `json:"-"`                     // of the document; 0: it is not stored
}

// New is the issue of a group without any failure yet.
func New(g Group) *Issue {
	return &Issue{ID: g.ID(), Tenant: g.Tenant, Endpoint: g.Endpoint, Class: g.Class, Status: g.Status, Answer: g.Answer, State: Open}
}

// At is the state at a time: a muted issue is open once its time is over.
func (i *Issue) At(now time.Time) State {
	if i.State == Muted && !i.MutedUntil.After(now) {
		return Open
	}
	return i.State
}

// ahead is by how much a resolution or a failure has to be in the future to be one by a clock that
// was ahead.
const ahead = time.Hour

// Merge adds failures. One that is later than the resolution, or comes after one by a clock that
// was ahead, opens the issue again; one that was recorded before and is only flushed now does not.
func (i *Issue) Merge(d *Delta, now time.Time) {
	if i.Last.Sub(now) >= ahead { // else no hour and no example of now would be stored
		i.Last = time.Time{}
		i.Hours = slices.DeleteFunc(i.Hours, func(h Hour) bool { return h.At > hourOf(now) })
		i.Examples = slices.DeleteFunc(i.Examples, func(e Example) bool { return e.At.After(now) })
	}
	i.Delta.Merge(d)
	if i.State != Resolved || !d.Last.After(i.ResolvedAt) && i.ResolvedAt.Sub(now) < ahead {
		return
	}
	i.State, i.ChangedAt, i.ChangedBy, i.Resolution = Open, d.Last, "", ""
	i.ReopenedAt = d.Last
	if d.First.After(i.ResolvedAt) {
		i.ReopenedAt = d.First
	}
	i.Regressions++
}

// Set changes the state, as a person or Grapnel itself decided.
func (i *Issue) Set(s State, now time.Time, by, why string) {
	i.State, i.ChangedAt, i.ChangedBy, i.Resolution, i.MutedUntil = s, now, by, "", time.Time{}
	if s == Resolved {
		i.Resolution, i.ResolvedAt = why, now
	}
}

// Needs is how many successes of its endpoint after its last failure resolve the issue.
func (i *Issue) Needs(b Bounds) int64 {
	b = b.filled()
	return int64(b.Successes) << min(i.Regressions, b.Doublings)
}

// Began is the first failure of the present run: after a resolution, the one that opened it again.
func (i *Issue) Began() time.Time {
	if i.Regressions > 0 && !i.ReopenedAt.IsZero() {
		return i.ReopenedAt
	}
	return i.First
}

// From is a time before which no event of the issue's deliveries was accepted; zero: unknown.
func (i *Issue) From() time.Time {
	if i.Redelivered || i.Oldest.IsZero() {
		return time.Time{}
	}
	return i.Oldest.Add(-time.Minute) // an event is accepted shortly before its deliveries are created
}

// Affected returns how many deliveries and keys have failed, and whether these are estimates.
func (i *Issue) Affected() (deliveries, keys int, approximate bool) {
	deliveries, roughly := i.Deliveries.count()
	keys, also := i.Keys.count()
	return deliveries, keys, roughly || also
}

// Sparkline returns the failures of the 48 hours up to a time, hour by hour, and when the first one
// began.
func (i *Issue) Sparkline(now time.Time) (from time.Time, counts []int64) {
	first := hourOf(now) - hours + 1
	counts = make([]int64, hours)
	for _, h := range i.Hours {
		if at := h.At - first; at >= 0 && at < hours {
			counts[at] = h.Count
		}
	}
	return time.Unix(first*3600, 0).UTC(), counts
}

// Encode writes the issue as a document's body.
func (i *Issue) Encode() ([]byte, error) {
	body, err := json.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("issue: %s cannot be written: %w", i.ID, err)
	}
	return body, nil
}

// Decode reads a document's body.
func Decode(body []byte, revision int64) (*Issue, error) {
	i := new(Issue)
	if err := json.Unmarshal(body, i); err != nil {
		return nil, fmt.Errorf("issue: a stored issue cannot be read: %w", err)
	}
	i.Revision = revision
	return i, nil
}
