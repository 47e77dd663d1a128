package promise

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Count is how many events were good and bad.
type Count struct{ Good, Bad int64 }

// All is their number.
func (c Count) All() int64 { return c.Good + c.Bad }

func (c *Count) add(o Count) { c.Good, c.Bad = c.Good+o.Good, c.Bad+o.Bad }

// Hour has the counts of one hour: one for each slot and indicator, and the durations of
// Accept, Receive, Dispatch and Arrive.
type Hour struct {
	slots [PerHour][indicators]Count
	took  [timed]grapnel.Latency
}

// timed is how many indicators, the first ones, have durations.
const timed = int(Arrive) + 1

// Add counts one event at a time of the hour. took is ignored if it is negative, and for indicators
// without durations.
func (h *Hour) Add(at time.Time, i Indicator, good bool, took time.Duration) {
	if n := &h.slots[slotOf(at)][i]; good {
		n.Good++
	} else {
		n.Bad++
	}
	if int(i) < timed && took >= 0 {
		h.took[i].Count(took)
	}
}

// Plus adds the counts of another.
func (h *Hour) Plus(o *Hour) {
	for s := range h.slots {
		for i := range h.slots[s] {
			h.slots[s][i].add(o.slots[s][i])
		}
	}
	for i := range h.took {
		h.took[i].Add(&o.took[i])
	}
}

// slotOf is the slot of its hour that a time is in.
func slotOf(at time.Time) int { return at.UTC().Minute() / int(Slot/time.Minute) }

// The stored form leaves out zeros: a quiet hour has a few bytes.
type storedHour struct {
	Slots   []map[string][2]int64        `json:"slots"`
	Latency map[string]map[string]uint64 `json:"latency,omitempty"`
}

// MarshalJSON writes the hour as documents have it.
func (h Hour) MarshalJSON() ([]byte, error) {
	out := storedHour{Slots: make([]map[string][2]int64, PerHour), Latency: map[string]map[string]uint64{}}
	for s := range h.slots {
		out.Slots[s] = map[string][2]int64{}
		for i, n := range h.slots[s] {
			if n != (Count{}) {
				out.Slots[s][names[i]] = [2]int64{n.Good, n.Bad}
			}
		}
	}
	for i := range h.took {
		buckets := map[string]uint64{}
		for b, n := range h.took[i] {
			if n > 0 {
				buckets[strconv.Itoa(b)] = n
			}
		}
		if len(buckets) > 0 {
			out.Latency[names[i]] = buckets
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads it. Indicators of a later version are ignored.
func (h *Hour) UnmarshalJSON(text []byte) error {
	var in storedHour
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	if len(in.Slots) != PerHour {
		return fmt.Errorf("promise: %d slots instead of %d", len(in.Slots), PerHour)
	}
	*h = Hour{}
	for i, name := range names {
		for s := range in.Slots {
			n := in.Slots[s][name]
			if n[0] < 0 || n[1] < 0 {
				return fmt.Errorf("promise: a negative count of %s", name)
			}
			h.slots[s][i] = Count{n[0], n[1]}
		}
		if i >= timed {
			continue
		}
		for key, n := range in.Latency[name] {
			b, err := strconv.Atoi(key)
			if err != nil || b < 0 || b >= grapnel.LatencyBuckets {
				return fmt.Errorf("promise: no bucket %q", key)
			}
			h.took[i][b] = n
		}
	}
	return nil
}
