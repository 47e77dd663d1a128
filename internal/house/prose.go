package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The rules of this file are warnings: their faults cost a reader time and break nothing.

const (
	commentWidth = 100
	codeWidth    = 140
	pageWidth    = 120
)

// Comments fit into 100 columns and code into 140; a tab counts as one. A line whose text cannot be
// wrapped is exempt: it is inside a string literal, a string literal crosses the limit, or it is
// the output of an example.
func narrow(s source) (faults []string) {
	literal, output := unwrappable(s), false
	for i, line := range strings.Split(string(s.text), "\n") {
		limit, text := codeWidth, strings.TrimSpace(line)
		prose, comment := strings.CutPrefix(text, "// ")
		output = comment && (output || strings.HasPrefix(prose, "Output:"))
		if literal[i+1] || output || strings.HasPrefix(text, "//\t") || strings.HasPrefix(text, "//go:") {
			continue
		}
		if comment {
			limit = commentWidth
			if !strings.Contains(prose, " ") {
				continue // an address
			}
		}
		if n := utf8.RuneCountInString(line); n > limit {
			faults = append(faults, fmt.Sprintf("%s:%d has %d columns; the limit is %d", s.path, i+1, n, limit))
		}
	}
	return faults
}

// unwrappable are the lines of a file, from 1, that are inside a string literal, or on which a
// string literal crosses the limit.
func unwrappable(s source) map[int]bool {
	lines := map[int]bool{}
	starts := []int{0}
	for i, c := range s.text {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	at := func(p token.Pos) (line, column int) {
		offset := int(p - s.file.FileStart)
		line, _ = slices.BinarySearch(starts, offset+1)
		return line, utf8.RuneCount(s.text[starts[line-1]:offset])
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			first, _ := at(lit.Pos())
			last, column := at(lit.End())
			for line := first; line < last; line++ {
				lines[line] = true
			}
			if last > first || column > codeWidth {
				lines[last] = true
			}
		}
		return true
	})
	return lines
}

// clauses are the phrases that stand in a comment in the place of a noun, with the remedy.
var clauses = []struct {
	phrase *regexp.Regexp
	use    string
}{
	{regexp.MustCompile(`(?i)\b(nobody|somebody|everybody|whoever)\b`), nameActor},
	{regexp.MustCompile(`(?i)\bwhat (is|was|are|were|has|have|comes|came|waits|waited|there)\b`), nameThing},
}

// named finds the first of each in a comment, which has to name the thing.
func named(s source) (faults []string) {
	for _, group := range s.file.Comments {
		for _, c := range clauses {
			if found := c.phrase.FindString(group.Text()); found != "" {
				faults = append(faults, fmt.Sprintf("%s: %q in the comment %q: %s", s.path, found, firstLine(group.Text()), c.use))
			}
		}
	}
	return faults
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

var linkedTo = regexp.MustCompile(`\]\([^)]*\)`)

// wide finds the lines of a page that are wide without their links. A command cannot be wrapped.
func wide(page, text string) (faults []string) {
	for i, line := range strings.Split(text, "\n") {
		n := utf8.RuneCountInString(linkedTo.ReplaceAllString(line, ""))
		if n > pageWidth && !strings.HasPrefix(line, "    ") {
			faults = append(faults, fmt.Sprintf("%s:%d has %d columns; wrap it at %d", page, i+1, n, pageWidth))
		}
	}
	return faults
}
