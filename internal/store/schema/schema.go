// Package schema reads the steps that bring a database from the tables of one version of Grapnel to
// those of the next. The stores run them; the report for the operator before that is the same for
// all.
//
// A schema is a sequence of steps forward, one file of SQL each, numbered from 1 without gaps. A
// database stores which steps it has taken, with the checksum of each. A program refuses a database
// that has taken more steps than the program has, or a step with another text: no program misreads
// tables that it does not know.
//
// A file begins with the cost of its step, for the operator who decides when to run it (see
// header). The duration of a step depends on the rows, and is not promised. A test compares the
// stated costs with the words of the SQL.
package schema

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// Step is one of the steps.
type Step struct {
	Number int
	Name   string // of its file, without the number
	About  string // the first sentence of its comment
	SQL    string
	Sum    string // of the SQL without header

	Creates []string // tables that are empty afterwards
	Costs   []Cost
}

// Cost is what a step does to one table that may be full.
type Cost struct {
	Table string
	Does  string // a sentence without subject and full stop
	Heavy bool   // it reads or rewrites the whole table, so its time grows with the table
	Cuts  bool   // it removes something: a program that does not know the step may fail afterwards
}

// Taken is a step as a database that has taken it stores it.
type Taken struct {
	Number int
	Name   string
	Sum    string
}

// headers are the lines that say what a step costs. They may become clearer later.
var headers = regexp.MustCompile(`\A(-- (creates|cost): .*\n)+`)

func sum(sql string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(headers.ReplaceAllString(sql, ""))))
}

// Read returns the steps in their order.
func Read(files fs.FS) ([]Step, error) {
	names, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	steps := make([]Step, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		number, rest, _ := strings.Cut(strings.TrimSuffix(path.Base(name), ".sql"), "_")
		if number != fmt.Sprintf("%04d", i+1) {
			return nil, fmt.Errorf("%s is not step %d: a step is missing or duplicated", name, i+1)
		}
		steps[i] = Step{Number: i + 1, Name: rest, SQL: string(text), Sum: sum(string(text))}
		if err := steps[i].header(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return steps, nil
}

// header reads the lines that a file begins with, before the comment that says what the step is
// for:
//
//	-- creates: TABLE …
//	-- cost: TABLE [heavy] [cuts]: what the step does to the table
func (s *Step) header() error {
	text := s.SQL
	for {
		line, rest, _ := strings.Cut(text, "\n")
		key, value, _ := strings.Cut(strings.TrimPrefix(line, "-- "), ": ")
		switch key {
		case "creates":
			s.Creates = append(s.Creates, strings.Fields(value)...)
		case "cost":
			words, does, said := strings.Cut(value, ": ")
			c := Cost{Does: does}
			for i, word := range strings.Fields(words) {
				switch {
				case i == 0:
					c.Table = word
				case word == "heavy":
					c.Heavy = true
				case word == "cuts":
					c.Cuts = true
				default:
					return fmt.Errorf("the cost of %s: %q is neither heavy nor cuts", c.Table, word)
				}
			}
			if c.Table == "" || !said || does == "" {
				return fmt.Errorf("%q is no cost; want -- cost: TABLE [heavy] [cuts]: what the step does", line)
			}
			s.Costs = append(s.Costs, c)
		default:
			s.About = about(text)
			return nil
		}
		text = rest
	}
}

// about returns the first sentence of the comment that a text begins with.
func about(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		comment, is := strings.CutPrefix(strings.TrimSpace(line), "--")
		if !is {
			break
		}
		words = append(words, strings.Fields(comment)...)
	}
	for i, word := range words {
		if strings.HasSuffix(word, ".") || strings.HasSuffix(word, ":") {
			return strings.TrimRight(strings.Join(words[:i+1], " "), ".:")
		}
	}
	return strings.Join(words, " ")
}

// Status is how far a database is, and how far a program could bring it.
type Status struct {
	Place string // without secrets
	Has   int    // steps taken; 0: the database is empty
	Knows int
	Steps []Planned // to be taken
}

// Planned is a step to be taken, and what it does to tables that may be full.
type Planned struct {
	Step
	Does  []string // one sentence for each table
	Heavy bool     // one of its costs is
	Cuts  bool     // one of its costs does
}

// Missing is the Plan for a database that has taken some of the steps in files.
func Missing(place string, taken []Taken, files fs.FS) (Status, error) {
	steps, err := Read(files)
	if err != nil {
		return Status{}, err
	}
	return Plan(place, taken, steps)
}

// Plan lists the steps that a database still has to take. It refuses a database that has taken
// more, or others.
func Plan(place string, taken []Taken, steps []Step) (Status, error) {
	s := Status{Place: place, Knows: len(steps)}
	for i, t := range taken {
		s.Has = t.Number
		if i < len(steps) && (t.Number != i+1 || t.Sum != steps[i].Sum) {
			return s, grapnel.Errorf(grapnel.CodeConflict, "the database was written by an unreleased build of Grapnel, whose schema this program "+
				"(%s) does not know: start with an empty directory or database", grapnel.Version)
		}
	}
	if s.Has > len(steps) {
		return s, grapnel.Errorf(grapnel.CodeConflict,
			"the database was written by a newer Grapnel: its schema is number %d, this program (%s) knows up to %d",
			s.Has, grapnel.Version, len(steps))
	}
	empty := map[string]bool{}
	for _, step := range steps[s.Has:] {
		p := Planned{Step: step}
		if s.Has > 0 {
			p.look(empty)
		}
		s.Steps = append(s.Steps, p)
	}
	return s, nil
}

// look takes over the costs of a step, except those of tables that an earlier step of the same plan
// has created: they are empty.
func (p *Planned) look(empty map[string]bool) {
	for _, table := range p.Creates {
		empty[table] = true
	}
	for _, c := range p.Costs {
		if empty[c.Table] {
			continue
		}
		p.Heavy, p.Cuts = p.Heavy || c.Heavy, p.Cuts || c.Cuts
		p.Does = append(p.Does, c.Does)
	}
}
