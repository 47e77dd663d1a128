package backoff

import (
	"sync"
	"time"
)

// Tally limits log lines about requests that strangers can repeat at will: the first at once, then
// one for each period at most, with the count since the line before. Requests after the last line
// are counted in the metrics alone.
type Tally struct {
	mu    sync.Mutex
	said  time.Time // when the last line was; zero: there was none
	count int       // since then
}

// Add counts one, and says whether a line is due and its count. If the clock was set back, a line
// is due.
func (t *Tally) Add(now time.Time, every time.Duration) (count int, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	if since := now.Sub(t.said); !t.said.IsZero() && since >= 0 && since < every {
		return 0, false
	}
	count, t.count, t.said = t.count, 0, now
	return count, true
}
