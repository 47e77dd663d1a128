package cli

import (
	"regexp"
	"slices"

	"charm.land/lipgloss/v2"
)

// layout is the colour and width of the output.
type layout struct {
	colour bool
	width  int // lines are cut to it; 0: no limit
}

const gap = "  "

// leastText is the least width that cells of text are cut to. A part of an id, a time or a figure
// misleads, so columns of these are whole or hidden.
const leastText = 10

// What the cells of a column are, in the order in which columns are hidden.
const (
	nothing = iota // empty, or 0
	ids
	dates
	texts
	counts
	rates // shares and durations
)

var cellForms = []*regexp.Regexp{
	nothing: regexp.MustCompile(`^0?$`),
	ids:     regexp.MustCompile(`^[a-z]{2,4}_[0-9a-z]{20,}$`),
	dates:   regexp.MustCompile(`^(now|in [0-9hms]+d?|[0-9hms]+d? ago|[0-9]{4}-[0-9]{2}-[0-9]{2}T.*)$`),
	texts:   regexp.MustCompile(`^$`), // all that has no other form
	counts:  regexp.MustCompile(`^~?[0-9]+\+?$`),
	rates:   regexp.MustCompile(`^([0-9.]+%|[0-9.]+|([0-9.]+(d|h|m|s|ms|µs))+)$`),
}

// narrow cuts the texts of a table that is wider than the terminal, the widest column first. If
// that is not enough it leaves out columns, the least useful ones first and never the first one, and
// names them. A table that is printed in pieces stays.
func (l layout) narrow(part Part) (Part, []string) {
	if l.width <= 0 || part.Head == nil || part.More || part.Widths != nil {
		return part, nil
	}
	columns, total := make([]int, len(part.Head)), -len(gap) // those that stay
	full, widths, holds := make([]int, len(part.Head)), make([]int, len(part.Head)), make([]int, len(part.Head))
	for c := range columns {
		columns[c] = c
		full[c], holds[c] = measure(part, c)
		if widths[c] = full[c]; holds[c] == texts {
			widths[c] = min(full[c], max(leastText, lipgloss.Width(Clean(part.Head[c]))))
		}
		total += widths[c] + len(gap)
	}
	var hidden []string
	for total > l.width && len(columns) > 1 {
		least := len(columns) - 1
		for i := range slices.Backward(columns[1:]) {
			if holds[columns[i+1]] < holds[columns[least]] {
				least = i + 1
			}
		}
		total -= widths[columns[least]] + len(gap)
		hidden = append(hidden, part.Head[columns[least]])
		columns = slices.Delete(columns, least, least+1)
	}
	for narrowest := 0; total < l.width && narrowest >= 0; total++ {
		narrowest = -1
		for _, c := range columns {
			if widths[c] < full[c] && (narrowest < 0 || widths[c] < widths[narrowest]) {
				narrowest = c
			}
		}
		if narrowest >= 0 {
			widths[narrowest]++
		}
	}
	left := func(row []string) (some []string) {
		for _, c := range columns {
			if c < len(row) {
				some = append(some, Cut(Clean(row[c]), widths[c]))
			}
		}
		return some
	}
	narrow := part
	narrow.Head, narrow.Rows = left(part.Head), nil
	for _, row := range part.Rows {
		narrow.Rows = append(narrow.Rows, left(row))
	}
	return narrow, hidden
}

// measure is the width of a column, and what its cells are: texts, if one is.
func measure(part Part, c int) (width, holds int) {
	width = lipgloss.Width(Clean(part.Head[c]))
	for _, row := range part.Rows {
		if c >= len(row) {
			continue
		}
		width = max(width, lipgloss.Width(Clean(row[c])))
		is := slices.IndexFunc(cellForms, func(form *regexp.Regexp) bool { return form.MatchString(row[c]) })
		if is < 0 || holds == texts {
			holds = texts
			continue
		}
		holds = max(holds, is)
	}
	return width, holds
}
