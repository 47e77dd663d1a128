package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/internal/cli"
	"github.com/grapnelhq/grapnel/internal/server"
)

// moreCells is a flag for cells besides the first: "west=postgres://grapnel@db-west/grapnel". Given again, it adds to what was given. Several
// can stand in one text, as in a variable or a list of the config file: one begins where a name and the beginning of a place follow a comma
// or a space.
type moreCells []server.CellOptions

var cellBegins = regexp.MustCompile(`(?:^|[,\s])[^,\s=]*=(?:sqlite|postgres|postgresql):`)

// Set reads the text form. It refuses nothing: what is refused here is repeated in the error, and a database's URL has a password in it.
func (m *moreCells) Set(text string) error {
	text = strings.TrimSpace(text)
	begins := cellBegins.FindAllStringIndex(text, -1)
	if len(begins) == 0 || begins[0][0] != 0 {
		*m = append(*m, server.CellOptions{})
		return nil
	}
	for i, at := range begins {
		end := len(text)
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		name, store, _ := strings.Cut(strings.Trim(text[at[0]:end], ", \t\r\n"), "=")
		*m = append(*m, server.CellOptions{Name: name, Store: store})
	}
	return nil
}

// check refuses what is no cell at all; what names and stores may be is for the server to say.
func (m moreCells) check() error {
	if slices.Contains(m, server.CellOptions{}) {
		return cli.Usagef("--cell: write NAME=STORE, such as west=postgres://grapnel@db-west/grapnel")
	}
	return nil
}

// String shows no URLs, for the reason given.
func (m *moreCells) String() string {
	names := make([]string, len(*m))
	for i, c := range *m {
		names[i] = c.Name
	}
	return strings.Join(names, ",")
}

// Type names the kind of value in help texts.
func (*moreCells) Type() string { return "name=store" }
