package egress

import "sync/atomic"

// Stats counts what a sender has done since it was made.
type Stats struct {
	Attempts uint64 // that ended
	Reused   uint64 // went over a kept-alive connection; against Attempts, the hit rate
	Fresh    uint64 // went over a new connection
	Dialed   uint64 // connections made
	Blocked  uint64 // refused by the guard, or for their URL
	Written  uint64 // requests of which something was written: the most that receivers can have seen
	InFlight int64
	Open     int64 // connections
}

type counters struct {
	attempts, reused, fresh, dialed, blocked, written atomic.Uint64
	inFlight, open                                    atomic.Int64
}

// Stats returns the counts of now.
func (s *Sender) Stats() Stats {
	c := &s.counters
	return Stats{
		Attempts: c.attempts.Load(), Reused: c.reused.Load(), Fresh: c.fresh.Load(), Dialed: c.dialed.Load(),
		Blocked: c.blocked.Load(), Written: c.written.Load(), InFlight: c.inFlight.Load(), Open: c.open.Load(),
	}
}
