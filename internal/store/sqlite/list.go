package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	finishedQuery            = "SELECT seq FROM finished WHERE seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	finishedTargetQuery      = "SELECT seq FROM finished WHERE seq >> 12 = ? AND target = ?"
	finishedTargetsQuery     = "SELECT seq, target FROM finished WHERE seq >> 12 = ?"
	newestFinishedQuery      = "SELECT max(seq) FROM finished"
	finishedUndeliveredQuery = "SELECT seq FROM finished WHERE target = ? AND status = ? AND status <> 3 AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	deadLettersQuery         = "SELECT seq FROM letter WHERE target = ? AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	fewLettersQuery          = "SELECT count(*) FROM (SELECT 1 FROM letter WHERE target = ? LIMIT ?)"
	// replayedLettersQuery has those that were repeated with success, too. It leaves out what was discarded.
	replayedLettersQuery = `SELECT seq FROM finished WHERE target = ? AND status = 4 AND status <> 3 AND seq < ? AND seq >= ?
		AND NOT EXISTS (SELECT 1 FROM mark WHERE delivery = seq AND discarded_at IS NOT NULL) ORDER BY seq DESC LIMIT ?`
	pendingQuery       = "SELECT seq FROM pending WHERE %s AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	pendingTargetQuery = "SELECT seq FROM pending WHERE %s AND target = ? AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	redeliveredQuery   = "SELECT delivery FROM redelivery WHERE delivery < ? AND delivery >= ? ORDER BY delivery DESC LIMIT ?"
	// gatherQuery finds everything that waits for one target through the two indexes that there are, in no order.
	gatherQuery = `SELECT seq FROM pending WHERE head = 1 AND target = ?
		UNION ALL SELECT seq FROM pending WHERE position > 0 AND target = ? AND head = 0`

	tallyQuery = `SELECT y.target, t.endpoint, y.status, y.n FROM tally y JOIN target t ON t.number = y.target
		WHERE y.target = ? AND (? OR y.tenant = (SELECT number FROM tenant WHERE name = ?))`
	tallyAllQuery    = "SELECT y.target, t.endpoint, y.status, y.n FROM tally y JOIN target t ON t.number = y.target ORDER BY y.target"
	tallyTenantQuery = `SELECT y.target, t.endpoint, y.status, y.n FROM tally y JOIN target t ON t.number = y.target
		WHERE y.tenant = (SELECT number FROM tenant WHERE name = ?) ORDER BY y.target`

	firstDeliveryQuery = "SELECT first FROM event WHERE seq >= ? ORDER BY seq LIMIT 1"
	lastDeliveryQuery  = "SELECT first + made FROM event WHERE seq < ? ORDER BY seq DESC LIMIT 1"
	madeByQuery        = "SELECT first, made FROM event WHERE seq = ?"
	newestOriginQuery  = `SELECT max(ifnull((SELECT event FROM pending WHERE seq < ? AND replay_of = 0 ORDER BY seq DESC LIMIT 1), 0),
		ifnull((SELECT event FROM finished WHERE seq < ? AND replay_of = 0 ORDER BY seq DESC LIMIT 1), 0))`
)

// Which of what waits is looked at: everything, what can be attempted, or what is held by its lane or its policy. The plus keeps
// SQLite from taking all heads out of an index to sort them.
const (
	waitingAny   = "true"
	waitingFirst = "+head = 1 AND blocked = 0"
	waitingHeld  = "(head = 0 OR blocked = 1)"
)

// Above so many targets a list looks at all deliveries instead of at each target's; above so many deliveries that wait for a
// target it does not gather them to sort them.
const (
	mostTargets  = 4096
	mostGathered = 5000
)

// lister makes one list of deliveries.
type lister struct {
	ctx    context.Context
	r      *sqlite3.Conn
	query  store.DeliveryQuery
	events eventFilter
	status statusFilter
	within window // of deliveries that acceptance made
}

// DeliveryList returns at most Limit deliveries; no limit is none. From and To are about the event's acceptance, for a
// redelivery too.
//
// One filter chooses the index; the others look at what it yields. When nobody knows which of two leaves fewer, failed ones or those of
// a type, both are tried in turn, each time for longer: that takes a few times as long as the better one alone.
func (s *Store) DeliveryList(ctx context.Context, scope store.Scope, q store.DeliveryQuery) (list []grapnel.Delivery, err error) {
	err = s.snapshot(ctx, func(r *sqlite3.Conn) error {
		list = nil
		if q.Limit <= 0 {
			return nil
		}
		l := newLister(ctx, r, scope, q)
		ways, err := l.ways()
		if err != nil {
			return err
		}
		for most := firstLook; ; most *= 4 {
			for _, way := range ways {
				if len(ways) == 1 {
					most = math.MaxInt
				}
				var ended bool
				if list, ended, err = l.list(way, most); ended || err != nil {
					return err
				}
			}
			if len(ways) == 0 {
				return nil
			}
		}
	})
	return list, err
}

// firstLook is how many deliveries a list looks at in one way before it tries another one.
const firstLook = 500

// list looks at no more than so many deliveries, and says whether that was enough.
func (l *lister) list(way func() ([]*stream, error), most int) (list []grapnel.Delivery, ended bool, err error) {
	streams, err := way()
	if err != nil {
		return nil, false, err
	}
	ended = true
	err = merge(l.ctx, streams, func(seq int64) (bool, error) {
		if most--; most < 0 {
			ended = false
			return false, nil
		}
		d, err := fetch(l.r, seq)
		if err != nil || d == nil {
			return err == nil, err
		}
		if l.takes(d) {
			list = append(list, d.Delivery)
		}
		return len(list) < l.query.Limit, nil
	})
	return list, ended, err
}

func newLister(ctx context.Context, r *sqlite3.Conn, scope store.Scope, q store.DeliveryQuery) *lister {
	return &lister{
		ctx: ctx, r: r, query: q, status: statusFilter{q.Status, q.HeldEndpoints},
		events: eventFilter{scope: scope, tenant: q.Tenant, pattern: q.Type, key: q.Key, from: q.From, to: q.To},
	}
}

func (l *lister) takes(d *row) bool {
	q := &l.query
	return (q.Endpoint == "" || q.Endpoint == d.EndpointID) && l.status.takes(&d.Delivery) &&
		(q.Class == "" || q.Class == d.Last.Class) && (q.StatusCode == 0 || q.StatusCode == d.Last.StatusCode) &&
		(q.ReasonCode == "" || q.ReasonCode == d.ReasonCode) &&
		(!q.DeadLetters || q.Dead(&d.Delivery)) &&
		l.events.takes(d.Tenant, d.Type, d.Key, d.accepted)
}

// streams are the numbers of all deliveries that may pass, found in one way.
func (l *lister) streams() ([]*stream, error) {
	ways, err := l.ways()
	if err != nil || len(ways) == 0 {
		return nil, err
	}
	return ways[len(ways)-1]()
}

// ways are those in which the numbers of all deliveries that may pass can be found.
func (l *lister) ways() (ways []func() ([]*stream, error), err error) {
	within, err := l.events.events(l.r)
	if err != nil || within.empty() {
		return nil, err
	}
	ofEvents := l.query.Key != "" || l.query.Type != "" && l.query.Type != "*"
	if !ofEvents || l.selective() {
		ways = append(ways, func() ([]*stream, error) { return l.byEnd(within) })
	}
	if ofEvents {
		ways = append(ways, func() ([]*stream, error) { return l.byEvent(within) })
	}
	return ways, nil
}

// selective says that what became of deliveries, too, may leave few of them.
func (l *lister) selective() bool {
	return l.narrow() || l.query.DeadLetters || len(l.status.wanted) > 0 && !slices.Contains(l.status.wanted, grapnel.Delivered)
}

// byEnd goes by what became of deliveries, and at which targets.
func (l *lister) byEnd(within window) (streams []*stream, err error) {
	if l.within, err = l.deliveries(within); err != nil {
		return nil, err
	}
	if streams, err = l.byTarget(); err != nil {
		return nil, err
	}
	// What was delivered again later than that is not in the window, even if its event is.
	later := window{from: l.within.below, below: everything(l.query.Before).below}
	if !later.empty() {
		streams = append(streams, l.column(redeliveredQuery, later))
	}
	return streams, nil
}

func (l *lister) column(query string, in window, values ...int64) *stream {
	return columnStream(l.r, query, in, func(q *sqlite3.Stmt) {
		for _, v := range values {
			q.Int(v)
		}
	})
}

// deliveries are the numbers of the deliveries that were made when events with these numbers were accepted.
func (l *lister) deliveries(events window) (window, error) {
	all := everything(l.query.Before)
	if events == everything(0) {
		return all, nil
	}
	first, err := integer(l.r, firstDeliveryQuery, func(q *sqlite3.Stmt) { q.Int(events.from) })
	if err != nil {
		return all, err
	}
	below, err := integer(l.r, lastDeliveryQuery, func(q *sqlite3.Stmt) { q.Int(events.below) })
	return all.and(window{first, below}), err
}

// byEvent goes from events to their deliveries. Redeliveries have numbers of their own.
func (l *lister) byEvent(within window) ([]*stream, error) {
	all := everything(l.query.Before)
	if l.query.Before > 0 {
		newest, err := integer(l.r, newestOriginQuery, func(q *sqlite3.Stmt) { q.Int(all.below).Int(all.below) })
		if err != nil {
			return nil, err
		}
		within = within.and(window{below: newest + 1})
	}
	events, err := l.events.stream(l.ctx, l.r, within)
	if err != nil {
		return nil, err
	}
	return []*stream{l.madeBy(events, all), l.column(redeliveredQuery, all)}, nil
}

// madeBy turns a stream of events into one of the deliveries that their acceptance made.
func (l *lister) madeBy(events *stream, in window) *stream {
	return newStream(in.below, func(int64) ([]int64, error) {
		for {
			event, err := events.peek()
			if err != nil || event == 0 {
				return nil, err
			}
			events.ready = events.ready[1:]
			made, err := l.made(event)
			made = slices.DeleteFunc(made, func(n int64) bool { return n >= in.below })
			if err != nil || len(made) > 0 {
				return made, err
			}
		}
	})
}

// made are the numbers of the deliveries that an event's acceptance made, the newest first.
func (l *lister) made(event int64) ([]int64, error) {
	q, err := l.r.Prepare(madeByQuery)
	if err != nil {
		return nil, err
	}
	found, err := q.Int(event).Row()
	if !found {
		return nil, err
	}
	defer q.Reset()
	var numbers []int64
	for n := q.Integer(0) + q.Integer(1) - 1; n >= q.Integer(0); n-- {
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// byTarget goes through the deliveries of the targets that have any, or through all.
func (l *lister) byTarget() ([]*stream, error) {
	finals, waiting := l.finals(), l.status.waiting()
	if l.query.DeadLetters {
		waiting = ""
	}
	targets, limited, err := l.targets(finals)
	if err != nil {
		return nil, err
	}
	var streams []*stream
	if !limited {
		if len(finals) > 0 {
			streams = append(streams, l.column(finishedQuery, l.within))
		}
		if waiting != "" {
			streams = append(streams, l.column(fmt.Sprintf(pendingQuery, waiting+l.waitingFits()), l.within))
		}
		return streams, nil
	}
	if slices.Contains(finals, statusDelivered) {
		finished, err := l.finished(targets)
		if err != nil {
			return nil, err
		}
		streams = append(streams, finished)
		if finals = slices.DeleteFunc(finals, func(status int64) bool { return status == statusDelivered }); !l.narrow() {
			finals = nil
		}
	}
	for _, t := range targets {
		waits := l.status.waitingAt(t.endpoint)
		if l.query.DeadLetters {
			waits = ""
		}
		more, err := l.ofTarget(t, finals, waits)
		if err != nil {
			return nil, err
		}
		streams = append(streams, more...)
	}
	return streams, nil
}

// finals are the final statuses to look for.
func (l *lister) finals() (finals []int64) {
	if l.narrow() && len(l.status.wanted) == 0 {
		all := statusFilter{wanted: grapnel.Statuses()}
		finals = all.finals()
	} else {
		finals = l.status.finals()
	}
	if !l.query.DeadLetters {
		return finals
	}
	if len(l.status.wanted) > 0 && !slices.Contains(finals, statusFailed) {
		return nil
	}
	return []int64{statusFailed}
}

// finished is all that is over at some targets, or what was delivered there with an outcome that fits.
func (l *lister) finished(targets []target) (*stream, error) {
	if l.narrow() {
		var numbers []int64
		if _, one := l.events.oneTenant(); one || l.query.Endpoint != "" {
			for _, t := range targets {
				numbers = append(numbers, t.number)
			}
			if len(numbers) == 0 {
				return listStream(nil, l.within), nil
			}
		}
		return l.delivered(numbers)
	}
	newest, err := one(l.r, newestFinishedQuery)
	blocks := blocks{ctx: l.ctx, r: l.r, in: l.within.and(everything(newest + 1)), one: finishedTargetQuery, all: finishedTargetsQuery}
	for _, t := range targets {
		blocks.wanted = append(blocks.wanted, t.number)
	}
	return blocks.stream(), err
}

// target is an endpoint with how many deliveries of each status it has.
type target struct {
	number   int64
	endpoint string
	counts   map[int64]int64
}

// targets returns the endpoints to look at, unless it is better to look at everything.
func (l *lister) targets(finals []int64) (found []target, limited bool, err error) {
	tenant, one := l.events.oneTenant()
	query, bind := tallyAllQuery, func(*sqlite3.Stmt) {}
	switch {
	case l.query.Endpoint != "":
		only, err := integer(l.r, targetQuery, func(q *sqlite3.Stmt) { q.Text(l.query.Endpoint) })
		if err != nil {
			return nil, true, err
		}
		query, bind = tallyQuery, func(q *sqlite3.Stmt) { q.Int(only).Bool(!one).Text(tenant) }
	case one:
		query, bind = tallyTenantQuery, func(q *sqlite3.Stmt) { q.Text(tenant) }
	case slices.Contains(finals, statusDelivered) && !l.narrow():
		return nil, false, nil
	}
	q, err := l.r.Prepare(query)
	if err != nil {
		return nil, false, err
	}
	bind(q)
	for {
		more, err := q.Next()
		if !more {
			return found, l.query.Endpoint != "" || len(found) <= mostTargets, err
		}
		number, n := q.Integer(0), q.Integer(3)
		if n == 0 {
			continue
		}
		if len(found) == 0 || found[len(found)-1].number != number {
			found = append(found, target{number: number, endpoint: q.String(1), counts: make(map[int64]int64)})
		}
		found[len(found)-1].counts[q.Integer(2)] += n
	}
}

// ofTarget is what waits at a target, and what ended there in one of these statuses, which are not the one of most.
func (l *lister) ofTarget(t target, finals []int64, waiting string) ([]*stream, error) {
	var streams []*stream
	for _, status := range finals {
		letters := l.query.DeadLetters && !l.query.Replayed
		if letters && l.narrow() && t.counts[status] > 0 {
			n, err := integer(l.r, fewLettersQuery, func(q *sqlite3.Stmt) { q.Int(t.number).Int(mostGathered) })
			if err != nil {
				return nil, err
			}
			letters = n < mostGathered // else it is better to go by what is narrow
		}
		switch {
		case t.counts[status] == 0:
		case letters:
			streams = append(streams, l.column(deadLettersQuery, l.within, t.number))
		case l.narrow():
			more, err := l.undelivered(t.number, status)
			if err != nil {
				return nil, err
			}
			streams = append(streams, more...)
		case l.query.DeadLetters:
			streams = append(streams, l.column(replayedLettersQuery, l.within, t.number))
		default:
			streams = append(streams, l.column(finishedUndeliveredQuery, l.within, t.number, status))
		}
	}
	switch n := t.counts[statusPending]; {
	case waiting == "" || n == 0:
	case n <= mostGathered:
		numbers, err := gather(l.r, t.number)
		if err != nil {
			return nil, err
		}
		streams = append(streams, listStream(numbers, l.within))
	default:
		streams = append(streams, l.column(fmt.Sprintf(pendingTargetQuery, waiting+l.waitingFits()), l.within, t.number))
	}
	return streams, nil
}

// gather returns the numbers of all deliveries that wait for a target, in no order.
func gather(r *sqlite3.Conn, target int64) ([]int64, error) {
	q, err := r.Prepare(gatherQuery)
	if err != nil {
		return nil, err
	}
	return integers(q.Int(target).Int(target))
}
