package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

const pagePath = "docs/interop.md"

// row is one library with its result.
type row struct {
	library string // with its language
	version string
	what    string
	result  string
	failed  bool
}

// section is a part of the page.
type section struct {
	title, about string
	rows         []row
}

const opening = `# Interoperability with foreign libraries

The libraries that Grapnel was tested with, their versions, and the results. ` + "`make interop`" + ` writes this page: it runs the real binary on
loopback and fails if a row fails. Its code is in ` + "`interop/libraries`" + `; [Testing](testing.md#foreign-libraries) describes it.
`

func render(sections []section) string {
	var out strings.Builder
	out.WriteString(opening)
	for _, s := range sections {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| library | what | result |\n|---|---|---|\n", s.title, s.about)
		for _, r := range merged(s.rows) {
			fmt.Fprintf(&out, "| %s | %s | %s |\n", cell(r.library), cell(r.what), cell(r.verdict()))
		}
	}
	return out.String()
}

// merged lists the libraries with the same result of the same check in one row, each with its
// version.
func merged(rows []row) (all []row) {
	for _, r := range rows {
		name := strings.TrimSpace(r.library + " " + r.version)
		at := slices.IndexFunc(all, func(other row) bool { return other.what == r.what && other.verdict() == r.verdict() })
		if at < 0 {
			r.library, r.version = name, ""
			all = append(all, r)
			continue
		}
		all[at].library += ", " + name
	}
	return all
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}

func (r row) verdict() string {
	if r.failed {
		return "**failed**: " + r.result
	}
	return r.result
}

// report prints the failed rows, and the number of all.
func report(out io.Writer, sections []section) (failed int) {
	rows := 0
	for _, s := range sections {
		for _, r := range s.rows {
			rows++
			if r.failed {
				failed++
				_, _ = fmt.Fprintf(out, "%s: %s %s, %s: %s\n", s.title, r.library, r.version, r.what, r.result)
			}
		}
	}
	_, _ = fmt.Fprintf(out, "%d rows, %d failed\n", rows, failed)
	return failed
}
