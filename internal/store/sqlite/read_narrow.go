package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	nextOutcomeQuery     = "SELECT outcome FROM finished WHERE target = ? AND status = ? AND status <> 3 AND outcome > ? ORDER BY outcome LIMIT 1"
	finishedOutcomeQuery = `SELECT seq FROM finished WHERE target = ? AND status = ? AND outcome = ? AND status <> 3
		AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?`
	// letterOutcomeQuery goes past dead letters about which something was done without reading them.
	letterOutcomeQuery = `SELECT seq FROM finished WHERE target = ? AND status = ? AND outcome = ? AND status <> 3
		AND EXISTS (SELECT 1 FROM letter l WHERE l.target = finished.target AND l.seq = finished.seq)
		AND seq < ? AND seq >= ? ORDER BY seq DESC LIMIT ?`
	nextDeliveredOutcomeQuery = "SELECT outcome FROM delivered_outcome WHERE outcome > ? ORDER BY outcome LIMIT 1"
	blockOfOutcomeQuery       = "SELECT block FROM delivered_outcome WHERE outcome = ? AND block <= ? ORDER BY block DESC LIMIT 1"
	targetsOfOutcomeQuery     = "SELECT target FROM target_outcome WHERE outcome = ? LIMIT ?"
	outcomeAtTargetQuery      = "SELECT 1 FROM target_outcome WHERE outcome = ? AND target = ?"
	blockOutcomeQuery         = "SELECT seq FROM finished WHERE seq >> 12 = ? AND target = ? AND outcome = ?"
	blockOutcomesQuery        = "SELECT seq, target, outcome FROM finished WHERE seq >> 12 = ?"
)

// narrow says whether a list filters by a part of an outcome.
func (l *lister) narrow() bool {
	return l.query.Class != "" || l.query.StatusCode != 0 || l.query.ReasonCode != ""
}

// fits says whether deliveries with this outcome may match.
func (l *lister) fits(outcome int64) bool {
	q := &l.query
	return q.Answered(int(outcome>>8)) &&
		(q.Class == "" || is(codec.Classes, q.Class, outcome>>3&otherClass, otherClass)) &&
		(q.ReasonCode == "" || is(rows.ReasonCodes, q.ReasonCode, outcome&otherReason, otherReason))
}

// is says whether an index in a list may stand for a word.
func is[W ~string](list codec.Words[W], w W, place, other int64) bool {
	n, known := list.Place(w)
	return known && n == place || !known && place == other
}

// waitingFits is the same condition as SQL, for pending deliveries.
func (l *lister) waitingFits() string {
	var where strings.Builder
	q := &l.query
	if q.StatusCode != 0 {
		fmt.Fprintf(&where, " AND %d IN (outcome >> 8, (outcome >> 8) / 100)", q.StatusCode)
	}
	if n, known := codec.Classes.Place(q.Class); known && q.Class != "" {
		fmt.Fprintf(&where, " AND outcome >> 3 & 31 = %d", n)
	}
	if n, known := rows.ReasonCodes.Place(q.ReasonCode); known && q.ReasonCode != "" {
		fmt.Fprintf(&where, " AND code = %d", n)
	}
	return where.String()
}

// outcomes returns the matching outcomes, which a query finds one after another.
func (l *lister) outcomes(query string, values ...int64) (found []int64, err error) {
	for last := int64(-1); ; {
		var there bool
		if last, there, err = rows.Next(l.r.Query(query).Ints(values...).Int(last)); !there {
			return found, err
		}
		if l.fits(last) {
			found = append(found, last)
		}
	}
}

// undelivered lists a target's finished deliveries in one status, other than delivered, with a
// matching outcome.
func (l *lister) undelivered(target, status int64) (streams []*stream, err error) {
	outcomes, err := l.outcomes(nextOutcomeQuery, target, status)
	query := finishedOutcomeQuery
	if l.query.DeadLetters && !l.query.Replayed {
		query = letterOutcomeQuery
	}
	for _, outcome := range outcomes {
		streams = append(streams, l.column(query, l.within, target, status, outcome))
	}
	return streams, err
}

// delivered lists delivered deliveries in a window with a matching outcome, at some targets or,
// without targets, at any.
func (l *lister) delivered(targets []int64, in window) (*stream, error) {
	outcomes, err := l.outcomes(nextDeliveredOutcomeQuery)
	if err != nil {
		return nil, err
	}
	wanted, all, err := l.occurring(outcomes, targets)
	if err != nil || !all && len(wanted) == 0 {
		return listStream(nil, in), err
	}
	slices.Sort(targets)
	of := blocks{ctx: l.ctx, in: in, look: l.look, upTo: func(block int64) (int64, error) { return l.blockWith(outcomes, block) }}
	if all {
		q := l.r.Query(blockOutcomesQuery)
		of.read = func(block int64) ([]int64, error) { return sift(q.Int(block), targets, outcomes) }
	} else {
		q := l.r.Query(blockOutcomeQuery)
		of.read = func(block int64) ([]int64, error) {
			return lookUpAll(wanted, func(at targetOutcome) *sqlite3.Stmt { return q.Int(block).Int(at.target).Int(at.outcome) })
		}
	}
	return of.stream(), nil
}

// occurring lists the combinations of outcomes and targets that occur. all: they are so frequent
// that a block is read as a whole.
func (l *lister) occurring(outcomes, targets []int64) (wanted []targetOutcome, all bool, err error) {
	for _, outcome := range outcomes {
		if len(targets) == 0 {
			with, err := rows.Integers(l.r.Query(targetsOfOutcomeQuery).Int(outcome).Int(int64(l.bounds.Wanted) + 1))
			if err != nil {
				return nil, false, err
			}
			for _, target := range with {
				wanted = append(wanted, targetOutcome{outcome, target})
			}
		}
		for _, target := range targets {
			there, err := rows.Integer(l.r.Query(outcomeAtTargetQuery).Int(outcome).Int(target))
			if err != nil {
				return nil, false, err
			}
			if there == 1 {
				wanted = append(wanted, targetOutcome{outcome, target})
			}
		}
		if len(wanted) > l.bounds.Wanted {
			return nil, true, nil
		}
	}
	return wanted, false, nil
}

// blockWith is the newest block up to one in which one of the outcomes occurs; -1: none.
func (l *lister) blockWith(outcomes []int64, upTo int64) (newest int64, err error) {
	newest = -1
	q := l.r.Query(blockOfOutcomeQuery)
	for _, outcome := range outcomes {
		block, err := newestBlock(q.Int(outcome).Int(upTo))
		if err != nil {
			return newest, err
		}
		newest = max(newest, block)
	}
	return newest, nil
}
