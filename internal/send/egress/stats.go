package egress

// Stats counts the work of a sender since it was made.
type Stats struct {
	Attempts uint64 // that ended
	Reused   uint64 // went over a kept-alive connection; against Attempts, the hit rate
	Fresh    uint64 // went over a new connection
	Dialed   uint64 // connections made
	Blocked  uint64 // refused by the guard, or for their URL
	// requests of which bytes were written: the most that receivers can have seen
	Written    uint64
	Unsendable uint64 // events for which a transform gave no body
	Deferred   uint64 // attempts postponed because the tenant's transforms are over their limit
	Batches    uint64 // requests with several events
	Divided    uint64 // those of them whose events were then sent alone
	InFlight   int64
	Open       int64 // connections
}

// Stats returns the counts of now.
func (s *Sender) Stats() Stats {
	c := &s.counters
	return Stats{
		Attempts:   c.attempts.Load(),
		Reused:     c.reused.Load(),
		Fresh:      c.fresh.Load(),
		Dialed:     c.dialed.Load(),
		Blocked:    c.blocked.Load(),
		Written:    c.written.Load(),
		Unsendable: c.unsendable.Load(),
		Deferred:   c.deferred.Load(),
		Batches:    c.batches.Load(),
		Divided:    c.divided.Load(),
		InFlight:   c.inFlight.Load(),
		Open:       c.open.Load(),
	}
}
