package postgres

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

// value is a column that is written once and not read with its row.
func value[R, V any](name, kind string, of func(R) V) field[R] {
	return field[R]{name: name, kind: kind, write: "u." + name, constant: true, values: func(rows []R) any { return column(rows, of) }}
}

// readable is a value that is storable in any case; see text.
func readable[R any, T ~string](name string, of func(R) T) field[R] {
	return value(name, "text", func(r R) string { return text(string(of(r))) })
}

// stored is a column of pending that is written and read.
func stored[V any](name, kind string, of func(*place) *V) field[*place] {
	f := value(name, kind, func(p *place) V { return *of(p) })
	f.into, f.read = func(p *place) any { return of(p) }, "p."+name
	return f
}

// moment is a time that may be NULL, which is decide.None.
func moment(name string, of func(*place) *int64) field[*place] {
	f := stored(name, "bigint", of)
	f.read, f.write = fmt.Sprintf("coalesce(p.%s, %d)", name, decide.None), fmt.Sprintf("nullif(u.%s, %d)", name, decide.None)
	return f
}

func textual[T ~string](name string, of func(*place) *T) field[*place] {
	f := stored(name, "text", of)
	f.values = readable(name, func(p *place) T { return *of(p) }).values
	return f
}

func count(name string, of func(*place) *int) field[*place] {
	f := stored(name, "integer", of)
	f.values = func(rows []*place) any { return column(rows, func(p *place) int32 { return int32(*of(p)) }) }
	return f
}

// joined is read from another table.
func joined[V any](read string, of func(*place) *V) field[*place] {
	return field[*place]{read: read, into: func(p *place) any { return of(p) }}
}

// changes marks a column that changes.
func (f field[R]) changes() field[R] {
	f.constant = false
	return f
}

// from is for a column that changes, and whose first value is the same in all rows. The transaction
// that creates a row does not change it: no call can name the row before the commit.
func (f field[R]) from(initial string) field[R] {
	f.constant, f.initial = false, initial
	return f
}

// fields are the columns of a table, or those of a statement.
type fields[R any] []field[R]

// with are the fields for which a condition holds.
func (all fields[R]) with(is func(*field[R]) bool) (some fields[R]) {
	for i := range all {
		if is(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}

// join joins a text for each field.
func (all fields[R]) join(between string, of func(at int, f *field[R]) string) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = of(i, &all[i])
	}
	return strings.Join(texts, between)
}

func (all fields[R]) names() string {
	return all.join(", ", func(_ int, f *field[R]) string { return f.name })
}

// unnest is SQL for the rows whose values are bound as arrays, one for each field.
func (all fields[R]) unnest() string {
	return " FROM unnest(" + all.join(", ", func(at int, f *field[R]) string { return fmt.Sprintf("$%d::%s[]", at+1, f.kind) }) +
		") u(" + all.names() + ")"
}

// selected is SQL for the columns that are read.
func (all fields[R]) selected() string {
	return all.with(func(f *field[R]) bool { return f.into != nil }).join(", ", func(_ int, f *field[R]) string { return f.read })
}

// into are the places to which the columns of selected are read.
func (all fields[R]) into(r R) (list []any) {
	for i := range all {
		if all[i].into != nil {
			list = append(list, all[i].into(r))
		}
	}
	return list
}

// written are the columns of the table itself.
func (all fields[R]) written() fields[R] {
	return all.with(func(f *field[R]) bool { return f.values != nil })
}

// writing is a statement that writes many rows.
type writing[R any] struct {
	sql   string
	bound fields[R]
}

// insert adds rows; more is what follows in the statement.
func (all fields[R]) insert(table, more string) writing[R] {
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

// update changes rows, which the first field identifies.
func (all fields[R]) update(table string) writing[R] {
	changed := all.written().with(func(f *field[R]) bool { return !f.constant })
	bound := append(all[:1:1], changed...)
	set := changed.join(", ", func(_ int, f *field[R]) string { return f.name + " = " + f.write })
	return writing[R]{"UPDATE " + table + " p SET " + set + bound.unnest() + " WHERE p." + all[0].name + " = u." + all[0].name, bound}
}

// queue queues the statement, if there are rows.
func (w *writing[R]) queue(b *pgx.Batch, rows []R) {
	if len(rows) == 0 {
		return
	}
	values := make([]any, len(w.bound))
	for i := range w.bound {
		values[i] = w.bound[i].values(rows)
	}
	b.Queue(w.sql, values...)
}
