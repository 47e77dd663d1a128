package sqlite

import (
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// column is a column of a table whose rows are R in memory. A table's list of columns is the only
// place that knows their order: the SQL of its statements, the values bound to them and the reading
// of its rows are all made from it.
type column[R any] struct {
	name string
	uses use
	bind func(*sqlite3.Stmt, *R)
	read func(*sqlite3.Stmt, int, *R)
}

// use are the statements in which a column occurs.
type use uint8

const (
	adds  use = 1 << iota // INSERT
	reads                 // SELECT
	plans                 // UPDATE of a head
	marks                 // UPDATE of a delivery behind its head
	leads                 // UPDATE of a delivery that becomes the head
)

func number[R any, N ~int | ~int64](name string, uses use, of func(*R) *N) column[R] {
	return column[R]{name, uses, func(s *sqlite3.Stmt, r *R) { s.Int(int64(*of(r))) },
		func(q *sqlite3.Stmt, at int, r *R) { *of(r) = N(q.Integer(at)) }}
}

func truth[R any](name string, uses use, of func(*R) *bool) column[R] {
	return column[R]{name, uses, func(s *sqlite3.Stmt, r *R) { s.Bool(*of(r)) },
		func(q *sqlite3.Stmt, at int, r *R) { *of(r) = q.Integer(at) == 1 }}
}

// moment is a time in microseconds that may be NULL, which is decide.None.
func moment[R any](name string, uses use, of func(*R) *int64) column[R] {
	return column[R]{name, uses,
		func(s *sqlite3.Stmt, r *R) {
			if at := *of(r); at != decide.None {
				s.Int(at)
				return
			}
			s.Null()
		},
		func(q *sqlite3.Stmt, at int, r *R) {
			if *of(r) = decide.None; !q.IsNull(at) {
				*of(r) = q.Integer(at)
			}
		}}
}

func textual[R any](name string, uses use, of func(*R) *string) column[R] {
	return column[R]{name, uses, func(s *sqlite3.Stmt, r *R) { s.Text(*of(r)) },
		func(q *sqlite3.Stmt, at int, r *R) { *of(r) = q.String(at) }}
}

// label is a text that is NULL if it is empty.
func label[R any](name string, uses use, of func(*R) *string) column[R] {
	c := textual(name, uses, of)
	c.bind = func(s *sqlite3.Stmt, r *R) { bindName(s, *of(r)) }
	return c
}

func word[R any, W ~string](name string, uses use, list codec.Words[W], of func(*R) *W) column[R] {
	return column[R]{name, uses,
		func(s *sqlite3.Stmt, r *R) {
			if i, known := list.Place(*of(r)); known {
				s.Int(i)
				return
			}
			s.Text(string(*of(r)))
		},
		func(q *sqlite3.Stmt, at int, r *R) { *of(r) = readWord(q, at, list) }}
}

func blob[R any](name string, uses use, of func(*R) []byte) column[R] {
	return column[R]{name: name, uses: uses, bind: func(s *sqlite3.Stmt, r *R) { s.Blob(of(r)) }}
}

// columns are the columns of a table that occur in one statement, in its order.
type columns[R any] []column[R]

func (c columns[R]) of(uses use) columns[R] {
	return slices.DeleteFunc(slices.Clone(c), func(c column[R]) bool { return c.uses&uses == 0 })
}

// names joins the columns' names, each followed by a suffix.
func (c columns[R]) names(suffix string) string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].name + suffix
	}
	return strings.Join(names, ", ")
}

// insert adds a number of rows. With OR FAIL SQLite copies no pages before the statement, which it
// otherwise does for several rows: a transaction in which a row fails is rolled back anyway.
func (c columns[R]) insert(table string) func(rows int) string {
	row := "(?" + strings.Repeat(", ?", len(c)-1) + ")"
	return func(rows int) string {
		return "INSERT OR FAIL INTO " + table + " (" + c.names("") + ") VALUES " + row + strings.Repeat(", "+row, rows-1)
	}
}

// update changes the row with a number, which is bound last.
func (c columns[R]) update(table string) string {
	return "UPDATE " + table + " SET " + c.names(" = ?") + " WHERE seq = ?"
}

func (c columns[R]) bind(s *sqlite3.Stmt, r *R) *sqlite3.Stmt {
	for i := range c {
		c[i].bind(s, r)
	}
	return s
}

// read reads the row that a query has found.
func (c columns[R]) read(q *sqlite3.Stmt, r *R) {
	for i := range c {
		c[i].read(q, i, r)
	}
}

// Indexes of statuses that SQL names: the index of undelivered deliveries leaves out the delivered
// ones.
const (
	statusPending   = 1
	statusDelivered = 3
	statusFailed    = 4
)

// The words that columns store as indexes and no document does.
var (
	statuses = codec.Words[grapnel.Status]{"", grapnel.Pending, grapnel.Held, grapnel.Delivered, grapnel.Failed, grapnel.Dropped,
		grapnel.Discarded, grapnel.Skipped}
	reasonCodes = codec.Words[grapnel.ReasonCode]{grapnel.ReasonNone, grapnel.ReasonExhausted, grapnel.ReasonPermanent, grapnel.ReasonRejected,
		grapnel.ReasonExpired, grapnel.ReasonEndpointGone}
	asides = codec.Words[grapnel.AsideReason]{"", grapnel.AsideUnverified, grapnel.AsideConflict, grapnel.AsideRefused}
)

func readWord[W ~string](s *sqlite3.Stmt, column int, list codec.Words[W]) W {
	if s.IsText(column) {
		return W(s.String(column))
	}
	if i := s.Integer(column); i >= 0 && i < int64(len(list)) {
		return list[i]
	}
	return ""
}

// bindName writes a name that is NULL when it is empty.
func bindName(s *sqlite3.Stmt, name string) *sqlite3.Stmt {
	if name == "" {
		return s.Null()
	}
	return s.Text(name)
}

// readTime reads a time that may be NULL.
func readTime(q *sqlite3.Stmt, column int) time.Time {
	if q.IsNull(column) {
		return time.Time{}
	}
	return codec.Moment(q.Integer(column))
}

// A block is 4096 row ids: those that differ only in their last twelve bits. Indexes that begin
// with the block are read block by block.
const blockBits = 12
