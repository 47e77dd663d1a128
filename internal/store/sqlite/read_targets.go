package sqlite

import (
	"fmt"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	finishedQuery            = "SELECT seq FROM finished WHERE seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	finishedTargetQuery      = "SELECT seq FROM finished WHERE seq >> 12 = ? AND target = ?"
	finishedTargetsQuery     = "SELECT seq, target FROM finished WHERE seq >> 12 = ?"
	oldestFinishedQuery      = "SELECT min(seq) FROM finished"
	newestFinishedQuery      = "SELECT max(seq) FROM finished"
	finishedUndeliveredQuery = "SELECT seq FROM finished WHERE target = ? AND status = ? AND status <> 3 AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	deadLettersQuery         = "SELECT seq FROM letter WHERE target = ? AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	// replayedLettersQuery includes dead letters that were repeated with success. It leaves out
	// discarded ones.
	replayedLettersQuery = `SELECT seq FROM finished WHERE target = ? AND status = 4 AND status <> 3 AND seq < ? AND seq >= ?
		AND NOT EXISTS (SELECT 1 FROM mark WHERE delivery = seq AND discarded_at IS NOT NULL) ORDER BY seq DESC LIMIT ?`
	pendingQuery       = "SELECT seq FROM pending WHERE %s AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	pendingTenantQuery = "SELECT seq FROM pending WHERE +tenant = ? AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"
	oldestPendingQuery = "SELECT min(seq) FROM pending"
	newestPendingQuery = "SELECT max(seq) FROM pending"
	pendingTargetQuery = "SELECT seq FROM pending WHERE %s AND target = ? AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?"

	tallyQuery = `SELECT y.target, t.endpoint, y.status, y.n FROM tally y JOIN target t ON t.number = y.target
		WHERE y.target = ? AND (? OR y.tenant = (SELECT number FROM tenant WHERE name = ?))`
	tallyAllQuery    = "SELECT y.target, t.endpoint, y.status, y.n FROM tally y JOIN target t ON t.number = y.target ORDER BY y.target"
	tallyTenantQuery = `SELECT y.target, t.endpoint, y.status, y.n FROM tally y JOIN target t ON t.number = y.target
		WHERE y.tenant = (SELECT number FROM tenant WHERE name = ?) ORDER BY y.target`
)

// The pending deliveries to read: all, those that can be attempted, or those held by their lane or
// policy. The plus keeps SQLite from reading all heads of an index to sort them.
const (
	waitingAny   = "true"
	waitingFirst = "+head = 1 AND blocked = 0"
	waitingHeld  = "(head = 0 OR blocked = 1)"
)

// byTarget reads the deliveries target by target, for the targets with matching counts or for all.
func (l *lister) byTarget() ([]*stream, error) {
	finals, waiting := l.finals(), l.waiting(len(l.query.HeldEndpoints) > 0, false)
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
	if slices.Contains(finals, rows.StatusDelivered) {
		finished, err := l.finished(targets)
		if err != nil {
			return nil, err
		}
		streams = append(streams, finished)
		if finals = slices.DeleteFunc(finals, func(status int64) bool { return status == rows.StatusDelivered }); !l.narrow() {
			finals = nil
		}
	}
	sifted, err := l.sifted(targets, waiting)
	if err != nil {
		return nil, err
	}
	if sifted != nil {
		streams = append(streams, sifted)
	}
	for _, t := range targets {
		waits, holds := "", slices.Contains(l.query.HeldEndpoints, t.endpoint)
		if sifted == nil {
			waits = l.waiting(holds, holds)
		}
		more, err := l.ofTarget(t, finals, waits)
		if err != nil {
			return nil, err
		}
		streams = append(streams, more...)
	}
	return streams, nil
}

// sifted reads the pending deliveries of all targets in one go; nil: they are gathered target by
// target. Those with an outcome are sifted because all gathered ones would be read as rows, and
// those of a tenant if they are many among all.
func (l *lister) sifted(targets []target, waiting string) (*stream, error) {
	tenant, one := l.events.oneTenant()
	switch {
	case waiting == "" || l.query.Endpoint != "":
		return nil, nil
	case l.narrow():
		return l.column(fmt.Sprintf(pendingQuery, waiting+l.waitingFits()), l.within), nil
	case !one || waiting != waitingAny:
		return nil, nil
	}
	if dense, err := l.dense(targets); !dense || err != nil {
		return nil, err
	}
	number, err := rows.Integer(l.r.Query(tenantQuery).Text(tenant))
	return l.column(pendingTenantQuery, l.within, number), err
}

// finals are the final statuses to look for.
func (l *lister) finals() (finals []int64) {
	wanted := l.query.Status
	switch {
	case l.query.DeadLetters && len(wanted) > 0 && !slices.Contains(wanted, grapnel.Failed):
		return nil
	case l.query.DeadLetters:
		return []int64{rows.StatusFailed}
	case len(wanted) == 0 && !l.narrow():
		return []int64{rows.StatusDelivered} // represents all: the index that leaves it out cannot be used
	case len(wanted) == 0:
		wanted = grapnel.Statuses()
	}
	for _, status := range wanted {
		if n, known := rows.Statuses.Place(status); known && status.Final() {
			finals = append(finals, n)
		}
	}
	return finals
}

// waiting is the SQL condition for the pending deliveries that match; empty: none do. some and all
// say of how many of their endpoints every pending delivery is held.
func (l *lister) waiting(some, all bool) string {
	wanted := l.query.Status
	pending, held := slices.Contains(wanted, grapnel.Pending) && !all, slices.Contains(wanted, grapnel.Held)
	switch {
	case l.query.DeadLetters:
		return ""
	case len(wanted) == 0, pending && held, held && some:
		return waitingAny
	case pending:
		return waitingFirst
	case held:
		return waitingHeld
	}
	return ""
}

// finished lists the finished deliveries of some targets, or those delivered there with a matching
// outcome.
func (l *lister) finished(targets []target) (*stream, error) {
	there, err := stored(l.r, oldestFinishedQuery, newestFinishedQuery)
	if err != nil {
		return nil, err
	}
	in := l.within.and(there)
	if _, one := l.events.oneTenant(); l.narrow() && !one && l.query.Endpoint == "" {
		return l.delivered(nil, in) // of every target
	}
	var numbers []int64
	for _, t := range targets {
		numbers = append(numbers, t.number)
	}
	if len(numbers) == 0 {
		return listStream(nil, in), nil
	}
	if l.narrow() {
		return l.delivered(numbers, in)
	}
	of := blocks{ctx: l.ctx, look: l.look, in: in, read: having(l.r, numbers, l.bounds.Wanted, finishedTargetQuery, finishedTargetsQuery)}
	if len(numbers) == 1 {
		of.upTo = holding(l.r, l.bounds, blockOfTargetQuery, numbers[0], in)
	}
	return of.stream(), nil
}

var blockOfTargetQuery = blockQuery("finished", "target = ?3")

// target is an endpoint with its numbers of deliveries by status.
type target struct {
	number   int64
	endpoint string
	counts   [rows.StatusSkipped + 1]int64
}

// targets returns the endpoints to read, unless reading everything is cheaper.
func (l *lister) targets(finals []int64) (found []target, limited bool, err error) {
	tenant, one := l.events.oneTenant()
	q := l.r.Query(tallyAllQuery)
	switch {
	case l.query.Endpoint != "":
		only, err := rows.Integer(l.r.Query(targetQuery).Text(l.query.Endpoint))
		if err != nil {
			return nil, true, err
		}
		q = l.r.Query(tallyQuery).Int(only).Bool(!one).Text(tenant)
	case one:
		q = l.r.Query(tallyTenantQuery).Text(tenant)
	case slices.Contains(finals, rows.StatusDelivered) && !l.narrow():
		return nil, false, nil
	}
	found, err = readTargets(q)
	return found, l.query.Endpoint != "" || len(found) <= l.bounds.Targets, err
}

// dense says whether the pending deliveries of these targets are so many of all that sifting all of
// them costs less than gathering those of each target.
func (l *lister) dense(targets []target) (bool, error) {
	if len(targets) <= l.bounds.Wanted {
		return false, nil
	}
	there, err := stored(l.r, oldestPendingQuery, newestPendingQuery)
	own := int64(0)
	for _, t := range targets {
		own += t.counts[rows.StatusPending]
	}
	return there.below-there.from <= 16*own, err
}

// readTargets reads the endpoints that a query of the tally finds.
func readTargets(q *sqlite3.Stmt) (found []target, err error) {
	for q.More(&err) {
		number, n := q.Integer(0), q.Integer(3)
		if n == 0 {
			continue
		}
		if len(found) == 0 || found[len(found)-1].number != number {
			found = append(found, target{number: number, endpoint: q.String(1)})
		}
		found[len(found)-1].counts[q.Integer(2)] += n
	}
	return found, err
}

// ofTarget lists a target's pending deliveries, and its finished ones in one of these statuses,
// which do not include delivered.
func (l *lister) ofTarget(t target, finals []int64, waiting string) ([]*stream, error) {
	var streams []*stream
	for _, status := range finals {
		switch {
		case t.counts[status] == 0:
		case l.narrow():
			more, err := l.undelivered(t.number, status)
			if err != nil {
				return nil, err
			}
			streams = append(streams, more...)
		case l.query.DeadLetters && !l.query.Replayed:
			streams = append(streams, l.column(deadLettersQuery, l.within, t.number))
		case l.query.DeadLetters:
			streams = append(streams, l.column(replayedLettersQuery, l.within, t.number))
		default:
			streams = append(streams, l.column(finishedUndeliveredQuery, l.within, t.number, status))
		}
	}
	switch n := t.counts[rows.StatusPending]; {
	case waiting == "" || n == 0:
	case n <= int64(l.bounds.Gathered):
		numbers, err := gather(l.r, t.number, l.waitingFits())
		if err != nil {
			return nil, err
		}
		streams = append(streams, listStream(numbers, l.within))
	default:
		streams = append(streams, l.column(fmt.Sprintf(pendingTargetQuery, waiting+l.waitingFits()), l.within, t.number))
	}
	return streams, nil
}
