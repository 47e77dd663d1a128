package engine

import (
	"context"
	"sync/atomic"
	"time"
)

// moment is one instant by two clocks. The wall clock can be set; the steady one cannot, but stands still while the machine is suspended. A lease is
// over when either says so: a wall clock that is set forward costs a lease, and one that is set back prolongs none.
type moment struct {
	wall   time.Time
	steady time.Duration
}

func (m moment) add(d time.Duration) moment { return moment{m.wall.Add(d), m.steady + d} }

// before says whether a deadline is still ahead by both clocks. The zero deadline never is.
func (m moment) before(until moment) bool {
	return m.steady < until.steady && m.wall.Before(until.wall)
}

// left is how long it is until a deadline by the clock that says less.
func (m moment) left(until moment) time.Duration {
	return min(until.steady-m.steady, until.wall.Sub(m.wall))
}

// since is how long ago an earlier moment was by the clock that says more.
func (m moment) since(earlier moment) time.Duration {
	return max(m.steady-earlier.steady, m.wall.Sub(earlier.wall))
}

// steadily makes a steady clock that begins now.
func steadily() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) + time.Second } // above 0, which is never
}

// now is the present by both clocks.
func (s *shards) now() moment { return moment{s.e.now(), s.cluster.Steady()} }

// pulse shows since when a loop has been at one piece of work.
type pulse struct {
	loop string
	busy atomic.Int64 // by the steady clock; 0: it has none
}

// work notes that a loop begins a piece of work, rest that it has finished it.
func (e *Engine) work(p *pulse) {
	if e.shards != nil {
		p.busy.Store(int64(e.shards.cluster.Steady()))
	}
}

func (p *pulse) rest() { p.busy.Store(0) }

// stalledLoop is the loop that has been at one piece of work for longer than a lease; empty: all move. A node with such a loop renews leases of
// endpoints for which it does nothing, so it gives them up. A commit may take two thirds of a lease before the store itself gives it up: one
// third in line behind another one, one under way. So a database that is slow or away for a moment stalls no loop.
func (s *shards) stalledLoop() string {
	now := s.cluster.Steady()
	for _, p := range s.e.pulses {
		if since := p.busy.Load(); since != 0 && now-time.Duration(since) > s.cluster.Lease {
			return p.loop
		}
	}
	return ""
}

// pulse makes one that is watched.
func (e *Engine) pulse(loop string) *pulse {
	p := &pulse{loop: loop}
	e.pulses = append(e.pulses, p)
	return p
}

// reading bounds one read of the store by a loop. Alone, a slow read keeps nobody from taking over, and is waited for.
func (e *Engine) reading(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.shards == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, e.shards.cluster.Lease/time.Duration(e.shards.bounds.Parts))
}

// within makes a read under a lock: it returns when its context ends, even if the store takes no notice of that.
func within[T any](ctx context.Context, read func() (T, error)) (is T, err error) {
	type answer struct {
		is  T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		is, err := read()
		done <- answer{is, err}
	}()
	select {
	case a := <-done:
		return a.is, a.err
	case <-ctx.Done():
		return is, ctx.Err()
	}
}
