// Package schema reads the steps that bring a database from the tables of one Grapnel to those of the next. The stores take them; what is said
// about them before, to who runs the database, is the same for both.
//
// A schema is a row of steps forward, a file of SQL each, numbered from 1 without gaps. A database knows how many of them it has taken, and a
// program how many there are. A database that has taken more than a program knows is not touched by it.
//
// What a step costs is read off its SQL, by the words it is written with and not by what a database makes of them: it is for a person who
// decides when to take it. It does not promise how long that will be.
package schema

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// Step is one of the steps.
type Step struct {
	Number int
	Name   string // of its file, without the number
	About  string // the first sentence of its comment
	SQL    string
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
			return nil, fmt.Errorf("%s is not step %d: a step is missing, or there twice", name, i+1)
		}
		steps[i] = Step{Number: i + 1, Name: rest, About: about(string(text)), SQL: string(text)}
	}
	return steps, nil
}

// about is the first sentence of the comment that a text begins with.
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
	Place string // without what is a secret
	Has   int    // steps taken; 0: there is nothing yet
	Knows int
	Steps []Planned // to be taken
	// Problems are what a person must see to, one sentence or more each: rows that no step can repair.
	Problems []string
}

// Planned is a step to be taken, and what it does to tables that may be full.
type Planned struct {
	Step
	Does  []string // one sentence for each table
	Heavy bool     // it reads or rewrites a whole table, which takes the longer the more there is in it
	Cuts  bool     // it takes something away: a program that does not know the step may fail once it is taken
}

// Plan says what is to be done with a database that has taken some of the steps. One that has taken more is refused.
func Plan(place string, has int, steps []Step) (Status, error) {
	s := Status{Place: place, Has: has, Knows: len(steps)}
	if has > len(steps) {
		return s, grapnel.Errorf(grapnel.CodeConflict, "the database was written by a newer Grapnel: its schema is number %d, this program (%s) knows up to %d",
			has, grapnel.Version, len(steps))
	}
	empty := map[string]bool{}
	for _, step := range steps[has:] {
		p := Planned{Step: step}
		if has > 0 {
			p.look(empty)
		}
		s.Steps = append(s.Steps, p)
	}
	return s, nil
}

var (
	comments = regexp.MustCompile(`--[^\n]*`)
	later    = regexp.MustCompile(`(?is)CREATE TRIGGER.*?\bEND;|\$(\w*)\$.*?\$\w*\$`) // runs when something happens, and not now
	splits   = regexp.MustCompile(`(?i)\bALTER\s+TABLE\s+(\w+)\s+ATTACH\s+PARTITION\s+(\w+)`)
	renames  = regexp.MustCompile(`(?i)\bALTER\s+TABLE\s+(\w+)\s+RENAME\s+TO\s+(\w+)`)
	makes    = regexp.MustCompile(`(?i)\bCREATE\s+(?:UNLOGGED\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)`)

	// What a statement does to the table that it names, the gravest first: of a table only that is told.
	deeds = []struct {
		words       *regexp.Regexp
		does        string
		heavy, cuts bool
	}{
		{regexp.MustCompile(`(?i)\bDROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?(\w+)`), "takes %s away", false, true},
		{regexp.MustCompile(`(?i)\bALTER\s+TABLE\s+(\w+)\s[^;]*\b(?:DROP|RENAME)\b`), "takes something of %s away", false, true},
		{regexp.MustCompile(`(?i)\bUPDATE\s+(?:ONLY\s+)?(\w+)\s+SET\b`), "rewrites rows of %s", true, false},
		{regexp.MustCompile(`(?i)\bDELETE\s+FROM\s+(?:ONLY\s+)?(\w+)`), "removes rows of %s", true, false},
		{regexp.MustCompile(`(?i)\bALTER\s+TABLE\s+(\w+)\s[^;]*\bALTER\s+(?:COLUMN\s+)?\w+\s+(?:SET\s+DATA\s+)?TYPE\b`), "rewrites %s, which nobody can use meanwhile", true, true},
		{regexp.MustCompile(`(?i)\bCREATE\s+(?:UNIQUE\s+)?INDEX\s+(?:IF\s+NOT\s+EXISTS\s+)?\w+\s+ON\s+(\w+)`), "reads all of %s, to which nobody can write meanwhile", true, false},
		{regexp.MustCompile(`(?i)\bINSERT\s+INTO\s+[^;]*\bSELECT\b[^;]*?\bFROM\s+(\w+)`), "reads all of %s", true, false},
		{regexp.MustCompile(`(?i)\bALTER\s+TABLE\s+(\w+)`), "changes %s, which has to be free for a moment", false, false},
	}
)

// look finds out what a step does to tables that are not empty, and takes note of those that it makes.
func (p *Planned) look(empty map[string]bool) {
	text := later.ReplaceAllString(comments.ReplaceAllString(p.SQL, ""), "")
	for _, found := range makes.FindAllStringSubmatch(text, -1) {
		empty[found[1]] = true
	}
	var told []string
	// A table that is renamed, and becomes a part of a new one with its name, is there as before.
	for _, part := range splits.FindAllStringSubmatch(text, -1) {
		for _, was := range renames.FindAllStringSubmatch(text, -1) {
			if strings.EqualFold(was[1], part[1]) && strings.EqualFold(was[2], part[2]) {
				told = append(told, strings.ToLower(was[1]), strings.ToLower(was[2]))
				p.Does = append(p.Does, fmt.Sprintf("makes %s a part of a new table of that name, for which it has to be free for a moment", strings.ToLower(was[1])))
				defer delete(empty, was[1])
			}
		}
	}
	for _, d := range deeds {
		for _, found := range d.words.FindAllStringSubmatch(text, -1) {
			table := strings.ToLower(found[1])
			if empty[table] {
				continue
			}
			p.Heavy, p.Cuts = p.Heavy || d.heavy, p.Cuts || d.cuts
			if !slices.Contains(told, table) {
				told = append(told, table)
				p.Does = append(p.Does, fmt.Sprintf(d.does, table))
			}
		}
	}
}
