package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// A statement plans and locks the tables of all days whose rows it may read. So a list reads the
// newest days first. While its page is not full it goes on, in eight times as many days and then in
// all. Each statement names the row ids that it reads, by constants: PostgreSQL leaves out the days
// of others before it locks their tables. A calendar that is outdated changes only where the
// statements of a list divide.

// starts are the row ids at which the statements of a list end, one after the other. Together they
// read all rows below `before`.
func (s *lister) starts(before int64) []int64 {
	return s.days.known.Load().starts(below(before), s.bounds.ListDays)
}

func (c *calendar) starts(before int64, first int) (starts []int64) {
	newest := min(dayOf(before-1), c.current)
	at, _ := slices.BinarySearchFunc(c.days, newest+1, func(d day, number int64) int { return cmp.Compare(d.number, number) })
	for n := first; n < at; n *= 8 {
		starts = append(starts, begins(c.days[at-n].number))
	}
	return append(starts, 0)
}

// whereFrom adds the condition that a row id is `start` or more.
func (f *filter) whereFrom(column string, start int64) *filter {
	if start <= 0 {
		return f
	}
	return f.text(" AND " + column + " >= ").value(start)
}

// lastOfDay is the highest row id of the day of a row id.
func lastOfDay(number int64) int64 { return number | (1<<dayBits - 1) }

// againOf are the events that were redelivered in a list's range.
type againOf struct {
	events []int64 // and 0, which is no row id: for an empty array the planner leaves out no day
	ofKey  []int64 // those of the list's key
	all    bool    // there are too many to look them up one by one
}

const (
	againQuery      = "SELECT event FROM redelivery WHERE delivery >= $1 AND delivery < $2 LIMIT $3"
	againOfKeyQuery = "SELECT seq FROM event WHERE seq = ANY($1) AND key = $2"
)

// againOf finds the redelivered events if the list has a condition on events; they may be of any
// day before the redelivery. nil: the list has none.
func (s *lister) againOf(ctx context.Context, q *store.DeliveryQuery, start int64) (a *againOf, err error) {
	if q.Key == "" && q.From.IsZero() && q.To.IsZero() {
		return nil, nil
	}
	a = new(againOf)
	a.events, err = rows.FirstColumn[int64](rows.Ask(ctx, s.reading, againQuery, start, below(q.Before), s.bounds.ListAgain+1))
	if err != nil {
		return nil, err
	}
	a.all = len(a.events) > s.bounds.ListAgain
	if q.Key != "" && len(a.events) > 0 && !a.all {
		a.ofKey, err = rows.FirstColumn[int64](rows.Ask(ctx, s.reading, againOfKeyQuery, a.events, q.Key))
	}
	a.events = append(a.events, 0)
	return a, err
}

// whereAccepted adds the condition on the acceptance time of a delivery's event.
func (f *filter) whereAccepted(q *store.DeliveryQuery, again *againOf) {
	at := acceptedAt
	if (!q.From.IsZero() || !q.To.IsZero()) && !again.all {
		f.values = append(f.values, again.events)
		at = strings.Replace(at, "seq = d.event", fmt.Sprintf("seq = d.event AND seq = ANY($%d)", len(f.values)), 1)
	}
	f.whereWithin(at, q.From, q.To)
}

// ofKey is a source of the deliveries of a key from `start` on. They are found by their events: the
// original ones by their range of row ids, which are of the event's day, redeliveries one by one.
func (f *filter) ofKey(table string, q *store.DeliveryQuery, start int64, again *againOf) {
	f.text("(SELECT x.* FROM event e CROSS JOIN LATERAL (SELECT * FROM " + table +
		" WHERE seq BETWEEN e.first AND e.last AND seq = ANY(ARRAY(SELECT generate_series(e.first, e.last))) AND event = e.seq) x" +
		" WHERE e.key = ").value(q.Key)
	f.text(" AND e.key <> '' AND e.seq >= ").value(begins(dayOf(start))).text(" AND e.seq <= ").value(lastOfDay(below(q.Before) - 1))
	if again.all {
		f.text(" UNION ALL SELECT x.* FROM event e JOIN redelivery r ON r.event = e.seq JOIN " + table +
			" x ON x.seq = r.delivery WHERE e.key = ").value(q.Key).text(" AND e.key <> ''")
	} else if len(again.ofKey) > 0 {
		f.text(" UNION ALL SELECT x.* FROM redelivery r JOIN " + table + " x ON x.seq = r.delivery WHERE r.event = ANY(").value(again.ofKey).text(")")
	}
	f.text(")")
}

// span is the range of row ids that an event with this id has if it has no name (event_name). Days
// that the calendar does not know yet are in it if they may have the id.
func (c *calendar) span(id string) (from, to int64) {
	for i := range c.days {
		if d := &c.days[i]; d.mayHave(id) {
			from, to = cmp.Or(from, begins(d.number)), begins(d.number+1)
		}
	}
	if id >= firstID(c.newest()) {
		return cmp.Or(from, begins(c.newest()+1)), below(0)
	}
	return from, to
}
