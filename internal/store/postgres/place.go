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

// none is an absent time in memory; in rows it is NULL.
const none = -1 << 62

// place is a pending delivery in a transaction.
type place struct {
	seq, event        int64
	target, kind      int32
	endpoint, tenant  string
	eventType         string
	lane              *lane // nil: it has no lane
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
	dirty bool // changed since it was read
}

// last is the state of the last attempt in a row.
type last struct {
	statusCode int32
	class      policy.Class
	took       int64
}

// lease is the lease of a message. It ends when the delivery is due.
type lease struct {
	token, consumer    string
	scheduled, granted int64
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

const placeColumns = `p.seq, p.event, p.target, p.kind, t.endpoint, k.tenant, p.lane, coalesce(l.key, ''), p.position, p.created, p.replay_of,
	coalesce(p.due, -4611686018427387904), coalesce(p.anchor, -4611686018427387904), coalesce(p.wide, -4611686018427387904),
	p.attempts, p.head, p.blocked, p.trigger, p.code, p.reason, p.status_code, p.class, p.took,
	s.token, coalesce(s.consumer, ''), coalesce(s.scheduled, 0), coalesce(s.granted, 0), k.type`

const placeJoins = ` JOIN target t ON t.number = p.target JOIN kind k ON k.number = p.kind LEFT JOIN lane l ON l.number = p.lane
	LEFT JOIN lease s ON s.delivery = p.seq`

// placeRow is a place as the database returns it.
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
		&r.last.took, &r.token, &r.held.consumer, &r.held.scheduled, &r.held.granted,
		&r.eventType}
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

// instant converts a time that may be absent.
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

// lead makes p the head of its lane and starts its policy's clock, but not before p was created,
// even if the clock that finished its predecessor was behind.
func (p *place) lead(at int64, delay time.Duration) {
	p.anchor = max(at, p.created)
	p.head, p.blocked, p.due, p.dirty = true, false, codec.Micros(codec.Moment(p.anchor).Add(delay)), true
}

// next is the head that the caller of a change continues with: the lane's head, or p itself if it
// has no lane.
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

// wait adds a new delivery to the end of its lane, if it has one.
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

// finish makes p final. If it was the head of its lane, the next one becomes the head, with this
// delay.
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

// archive stores a finished delivery.
func (t *tx) archive(p *place, e *store.Ending, body []byte) {
	p.code, p.reason = e.ReasonCode, e.Reason
	t.over[p.seq] = &over{status: e.Status, tenant: p.tenant, event: p.event, created: p.created, endpoint: p.endpoint, lane: p.lane}
	t.finished = append(t.finished, finished{place: p, status: e.Status, at: codec.Micros(e.At), body: body})
	t.ended(p, e)
}
