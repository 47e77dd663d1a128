package memory

import (
	"maps"
	"slices"

	"github.com/grapnelhq/grapnel"
)

// A database can lose its last transactions under nodes that run: a failover to a standby that was
// behind, a restored backup. Tests play that with Snapshot and Restore.

// Snapshot returns a copy of the store as it is now.
func (s *Store) Snapshot() *Store {
	s.serial.Lock()
	defer s.serial.Unlock()
	return open(s.model.snapshot())
}

func (s *model) snapshot() *model {
	c := newModel()
	c.config, c.standings = s.config, maps.Clone(s.standings)
	c.audit, c.noted, c.answers = slices.Clone(s.audit), maps.Clone(s.noted), maps.Clone(s.answers)
	c.known, c.asides = maps.Clone(s.known), slices.Clone(s.asides)
	c.accepted, c.made, c.purged = s.accepted, s.made, s.purged
	for p, t := range s.totals {
		total := *t
		c.totals[p] = &total
	}
	for p, t := range s.types {
		total := *t
		c.types[p] = &total
	}
	events := make(map[*event]*event, len(s.events))
	for _, e := range s.events {
		is := &event{Event: copyEvent(&e.Event), made: e.made}
		is.Intake = deepCopy(e.Intake)
		events[e], c.byID[named(&e.Event)] = is, is
		c.events = append(c.events, is)
	}
	items := make(map[*item]*item)
	for _, r := range s.replays {
		is := &replay{Replay: deepCopy(r.Replay)}
		for _, i := range r.items {
			one := &item{ReplayItem: i.ReplayItem}
			if i.of != nil {
				one.of = is
			}
			items[i], is.items = one, append(is.items, one)
		}
		c.replays = append(c.replays, is)
	}
	for endpoint, q := range s.queues {
		is := c.queue(endpoint)
		is.tenant, is.forgot, is.purged = q.tenant, q.forgot, q.purged
		for key, l := range q.lanes {
			is.lane(key).last = l.last
		}
	}
	for _, d := range s.deliveries {
		c.adopt(d, events[d.event], items[d.item])
	}
	return c
}

// adopt adds a copy of another store's delivery.
func (s *model) adopt(d *delivery, e *event, i *item) {
	is := *d
	is.event, is.item, is.tries = e, i, slices.Clone(d.tries)
	s.deliveries, e.deliveries = append(s.deliveries, &is), append(e.deliveries, &is)
	q := s.queue(d.Endpoint)
	if d.lane != nil {
		is.lane = q.lane(d.Key)
	}
	if d.status != grapnel.Pending {
		return
	}
	q.pending.add(&is)
	if is.lane != nil {
		is.lane.pending.add(&is)
	}
	s.enlist(&is)
}

// Restore brings the store back to a snapshot, which must not be used again. Configuration and
// standings stay as they are now: a loss of those is not simulated.
func (s *Store) Restore(then *Store) {
	s.serial.Lock()
	defer s.serial.Unlock()
	m, was := s.model, then.model
	m.events, m.byID, m.deliveries, m.queues = was.events, was.byID, was.deliveries, was.queues
	m.audit, m.noted, m.answers, m.known, m.asides = was.audit, was.noted, was.answers, was.known, was.asides
	m.totals, m.types, m.replays, m.leases = was.totals, was.types, was.replays, was.leases
	m.accepted, m.made, m.purged = was.accepted, was.made, was.purged
}
