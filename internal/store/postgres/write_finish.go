package postgres

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// next is the head that the caller of a change continues with: the lane's head, or p itself if it
// has no lane.
func (t *tx) next(p *place) *store.Head {
	if p.lane != nil {
		p = p.lane.first()
	} else if t.places[p.Seq] == nil {
		p = nil
	}
	return p.shown()
}

// wait adds a new delivery to the end of its lane, if it has one.
func (t *tx) wait(p *place, delay time.Duration, notBefore time.Time) {
	p.fresh = true
	t.places[p.Seq] = p
	t.fresh = append(t.fresh, p)
	*t.tally(p).of(grapnel.Pending)++
	if l := p.lane; l != nil {
		l.given++
		p.Key, p.inLane, p.Position = l.key, l.number, l.given
		l.add(p)
	}
	p.Enter(p.lane == nil || p.lane.first() == p, delay, notBefore)
}

// finish makes p final. If it was the head of its lane, the next one becomes the head, with this
// delay.
func (t *tx) finish(p *place, e store.Ending, body []byte, delay time.Duration) {
	delete(t.places, p.Seq)
	t.gone = append(t.gone, p)
	*t.tally(p).of(grapnel.Pending)--
	t.archive(p, e, body)
	if p.ReplayOf != 0 {
		t.repeated = append(t.repeated, repeated{p.ReplayOf, p.Seq, e.Status, len(t.finished)})
	}
	if p.lane == nil {
		return
	}
	p.lane.take(p)
	if next := p.lane.first(); p.Head && next != nil {
		next.Lead(codec.Micros(e.At), delay)
		next.dirty = true
	}
}

// archive stores a finished delivery.
func (t *tx) archive(p *place, e store.Ending, body []byte) {
	e = p.End(e)
	p.Code, p.Reason = e.ReasonCode, e.Reason
	t.over[p.Seq] = &over{decide.Found{Status: e.Status, Event: p.Event, Created: p.Created, Endpoint: p.Endpoint}, p.tenant, p.lane}
	t.finished = append(t.finished, finished{place: p, status: e.Status, at: codec.Micros(e.At), body: body})
	countEnd(t, p, &e)
}

// countEnd counts a finished delivery.
func countEnd(t *tx, p *place, e *store.Ending) {
	*t.tally(p).of(e.Status)++
	if e.Uncounted {
		return
	}
	is := p.Ended(e)
	t.sum(p, codec.Micros(e.At), func(sum *grapnel.Totals) { sum.Ended(&is) })
}
