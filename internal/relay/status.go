package relay

import "time"

// State is what a courier is doing.
type State string

// The states.
const (
	Connecting State = "connecting" // for the first time
	Relaying   State = "relaying"   // also while there is nothing to carry
	Standby    State = "standby"    // another server carries
	Held       State = "held"       // what it found cannot be stored at the moment
	Away       State = "away"       // the producer's database cannot be used
)

// Status is how the relay of a source is doing.
type Status struct {
	State   State
	Since   time.Time
	Detail  string        // why, where it is not well
	Place   string        // where the outbox is, without what is a secret
	Lag     time.Duration // how long the oldest event waits that was committed; while the database is away, at most so long
	SeenAt  time.Time     // when it was looked at last; zero: never
	MovedAt time.Time     // when something was carried last; zero: never since the start
	Moved   int64         // events since the start
	Aside   int64         // of those, set aside
}

func (c *courier) status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.now
	// What waits gets older while nobody looks.
	if !s.SeenAt.IsZero() && (s.State == Away || s.State == Held) {
		s.Lag += c.runner.o.Now().Sub(s.SeenAt)
	}
	return s
}

// set notes a state, and says whether it is a new one.
func (c *courier) set(state State, detail string) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = c.now.State != state
	if changed {
		c.now.Since = c.runner.o.Now()
	}
	c.now.State, c.now.Detail = state, detail
	return changed
}

// saw notes what a look found, and nothing of how things are: what was found may be what cannot be stored.
func (c *courier) saw(p page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.SeenAt, c.now.Lag = c.runner.o.Now(), max(p.age, 0)
}

// well notes that there is nothing to carry, or that it was carried, here or elsewhere.
func (c *courier) well(elsewhere bool) {
	state := Relaying
	if elsewhere {
		state = Standby
	}
	c.mu.Lock()
	before := c.now.State
	c.mu.Unlock()
	if c.set(state, "") && before == Away {
		c.runner.o.Log.Info("an outbox can be read again", "source", c.source.ID)
	}
}

// moved notes that a page was carried.
func (c *courier) moved(p page, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range p.rows {
		if p.rows[i].id != 0 {
			c.now.Moved++
		}
	}
	c.now.MovedAt = at
	if !p.full {
		c.now.Lag = 0
	}
}

func (c *courier) aside() {
	c.runner.metrics.count(aside)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Aside++
}
