package engine

import (
	"time"
)

// freshPage is how many heads are asked for at once, freshSpan how far back: a number is given before it is committed, so that a lower
// one may come after a higher one. What takes longer the core finds when it reads the endpoint's heads again.
const (
	freshEvery = 250 * time.Millisecond
	freshSpan  = 2 * time.Second
	freshPage  = 1000
)

// watch hints at what other nodes have accepted, until the engine is over.
func (s *shards) watch() {
	tick := time.NewTicker(freshEvery)
	defer tick.Stop()
	_, from, _ := s.e.store.Version(s.e.sending)
	var marks []mark // what was highest, a while ago and since
	highest := from
	for {
		select {
		case <-tick.C:
		case <-s.e.over:
			return
		}
		now := time.Now()
		for marks = append(marks, mark{now, highest}); now.Sub(marks[0].at) > freshSpan; marks = marks[1:] {
			from = marks[0].highest
		}
		reached, err := s.fresh(from)
		if err != nil && s.e.sending.Err() == nil {
			s.e.log.Warn("what other nodes have accepted could not be read; it will be again", "error", err)
		}
		highest = max(highest, reached)
	}
}

// mark is what the highest number was at a time.
type mark struct {
	at      time.Time
	highest int64
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
		heads, err := s.cluster.Ownership.Fresh(s.e.sending, mine, from, freshPage)
		if err != nil || len(heads) == 0 {
			return from, err
		}
		s.e.Hinted(s.e.config.Load().pulled(heads))
		from = heads[len(heads)-1].Delivery
		if len(heads) < freshPage {
			return from, nil
		}
	}
}
