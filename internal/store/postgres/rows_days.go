package postgres

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// Events, finished deliveries and attempts are in one table per day, so that a day can be dropped
// as a whole. A row's table follows from its row id: each day has its own range of row ids. When a
// day begins, the sequences jump to its range. They jump under a lock that excludes writers, and
// only to a day whose tables exist. So every row id drawn has a table, and all ids drawn by one
// transaction have the same day. If no node jumps at midnight, because none was running or a table
// could not be created, row ids go on in the range of the day before. So correctness does not
// depend on the clock that begins a day, which is the database's; if it goes back, the sequences do
// not.

// dayBits is the number of low bits of a row id that distinguish rows of one day.
const dayBits = 36

// dayOf is the day since 1970 of a row id's tables. Day 0 has none: a new database's sequences
// begin there.
func dayOf(number int64) int64 { return number >> dayBits }

// begins returns the first row id of a day.
func begins(day int64) int64 { return day << dayBits }

// dayAt is the day of a time.
func dayAt(micros int64) int64 { return micros / (24 * time.Hour).Microseconds() }

// dated are the tables with one partition per day.
var dated = []string{"event", "finished", "attempt"}

// tableOf is the table of a day.
func tableOf(of string, day int64) string {
	return of + "_" + midnight(day).Format("20060102")
}

func midnight(day int64) time.Time { return time.Unix(day*24*60*60, 0).UTC() }

// calendar is a node's knowledge of the days. It may be outdated, because other nodes create and
// remove days.
type calendar struct {
	days    []day // the oldest first
	current int64 // the day from which row ids are drawn
	named   int   // see Bounds.DaysNamed
}

// day is a day that has tables.
type day struct {
	number int64
	// Ids between these texts are in no other day's table, unless they have a name (event_name).
	from, to string
}

// dayOfTables computes the ids that only this day can have: those created on that day or on the day
// before, by the time inside the id.
func dayOfTables(number int64) day {
	return day{number: number, from: firstID(number - 1), to: firstID(number + 1)}
}

// firstID is the smallest prefix of ids created on a day or later. It ends where the random part
// begins.
func firstID(day int64) string {
	return grapnel.NewID(grapnel.EventPrefix, midnight(day), strings.NewReader("0123456789"))[:len(grapnel.EventPrefix)+1+10]
}

func (d *day) mayHave(id string) bool { return d.from <= id && id < d.to }

// newest is the last day that has tables.
func (c *calendar) newest() int64 {
	if len(c.days) == 0 {
		return -1
	}
	return c.days[len(c.days)-1].number
}

func (c *calendar) has(number int64) bool {
	return slices.ContainsFunc(c.days, func(d day) bool { return d.number == number })
}

// of is the source for reading rows with these row ids: the tables of their days, so that the
// server need not search all days; or the whole table, if a day is unknown or there are too many.
func (c *calendar) of(table string, numbers []int64) string {
	var days []int64
	for _, n := range numbers {
		day := dayOf(n)
		if day > c.newest() {
			return table
		}
		if !slices.Contains(days, day) && c.has(day) {
			days = append(days, day)
		}
		if len(days) > c.named {
			return table
		}
	}
	if len(days) <= 1 {
		for _, day := range days {
			return tableOf(table, day)
		}
		return table
	}
	slices.Sort(days)
	return "(" + strings.Join(rows.Column(days, func(day int64) string { return "SELECT * FROM " + tableOf(table, day) }), " UNION ALL ") + ")"
}

// holders are the tables in which events with these ids can be that have no name (event_name).
func (c *calendar) holders(ids []string) (tables []string) {
	for i := range c.days {
		d := &c.days[i]
		if d.number <= c.current && slices.ContainsFunc(ids, d.mayHave) {
			tables = append(tables, tableOf("event", d.number))
		}
	}
	return tables
}

// days is a store's cached state about days.
type days struct {
	known   atomic.Pointer[calendar]
	doubted atomic.Bool  // the next write reads the calendar again before it uses it
	clock   atomic.Int64 // the database's time, as of the last answer

	chore sync.Mutex // held while days are created
	again time.Time  // no retry before this, after a failure

	worth     int      // see Bounds.DayWorth
	postponed sync.Map // by day (int64): time.Time before which it is not considered for clearing
}
