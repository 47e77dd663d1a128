package rows

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// field is a column of a table whose rows are R in memory. A table's list of fields is the only
// place that knows the order of its columns: the statements, the arrays bound to them and the
// reading of rows are made from it.
type field[R any] struct {
	name, kind string        // kind is its type
	values     func([]R) any // of many rows, as an array; nil: the column is only read
	into       func(R) any   // where to read it; nil: the column is only written
	read       string        // SQL that reads it
	write      string        // SQL of the value from the array u
	initial    string        // SQL of its value in a new row, if that is always the same
	constant   bool          // it never changes
}

// Value is a column that is written once and not read with its row.
func Value[R, V any](name, kind string, of func(R) V) field[R] {
	return field[R]{name: name, kind: kind, write: "u." + name, constant: true, values: func(rows []R) any { return Column(rows, of) }}
}

// Readable is a value that is storable in any case; see text.
func Readable[R any, T ~string](name string, of func(R) T) field[R] {
	return Value(name, "text", func(r R) string { return text(string(of(r))) })
}

// Stored is a column that is written and read, from the table that the statement calls p.
func Stored[R, V any](name, kind string, of func(R) *V) field[R] {
	f := Value(name, kind, func(r R) V { return *of(r) })
	f.into, f.read = func(r R) any { return of(r) }, "p."+name
	return f
}

// Moment is a time that may be NULL, which is decide.None.
func Moment[R any](name string, of func(R) *int64) field[R] {
	f := Stored(name, "bigint", of)
	f.read, f.write = fmt.Sprintf("coalesce(p.%s, %d)", name, decide.None), fmt.Sprintf("nullif(u.%s, %d)", name, decide.None)
	return f
}

func Textual[R any, T ~string](name string, of func(R) *T) field[R] {
	f := Stored(name, "text", of)
	f.values = Readable(name, func(r R) T { return *of(r) }).values
	return f
}

func Count[R any](name string, of func(R) *int) field[R] {
	f := Stored(name, "integer", of)
	f.values = func(rows []R) any { return Column(rows, func(r R) int32 { return int32(*of(r)) }) }
	return f
}

// Joined is read from another table.
func Joined[R, V any](read string, of func(R) *V) field[R] {
	return field[R]{read: read, into: func(r R) any { return of(r) }}
}

// Changes marks a column that changes.
func (f field[R]) Changes() field[R] {
	f.constant = false
	return f
}

// From is for a column that changes, and whose first value is the same in all rows. The transaction
// that creates a row does not change it: no call can name the row before the commit.
func (f field[R]) From(initial string) field[R] {
	f.constant, f.initial = false, initial
	return f
}

// Fields are the columns of a table, or those of a statement.
type Fields[R any] []field[R]

// with are the fields for which a condition holds.
func (all Fields[R]) with(is func(*field[R]) bool) (some Fields[R]) {
	for i := range all {
		if is(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}

// join joins a text for each field.
func (all Fields[R]) join(between string, of func(at int, f *field[R]) string) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = of(i, &all[i])
	}
	return strings.Join(texts, between)
}

func (all Fields[R]) names() string {
	return all.join(", ", func(_ int, f *field[R]) string { return f.name })
}

// unnest is SQL for the rows whose values are bound as arrays, one for each field.
func (all Fields[R]) unnest() string {
	return " FROM unnest(" + all.join(", ", func(at int, f *field[R]) string { return fmt.Sprintf("$%d::%s[]", at+1, f.kind) }) +
		") u(" + all.names() + ")"
}

// Selected is SQL for the columns that are read.
func (all Fields[R]) Selected() string {
	return all.with(func(f *field[R]) bool { return f.into != nil }).join(", ", func(_ int, f *field[R]) string { return f.read })
}

// Into are the places to which the columns of selected are read.
func (all Fields[R]) Into(r R) (list []any) {
	for i := range all {
		if all[i].into != nil {
			list = append(list, all[i].into(r))
		}
	}
	return list
}

// written are the columns of the table itself.
func (all Fields[R]) written() Fields[R] {
	return all.with(func(f *field[R]) bool { return f.values != nil })
}

// writing is a statement that writes many rows.
type writing[R any] struct {
	SQL   string
	bound Fields[R]
}

// Insert adds rows; more is what follows in the statement.
func (all Fields[R]) Insert(table, more string) writing[R] {
	all = all.written()
	bound := all.with(func(f *field[R]) bool { return f.initial == "" })
	values := all.join(", ", func(_ int, f *field[R]) string {
		if f.initial != "" {
			return f.initial
		}
		return f.write
	})
	return writing[R]{"INSERT INTO " + table + " (" + all.names() + ") SELECT " + values + bound.unnest() + more, bound}
}

// Update changes rows, which the first field identifies.
func (all Fields[R]) Update(table string) writing[R] {
	changed := all.written().with(func(f *field[R]) bool { return !f.constant })
	bound := append(all[:1:1], changed...)
	set := changed.join(", ", func(_ int, f *field[R]) string { return f.name + " = " + f.write })
	return writing[R]{"UPDATE " + table + " p SET " + set + bound.unnest() + " WHERE p." + all[0].name + " = u." + all[0].name, bound}
}

// Queue queues the statement, if there are rows.
func (w *writing[R]) Queue(b *pgx.Batch, rows []R) {
	if len(rows) == 0 {
		return
	}
	values := make([]any, len(w.bound))
	for i := range w.bound {
		values[i] = w.bound[i].values(rows)
	}
	b.Queue(w.SQL, values...)
}
