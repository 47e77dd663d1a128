package ownership

import (
	"context"
	"time"
)

func (m moment) add(d time.Duration) moment { return moment{m.wall.Add(d), m.steady + d} }

// before says whether a deadline lies ahead by both clocks. The zero deadline never does.
func (m moment) before(until moment) bool {
	return m.steady < until.steady && m.wall.Before(until.wall)
}

// left is the time until a deadline, by the clock that says less.
func (m moment) left(until moment) time.Duration {
	return min(until.steady-m.steady, until.wall.Sub(m.wall))
}

// since is the time since an earlier moment, by the clock that says more.
func (m moment) since(earlier moment) time.Duration {
	return max(m.steady-earlier.steady, m.wall.Sub(earlier.wall))
}

// steadily makes a steady clock that starts now.
func steadily() func() time.Duration {
	began := time.Now()
	// above 0, which means never
	return func() time.Duration { return time.Since(began) + time.Second }
}

// now is the current moment by both clocks.
func (s *Shards) now() moment { return moment{s.env.Now(), s.cluster.Steady()} }

// Pulse makes the pulse of a loop.
func (w *Watchdog) Pulse(loop string) *Pulse {
	p := &Pulse{dog: w, loop: loop}
	w.pulses = append(w.pulses, p)
	return p
}

// Work notes that the loop begins a piece of work.
func (p *Pulse) Work() {
	if p.dog.steady != nil {
		p.busy.Store(int64(p.dog.steady()))
	}
}

// Rest notes that the loop has finished its piece of work.
func (p *Pulse) Rest() { p.busy.Store(0) }

// stalled is the loop that has been at one piece of work for longer than a lease; empty: none. A
// node with such a loop would renew leases of endpoints it does not serve, so it releases them. A
// commit may take two thirds of a lease before the store aborts it: one third queued behind another
// one, one third running. So a database that is slow or unreachable for a moment stalls no loop.
func (w *Watchdog) stalled(lease time.Duration) string {
	now := w.steady()
	for _, p := range w.pulses {
		if since := p.busy.Load(); since != 0 && now-time.Duration(since) > lease {
			return p.loop
		}
	}
	return ""
}

// Reading bounds one read of the store by a loop. A node that is alone has no limit: a slow read
// there keeps no other node from taking over.
func (s *Shards) Reading(ctx context.Context) (context.Context, context.CancelFunc) {
	if s == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.cluster.Lease/time.Duration(s.bounds.Parts))
}
