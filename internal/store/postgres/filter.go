package postgres

import (
	"context"
	"strconv"
	"strings"
)

// filter builds a query from constant parts and values of callers. Values are always parameters.
type filter struct {
	b      strings.Builder
	values []any
}

func (f *filter) sql() string { return f.b.String() }

// ask runs the query.
func (f *filter) ask(ctx context.Context, db queries) asked {
	return ask(ctx, db, f.sql(), f.values...)
}

func (f *filter) text(part string) *filter {
	f.b.WriteString(part)
	return f
}

func (f *filter) value(v any) *filter {
	f.values = append(f.values, v)
	f.b.WriteByte('$')
	f.b.WriteString(strconv.Itoa(len(f.values)))
	return f
}

// equal adds a condition on a column's value, unless the value is empty.
func (f *filter) equal(column, value string) *filter {
	if value == "" {
		return f
	}
	return f.text(" AND " + column + " = ").value(value)
}

// either adds the condition that a column has one of some values, unless there are none.
func either[V any](f *filter, column string, values []V) *filter {
	if len(values) == 0 {
		return f
	}
	return f.text(" AND " + column + " = ANY(").value(values).text(")")
}
