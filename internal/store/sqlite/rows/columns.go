package rows

import (
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Column is a column of a table whose rows are R in memory. A table's list of columns is the only
// place that knows their order: the SQL of its statements, the values bound to them and the reading
// of its rows are all made from it.
type Column[R any] struct {
	Name string
	Uses Use
	Bind func(*sqlite3.Stmt, *R)
	read func(*sqlite3.Stmt, int, *R)
}

// Use are the statements in which a column occurs.
type Use uint8

const (
	Adds  Use = 1 << iota // INSERT
	Reads                 // SELECT
	Plans                 // UPDATE of a head
	Marks                 // UPDATE of a delivery behind its head
	Leads                 // UPDATE of a delivery that becomes the head
)

// Number is a column with an integer.
func Number[R any, N ~int | ~int64](name string, uses Use, of func(*R) *N) Column[R] {
	return Column[R]{name, uses, func(s *sqlite3.Stmt, r *R) { s.Int(int64(*of(r))) },
		func(q *sqlite3.Stmt, at int, r *R) { *of(r) = N(q.Integer(at)) }}
}

// Truth is a column with 0 or 1.
func Truth[R any](name string, uses Use, of func(*R) *bool) Column[R] {
	return Column[R]{name, uses, func(s *sqlite3.Stmt, r *R) { s.Bool(*of(r)) },
		func(q *sqlite3.Stmt, at int, r *R) { *of(r) = q.Integer(at) == 1 }}
}

// Moment is a time in microseconds that may be NULL, which is decide.None.
func Moment[R any](name string, uses Use, of func(*R) *int64) Column[R] {
	return Column[R]{name, uses,
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

// Textual is a column with a text.
func Textual[R any](name string, uses Use, of func(*R) *string) Column[R] {
	return Column[R]{name, uses, func(s *sqlite3.Stmt, r *R) { s.Text(*of(r)) },
		func(q *sqlite3.Stmt, at int, r *R) { *of(r) = q.String(at) }}
}

// Label is a text that is NULL if it is empty.
func Label[R any](name string, uses Use, of func(*R) *string) Column[R] {
	c := Textual(name, uses, of)
	c.Bind = func(s *sqlite3.Stmt, r *R) { BindName(s, *of(r)) }
	return c
}

// Word is a column with the index of a word in a list, or with a word that the list lacks.
func Word[R any, W ~string](name string, uses Use, list codec.Words[W], of func(*R) *W) Column[R] {
	return Column[R]{name, uses,
		func(s *sqlite3.Stmt, r *R) {
			if i, known := list.Place(*of(r)); known {
				s.Int(i)
				return
			}
			s.Text(string(*of(r)))
		},
		func(q *sqlite3.Stmt, at int, r *R) { *of(r) = ReadWord(q, at, list) }}
}

// Blob is a column with bytes, which is only written.
func Blob[R any](name string, uses Use, of func(*R) []byte) Column[R] {
	return Column[R]{Name: name, Uses: uses, Bind: func(s *sqlite3.Stmt, r *R) { s.Blob(of(r)) }}
}

// Columns are the columns of a table that occur in one statement, in its order.
type Columns[R any] []Column[R]

// Of are the columns that occur in one of these statements.
func (c Columns[R]) Of(uses Use) Columns[R] {
	return slices.DeleteFunc(slices.Clone(c), func(c Column[R]) bool { return c.Uses&uses == 0 })
}

// Names joins the columns' names, each followed by a suffix.
func (c Columns[R]) Names(suffix string) string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].Name + suffix
	}
	return strings.Join(names, ", ")
}

// Insert adds a number of rows. With OR FAIL SQLite copies no pages before the statement, which it
// otherwise does for several rows: a transaction in which a row fails is rolled back anyway.
func (c Columns[R]) Insert(table string) func(rows int) string {
	row := "(?" + strings.Repeat(", ?", len(c)-1) + ")"
	return func(rows int) string {
		return "INSERT OR FAIL INTO " + table + " (" + c.Names("") + ") VALUES " + row + strings.Repeat(", "+row, rows-1)
	}
}

// Update changes the row with a number, which is bound last.
func (c Columns[R]) Update(table string) string {
	return "UPDATE " + table + " SET " + c.Names(" = ?") + " WHERE seq = ?"
}

// Bind binds the values of a row to a statement.
func (c Columns[R]) Bind(s *sqlite3.Stmt, r *R) *sqlite3.Stmt {
	for i := range c {
		c[i].Bind(s, r)
	}
	return s
}

// Read reads the row that a query has found.
func (c Columns[R]) Read(q *sqlite3.Stmt, r *R) {
	for i := range c {
		c[i].read(q, i, r)
	}
}

// Indexes of statuses that SQL names, as the index of undelivered deliveries leaves out the
// delivered ones; and the last one.
const (
	StatusPending   = 1
	StatusDelivered = 3
	StatusFailed    = 4
	StatusSkipped   = 7
)

// The words that columns store as indexes and no document does.
var (
	Statuses = codec.Words[grapnel.Status]{"", grapnel.Pending, grapnel.Held, grapnel.Delivered, grapnel.Failed, grapnel.Dropped,
		grapnel.Discarded, grapnel.Skipped}
	ReasonCodes = codec.Words[grapnel.ReasonCode]{grapnel.ReasonNone, grapnel.ReasonExhausted, grapnel.ReasonPermanent, grapnel.ReasonRejected,
		grapnel.ReasonExpired, grapnel.ReasonEndpointGone}
	Asides = codec.Words[grapnel.AsideReason]{"", grapnel.AsideUnverified, grapnel.AsideConflict, grapnel.AsideRefused}
)

// ReadWord reads a column that Word has written.
func ReadWord[W ~string](s *sqlite3.Stmt, column int, list codec.Words[W]) W {
	if s.IsText(column) {
		return W(s.String(column))
	}
	if i := s.Integer(column); i >= 0 && i < int64(len(list)) {
		return list[i]
	}
	return ""
}

// BindName writes a name that is NULL when it is empty.
func BindName(s *sqlite3.Stmt, name string) *sqlite3.Stmt {
	if name == "" {
		return s.Null()
	}
	return s.Text(name)
}

// ReadTime reads a time that may be NULL.
func ReadTime(q *sqlite3.Stmt, column int) time.Time {
	if q.IsNull(column) {
		return time.Time{}
	}
	return codec.Moment(q.Integer(column))
}

// A block is 4096 row ids: those that differ only in their last twelve bits. Indexes that begin
// with the block are read block by block.
const BlockBits = 12
