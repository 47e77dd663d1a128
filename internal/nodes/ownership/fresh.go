package ownership

import (
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// looks holds the highest row ids read at the last looks for deliveries that other nodes accepted,
// the latest last.
//
// A row id is assigned before its commit, so a lower one may appear after a higher one. Mostly each
// look reads only above the highest row id. Every FreshBack looks (2 s) it reads again everything
// since 2*FreshBack looks before (4 s). So each delivery is read three times at most, and one that
// was committed up to 2 s after its row id was assigned is found. Slower ones are found when the
// core reads the endpoint's heads again.
type looks struct {
	count   int
	highest []int64
}

// next is the row id above which the next look reads.
func (l *looks) next(back int) int64 {
	l.count++
	if l.count%back == 0 {
		return l.highest[0]
	}
	return l.highest[len(l.highest)-1]
}

// reached records the highest row id of a look.
func (l *looks) reached(number int64, back int) {
	l.highest = append(l.highest, max(number, l.highest[len(l.highest)-1]))
	l.highest = l.highest[max(0, len(l.highest)-2*back):]
}

// watch hints at deliveries that other nodes accepted, until the engine stops.
func (s *Shards) watch() {
	tick := time.NewTicker(s.bounds.FreshEvery)
	defer tick.Stop()
	from, _ := s.env.Newest(s.env.Sending)
	l := &looks{highest: []int64{from}}
	for failures := 0; ; {
		select {
		case <-tick.C:
		case <-s.env.Over:
			return
		}
		from := l.next(s.bounds.FreshBack)
		if failures > 0 {
			from = l.highest[0]
		}
		s.watching.Work()
		reached, err := s.fresh(from)
		s.watching.Rest()
		if err == nil {
			failures = 0
		} else if failures++; backoff.Tells(failures) && s.env.Sending.Err() == nil {
			s.log.Warn("reading deliveries that other nodes accepted failed; retrying", "failures", failures, "err", err)
		}
		l.reached(reached, s.bounds.FreshBack)
	}
}

// fresh hints at heads in this node's shards above a row id, and returns the highest one it read.
func (s *Shards) fresh(from int64) (int64, error) {
	var mine []int
	for _, o := range s.owned(staying) {
		mine = append(mine, o.Shard)
	}
	if len(mine) == 0 {
		return from, nil
	}
	for {
		ctx, cancel := s.Reading(s.env.Sending)
		heads, err := s.cluster.Ownership.Fresh(ctx, mine, from, s.bounds.FreshPage)
		cancel()
		s.watching.Work()
		if err != nil || len(heads) == 0 {
			return from, err
		}
		s.env.Accepted(heads)
		from = heads[len(heads)-1].Delivery
		if len(heads) < s.bounds.FreshPage {
			return from, nil
		}
	}
}
