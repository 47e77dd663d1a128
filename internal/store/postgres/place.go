package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/policy"
)

// none is a time that is not there, in memory; in rows it is NULL.
const none = -1 << 62

// place is a pending delivery in a transaction.
type place struct {
	seq, event        int64
	target, kind      int32
	endpoint, tenant  string
	lane              *lane // nil: it waits for nobody and nobody waits for it
	position          int64
	created, replayOf int64
	due, anchor, wide int64
	attempts          int32
	head, blocked     bool
	trigger           grapnel.Trigger
	code              grapnel.ReasonCode
	reason            string
	last              last
	lease             *lease

	fresh bool // not in the database yet
	dirty bool // not in the database as it is
}

// last is what rows tell of the last attempt.
type last struct {
	statusCode int32
	class      policy.Class
	took       int64
}

// lease is what a delivery has that was handed out. It ends when the delivery is due.
type lease struct {
	token, consumer    string
	scheduled, granted int64
}

// lane is one key's line at one endpoint. Of what waits in it there is at least as much as can become its head in this transaction.
type lane struct {
	laneOf
	number int64
	given  int64 // the position given last
	drawn  int64 // up to which position the row has been moved ahead
	line   []*place
}

const placeColumns = `p.seq, p.event, p.target, p.kind, t.endpoint, k.tenant, p.lane, coalesce(l.key, ''), p.position, p.created, p.replay_of,
	coalesce(p.due, -4611686018427387904), coalesce(p.anchor, -4611686018427387904), coalesce(p.wide, -4611686018427387904),
	p.attempts, p.head, p.blocked, p.trigger, p.code, p.reason, p.status_code, p.class, p.took,
	s.token, coalesce(s.consumer, ''), coalesce(s.scheduled, 0), coalesce(s.granted, 0)`

const placeJoins = ` JOIN target t ON t.number = p.target JOIN kind k ON k.number = p.kind LEFT JOIN lane l ON l.number = p.lane
	LEFT JOIN lease s ON s.delivery = p.seq`

// placeRow is a place as it comes from the database.
type placeRow struct {
	place
	laneNumber int64
	key        string
	token      *string
	held       lease
}

func (r *placeRow) into() []any {
	return []any{&r.seq, &r.event, &r.target, &r.kind, &r.endpoint, &r.tenant, &r.laneNumber, &r.key, &r.position, &r.created, &r.replayOf,
		&r.due, &r.anchor, &r.wide, &r.attempts, &r.head, &r.blocked, &r.trigger, &r.code, &r.reason, &r.last.statusCode, &r.last.class,
		&r.last.took, &r.token, &r.held.consumer, &r.held.scheduled, &r.held.granted}
}

// readPlaces calls take with a copy of each row.
func readPlaces(rows pgx.Rows, take func(p *place, lane int64, key string)) error {
	var r placeRow
	_, err := pgx.ForEachRow(rows, r.into(), func() error {
		p := r.place
		if r.token != nil {
			held := r.held
			held.token, p.lease = *r.token, &held
		}
		take(&p, r.laneNumber, r.key)
		return nil
	})
	return err
}

// shown is the part of a pending delivery that scheduling needs.
func (p *place) shown() *store.Head {
	h := &store.Head{
		Delivery: p.seq, Event: p.event, Endpoint: p.endpoint, Position: p.position, Blocked: p.blocked, Attempts: int(p.attempts),
		Trigger: p.trigger, CreatedAt: codec.Moment(p.created), Due: instant(p.due), Anchor: instant(p.anchor),
	}
	if p.lane != nil {
		h.Lane = p.lane.key
	}
	return h
}

// instant is a time that may not be there.
func instant(micros int64) time.Time {
	if micros == none {
		return time.Time{}
	}
	return codec.Moment(micros)
}

func (l *lane) add(p *place) {
	at, there := slices.BinarySearchFunc(l.line, p.position, func(p *place, position int64) int { return cmp.Compare(p.position, position) })
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

// lead makes p the head of its lane and starts its policy's clock; not before it existed, though, even if the clock that finished its
// predecessor was behind.
func (p *place) lead(at int64, delay time.Duration) {
	p.anchor = max(at, p.created)
	p.head, p.blocked, p.due, p.dirty = true, false, codec.Micros(codec.Moment(p.anchor).Add(delay)), true
}

// next is what the caller of a change goes on with: the lane's head, or p itself if it has no lane.
func (t *tx) next(p *place) *store.Head {
	if p.lane != nil {
		p = p.lane.first()
	} else if t.places[p.seq] == nil {
		p = nil
	}
	if p == nil {
		return nil
	}
	return p.shown()
}

// wait puts a new delivery at the end of its lane, or by itself if it has none.
func (t *tx) wait(p *place, delay time.Duration) {
	p.fresh, p.due, p.anchor, p.wide = true, none, none, none
	t.places[p.seq] = p
	t.fresh = append(t.fresh, p)
	t.tally(p).pending++
	if p.lane != nil {
		p.lane.given++
		p.position = p.lane.given
		p.lane.add(p)
		if p.lane.first() != p {
			return
		}
	}
	p.lead(p.created, delay)
}

// finish makes p final. If it was the head of its lane, the next one becomes the head, with this delay.
func (t *tx) finish(p *place, e *store.Ending, body []byte, delay time.Duration) {
	delete(t.places, p.seq)
	t.gone = append(t.gone, p)
	t.tally(p).pending--
	t.archive(p, e, body)
	if p.replayOf != 0 {
		t.repeated = append(t.repeated, repeated{p.replayOf, p.seq, e.Status})
	}
	if p.lane == nil {
		return
	}
	p.lane.take(p)
	if next := p.lane.first(); p.head && next != nil {
		next.lead(codec.Micros(e.At), delay)
	}
}

// archive keeps a delivery that is over.
func (t *tx) archive(p *place, e *store.Ending, body []byte) {
	p.code, p.reason = e.ReasonCode, e.Reason
	t.over[p.seq] = &over{status: e.Status, tenant: p.tenant, event: p.event, created: p.created, endpoint: p.endpoint, lane: p.lane}
	t.finished = append(t.finished, finished{place: p, status: e.Status, at: codec.Micros(e.At), body: body})
	t.ended(p, e)
}
