package relay

import "time"

// The states.
const (
	Connecting State = "connecting" // for the first time
	Relaying   State = "relaying"   // also with nothing to carry
	Standby    State = "standby"    // another server carries
	Held       State = "held"       // storing its events fails at the moment
	Away       State = "away"       // the producer's database, or the broker, cannot be used
)

func (c *courier) status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.now
	// Events age while no look succeeds.
	if !s.SeenAt.IsZero() && (s.State == Away || s.State == Held) {
		s.Lag += c.runner.o.Now().Sub(s.SeenAt)
	}
	return s
}

// set notes a state, and returns the one before.
func (c *courier) set(state State, detail string) (before State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before = c.now.State; before != state {
		c.now.Since = c.runner.o.Now()
	}
	c.now.State, c.now.Detail = state, detail
	return before
}

// saw records the result of a look, but not the state: storing these rows may still fail.
func (c *courier) saw(p page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.SeenAt, c.now.Lag = c.runner.o.Now(), max(p.age, 0)
}

// well records that the outbox is empty, or that its rows were carried, here or by another courier.
func (c *courier) well(elsewhere bool) {
	state := Relaying
	if elsewhere {
		state = Standby
	}
	if c.set(state, "") == Away {
		c.runner.o.Log.Info("source can be read again", "source", c.source.ID)
	}
}

// moved notes that a page was carried. Its rows that were set aside count only now, because a page
// that is refused is tried again.
func (c *courier) moved(p page, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range p.rows {
		if p.rows[i].id != 0 {
			c.now.Moved++
		}
	}
	clear(c.given)
	for range c.aside {
		c.runner.count(aside)
		c.now.Aside++
	}
	c.now.MovedAt = at
	if !p.full {
		c.now.Lag = 0
	}
}

// The outcomes of a row, as count counts them.
const (
	accepted = "accepted"
	repeated = "duplicate"
	aside    = "set_aside"
)

func (r *Runner) count(outcome string) { r.events.WithLabelValues(outcome).Inc() }
