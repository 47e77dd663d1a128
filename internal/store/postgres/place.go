package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
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

// pendingFields are the columns of pending, and of the tables joined with them.
var pendingFields = fields[*place]{
	stored("seq", "bigint", func(p *place) *int64 { return &p.Seq }),
	stored("target", "integer", func(p *place) *int32 { return &p.target }),
	stored("event", "bigint", func(p *place) *int64 { return &p.Event }),
	stored("kind", "integer", func(p *place) *int32 { return &p.kind }),
	stored("lane", "bigint", func(p *place) *int64 { return &p.inLane }),
	stored("position", "bigint", func(p *place) *int64 { return &p.Position }),
	stored("created", "bigint", func(p *place) *int64 { return &p.Created }),
	stored("replay_of", "bigint", func(p *place) *int64 { return &p.ReplayOf }),
	moment("due", func(p *place) *int64 { return &p.Due }).changes(),
	moment("anchor", func(p *place) *int64 { return &p.Anchor }).changes(),
	moment("wide", func(p *place) *int64 { return &p.Wide }).from("NULL"),
	count("attempts", func(p *place) *int { return &p.Attempts }).from("0"),
	stored("head", "boolean", func(p *place) *bool { return &p.Head }).changes(),
	stored("blocked", "boolean", func(p *place) *bool { return &p.Blocked }).from("false"),
	textual("trigger", func(p *place) *grapnel.Trigger { return &p.Trigger }).changes(),
	textual("code", func(p *place) *grapnel.ReasonCode { return &p.Code }).
		from("CASE u.trigger WHEN 'test' THEN 'test' ELSE '' END"),
	textual("reason", func(p *place) *string { return &p.Reason }).from("''"),
	stored("status_code", "integer", func(p *place) *int32 { return &p.statusCode }).from("0"),
	textual("class", func(p *place) *policy.Class { return &p.class }).from("''"),
	stored("took", "bigint", func(p *place) *int64 { return &p.took }).from("0"),

	joined("t.endpoint", func(p *place) *string { return &p.Endpoint }),
	joined("k.tenant", func(p *place) *string { return &p.tenant }),
	joined("k.type", func(p *place) *string { return &p.eventType }),
	joined("coalesce(l.key, '')", func(p *place) *string { return &p.Key }),
	joined("coalesce(s.token, '')", func(p *place) *string { return &p.Token }),
	joined("coalesce(s.consumer, '')", func(p *place) *string { return &p.lease.Consumer }),
	joined("coalesce(s.scheduled, 0)", func(p *place) *int64 { return &p.lease.Scheduled }),
	joined("coalesce(s.granted, 0)", func(p *place) *int64 { return &p.lease.Granted }),
}

// finishedFields are the columns of finished.
var finishedFields = fields[finished]{
	value("seq", "bigint", func(f finished) int64 { return f.Seq }),
	value("target", "integer", func(f finished) int32 { return f.target }),
	value("event", "bigint", func(f finished) int64 { return f.Event }),
	value("kind", "integer", func(f finished) int32 { return f.kind }),
	value("lane", "bigint", func(f finished) int64 { return f.inLane }),
	value("position", "bigint", func(f finished) int64 { return f.Position }),
	value("created", "bigint", func(f finished) int64 { return f.Created }),
	value("finished", "bigint", func(f finished) int64 { return f.at }),
	value("replay_of", "bigint", func(f finished) int64 { return f.ReplayOf }),
	value("took", "bigint", func(f finished) int64 { return f.took }),
	value("attempts", "integer", func(f finished) int32 { return int32(f.Attempts) }),
	value("status_code", "integer", func(f finished) int32 { return f.statusCode }),
	readable("status", func(f finished) grapnel.Status { return f.status }),
	readable("class", func(f finished) policy.Class { return f.class }),
	readable("code", func(f finished) grapnel.ReasonCode { return f.Code }),
	readable("reason", func(f finished) string { return f.Reason }),
	value("body", "bytea", func(f finished) []byte { return f.body }),
}

var (
	placeColumns  = pendingFields.selected()
	addPending    = pendingFields.insert("pending", "")
	changePending = pendingFields.update("pending")
	addFinished   = finishedFields.insert("finished", "")
)

const placeJoins = ` JOIN target t ON t.number = p.target JOIN kind k ON k.number = p.kind LEFT JOIN lane l ON l.number = p.lane
	LEFT JOIN lease s ON s.delivery = p.seq`

// readPlaces calls take with a copy of each row.
func readPlaces(rows asked, take func(*place)) error {
	var r place
	return rows.each(pendingFields.into(&r), func() {
		p := r
		take(&p)
	})
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
func (t *tx) wait(p *place, delay time.Duration) {
	p.fresh = true
	t.places[p.Seq] = p
	t.fresh = append(t.fresh, p)
	*t.tally(p).of(grapnel.Pending)++
	if l := p.lane; l != nil {
		l.given++
		p.Key, p.inLane, p.Position = l.key, l.number, l.given
		l.add(p)
	}
	p.Enter(p.lane == nil || p.lane.first() == p, delay)
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
