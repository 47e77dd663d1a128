//go:build linux && prove

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// pulse is a client of a cluster's database that is no node. It commits repeatedly, past the
// proxies, and records when that is slow or impossible. Bounds for nodes count from the last such
// moment: on a busy machine the database itself may stall for seconds, which says nothing about
// nodes.
type pulse struct {
	mu    sync.Mutex
	slow  []span
	quick int
}

// span is a time in which the database did not commit as it should.
type span struct{ from, to time.Duration }

// slowCommit is a commit so slow that a node whose calls end after a second, some of several
// statements, may fail.
const slowCommit = 250 * time.Millisecond

// beat commits to the server that at returns, until the context ends.
func (p *pulse) beat(ctx context.Context, now func() time.Duration, at func() *pgtest.Server) {
	for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		from := now()
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		// The synchronous standby may be the injected fault, so pulse does not wait for it.
		err := at().Exec(limited, "SET synchronous_commit = local; CREATE TABLE IF NOT EXISTS pulse (at timestamptz); INSERT INTO pulse VALUES (now())")
		cancel()
		to := now()
		p.mu.Lock()
		if err != nil || to-from > slowCommit {
			p.slow = append(p.slow, span{from, to})
		} else {
			p.quick++
		}
		p.mu.Unlock()
	}
}

// fair returns the parts of a time, in order, in which the database committed as it should
// throughout.
func (p *pulse) fair(from, to time.Duration) (parts []span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.slow { // in order, and none overlaps another
		if s.to <= from || s.from >= to {
			continue
		}
		if s.from > from {
			parts = append(parts, span{from, s.from})
		}
		from = s.to
	}
	if from < to {
		parts = append(parts, span{from, to})
	}
	return parts
}

// between returns the sum of those parts.
func (p *pulse) between(from, to time.Duration) (sum time.Duration) {
	for _, s := range p.fair(from, to) {
		sum += s.to - s.from
	}
	return sum
}

// since returns the start of the time up to at in which the database committed as it should, but no
// earlier than from.
func (p *pulse) since(from, at time.Duration) time.Duration {
	parts := p.fair(from, at)
	if len(parts) == 0 {
		return at
	}
	return parts[len(parts)-1].from
}

func (p *pulse) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum, longest time.Duration
	for _, s := range p.slow {
		sum += s.to - s.from
		longest = max(longest, s.to-s.from)
	}
	return fmt.Sprintf("the database committed %d times as it should; %d times it was slow or away, for %v in all, %v at most",
		p.quick, len(p.slow), sum.Round(time.Millisecond), longest.Round(time.Millisecond))
}

// longest returns the longest part of a time without an entry of a sorted list and in which the
// database committed as it should.
func (p *pulse) longest(at []time.Duration, from, to time.Duration) (silence span) {
	at = slices.Concat([]time.Duration{from}, at, []time.Duration{to})
	for i := 1; i < len(at); i++ {
		for _, s := range p.fair(at[i-1], at[i]) {
			if s.to-s.from > silence.to-silence.from {
				silence = s
			}
		}
	}
	return silence
}
