package engine

import (
	"time"
)

// looks are the highest numbers that were known at the last looks for what other nodes have accepted, the latest last.
//
// A number is given before it is committed, so that a lower one may appear after a higher one. Mostly each look reads only what is above the
// highest number; every FreshBack looks (2 s) it reads everything since 2*FreshBack looks before (4 s) once more. So each delivery is read
// three times at most, and one that was committed up to 2 s after its number was given is found. What takes longer the core finds when it
// reads the endpoint's heads again.
type looks struct {
	count   int
	highest []int64
}

// next is the number from which on the next look has to read.
func (l *looks) next(back int) int64 {
	l.count++
	if l.count%back == 0 {
		return l.highest[0]
	}
	return l.highest[len(l.highest)-1]
}

// reached notes how far a look has come.
func (l *looks) reached(number int64, back int) {
	l.highest = append(l.highest, max(number, l.highest[len(l.highest)-1]))
	l.highest = l.highest[max(0, len(l.highest)-2*back):]
}

// watch hints at what other nodes have accepted, until the engine is over.
func (s *shards) watch() {
	tick := time.NewTicker(s.bounds.FreshEvery)
	defer tick.Stop()
	_, from, _ := s.e.version(s.e.sending)
	l := &looks{highest: []int64{from}}
	for failed := false; ; {
		select {
		case <-tick.C:
		case <-s.e.over:
			return
		}
		from := l.next(s.bounds.FreshBack)
		if failed {
			from = l.highest[0]
		}
		s.e.work(s.watching)
		reached, err := s.fresh(from)
		s.watching.rest()
		if failed = err != nil; failed && s.e.sending.Err() == nil {
			s.e.log.Warn("reading deliveries that other nodes accepted failed; retrying", "err", err)
		}
		l.reached(reached, s.bounds.FreshBack)
	}
}

// fresh hints at heads in this node's shards from a number on, and says how far it has come.
func (s *shards) fresh(from int64) (int64, error) {
	var mine []int
	for _, o := range s.owned(func(_ int, h *holding) bool { return h.leaving == nil }) {
		mine = append(mine, o.Shard)
	}
	if len(mine) == 0 {
		return from, nil
	}
	for {
		ctx, cancel := s.e.reading(s.e.sending)
		heads, err := s.cluster.Ownership.Fresh(ctx, mine, from, s.bounds.FreshPage)
		cancel()
		s.e.work(s.watching)
		if err != nil || len(heads) == 0 {
			return from, err
		}
		s.e.Hinted(s.e.config.Load().pulled(heads))
		from = heads[len(heads)-1].Delivery
		if len(heads) < s.bounds.FreshPage {
			return from, nil
		}
	}
}
