package postgres

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// filter builds a query from constant parts and values of callers. Values are always parameters.
type filter struct {
	b      strings.Builder
	values []any
}

func (f *filter) sql() string { return f.b.String() }

// ask runs the query.
func (f *filter) ask(ctx context.Context, db rows.Queries) rows.Asked {
	return rows.Ask(ctx, db, f.sql(), f.values...)
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

// acceptedAt is the acceptance time of a delivery's event.
const acceptedAt = "CASE WHEN d.replay_of = 0 THEN d.created ELSE (SELECT accepted FROM event WHERE seq = d.event) END"

// whereWithin adds the condition that a time is within a span, whose ends may be open.
func (f *filter) whereWithin(at string, from, to time.Time) {
	if !from.IsZero() {
		f.text(" AND " + at + " >= ").value(codec.Micros(from))
	}
	if !to.IsZero() {
		f.text(" AND " + at + " < ").value(codec.Micros(to))
	}
}
