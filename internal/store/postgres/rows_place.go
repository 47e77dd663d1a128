package postgres

import (
	"cmp"
	"slices"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/policy"
)

// place is a pending delivery in a transaction, or one that the transaction has finished.
type place struct {
	decide.Pending
	target, kind      int32
	statusCode        int32 // of the last attempt, like class and took
	fresh             bool  // not in the database yet
	dirty             bool  // changed since it was read
	class             policy.Class
	took              int64
	tenant, eventType string
	lane              *lane // nil: it has no lane, or was read without it
	inLane            int64 // the lane's number; 0: it has no lane
	lease             decide.Lease
}

// lane is the ordered deliveries of one key at one endpoint. Of its pending deliveries it has at
// least those that can become its head in this transaction.
type lane struct {
	laneOf
	number int64
	given  int64 // the last assigned position
	drawn  int64 // the position up to which the row reserves positions
	line   []*place
}

// shown is p, which may be nil, as scheduling needs it.
func (p *place) shown() *store.Head {
	if p == nil {
		return nil
	}
	h := p.Shown()
	return &h
}

func (l *lane) add(p *place) {
	at, there := slices.BinarySearchFunc(l.line, p.Position, func(p *place, position int64) int { return cmp.Compare(p.Position, position) })
	if !there {
		l.line = slices.Insert(l.line, at, p)
	}
}

func (l *lane) take(p *place) {
	l.line = slices.DeleteFunc(l.line, func(other *place) bool { return other == p })
}

// first is the head, or nil.
func (l *lane) first() *place {
	if l == nil || len(l.line) == 0 {
		return nil
	}
	return l.line[0]
}

// laneOf identifies a lane.
type laneOf struct {
	target int32
	key    string
}
