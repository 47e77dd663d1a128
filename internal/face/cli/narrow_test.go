package cli

import (
	"slices"
	"strings"
	"testing"
)

// TestLongTextsAreCut: texts are cut before columns are hidden, the widest first and none below its
// least width; what fits is whole.
func TestLongTextsAreCut(t *testing.T) {
	id, kind, key := "dlv_"+strings.Repeat("0", 26), "invoice."+strings.Repeat("x", 24), "customer-"+strings.Repeat("k", 21)
	part := Part{Head: []string{"DELIVERY", "STATUS", "TYPE", "KEY", "ENDPOINT", "TRIES", "LAST", "NEXT"},
		Rows: [][]string{{id, "failed", kind, key, "Warehouse", "12345", "1503", "in 2m10s"}}}
	for _, c := range []struct {
		width  int
		hidden []string
		whole  bool
	}{
		{200, nil, true}, {140, nil, true}, {120, nil, false}, {103, nil, false}, {80, []string{"NEXT", "ENDPOINT"}, false},
		{70, []string{"NEXT", "ENDPOINT", "KEY"}, false},
	} {
		got, hidden := layout{width: c.width}.narrow(part)
		row := got.Rows[0]
		if !slices.Equal(hidden, c.hidden) || row[0] != id || (row[2] == kind) != c.whole {
			t.Errorf("%d columns hide %v, want %v: %q", c.width, hidden, c.hidden, row)
		}
		for _, text := range row {
			if n := Columns(text); strings.HasSuffix(text, "…") && (n < leastText || n > Columns(row[2])) {
				t.Errorf("%d columns: %q has %d columns", c.width, text, n)
			}
		}
		if n := Columns(strings.Join(row, gap)); !c.whole && n != c.width {
			t.Errorf("%d columns: a row of %d: %q", c.width, n, row)
		}
	}
}

// TestNarrowTables: a terminal without room hides empty columns, then ids and dates, and says so;
// figures stay, and a terminal with room hides nothing.
func TestNarrowTables(t *testing.T) {
	id := "dlv_" + strings.Repeat("0", 26)
	stats := Part{Head: []string{"AT", "DELIVERED", "FAILED", "DROPPED", "RETRIED", "FIRST TRY", "P50", "P99"},
		Rows: [][]string{{"2026-01-02T03:00:00Z", "1203", "3", "0", "12", "98%", "31ms", "1.2s"}}}
	deliveries := Part{Head: []string{"DELIVERY", "STATUS", "TYPE", "ENDPOINT", "ID", "TRIES", "NEXT", "CREATED"},
		Rows: [][]string{{id, "failed", "invoice.paid", "Warehouse", id, "3", "in 2m10s", "3d ago"}, {id, "failed", "invoice.paid", "Warehouse", id, "3", "", "now"}}}
	for _, c := range []struct {
		part   Part
		width  int
		hidden []string
	}{
		{stats, 0, nil}, {stats, 200, nil}, {stats, 79, []string{"DROPPED"}}, {stats, 60, []string{"DROPPED", "RETRIED", "FAILED"}},
		{deliveries, 160, nil}, {deliveries, 100, []string{"ID"}}, {deliveries, 80, []string{"ID", "CREATED"}}, {deliveries, 70, []string{"ID", "CREATED", "NEXT"}},
	} {
		narrow, hidden := layout{width: c.width}.narrow(c.part)
		if !slices.Equal(hidden, c.hidden) {
			t.Errorf("%d columns hide %v, want %v", c.width, hidden, c.hidden)
		}
		if len(narrow.Head)+len(hidden) != len(c.part.Head) || len(narrow.Rows[0]) != len(narrow.Head) {
			t.Errorf("%d columns: %+v", c.width, narrow)
		}
		var out strings.Builder
		layout{width: c.width}.write(&out, []Part{c.part})
		for line := range strings.Lines(out.String()) {
			if c.width > 0 && Columns(strings.TrimSuffix(line, "\n")) > c.width {
				t.Errorf("%d columns: %q is wider", c.width, line)
			}
		}
		if said := "hidden: " + strings.Join(c.hidden, ", ") + "; "; len(c.hidden) > 0 && !strings.Contains(strings.ReplaceAll(out.String(), "\n", " "), said) {
			t.Errorf("%d columns: %s", c.width, out.String())
		}
	}
}
