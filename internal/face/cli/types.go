package cli

import (
	"io"
	"log/slog"
	"time"
)

// World is the process around a command: arguments, streams, environment and clock.
type World struct {
	Program string // name of the program as it was called, for examples to paste
	Args    []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Lookup  func(name string) (string, bool) // an environment variable
	Now     func() time.Time

	Interrupted <-chan struct{} // closed by a signal to stop; nil: never

	lines *slog.Logger // writes notes and errors, if the log is JSON; nil: they are text
}

// Part is a table, or without a head a form of names and values.
type Part struct {
	Title string
	Head  []string
	Rows  [][]string
	Text  string // printed after the rows, whole

	// For a table that is printed in pieces.
	Widths []int // least widths of the columns
	More   bool  // the head was printed with an earlier piece
}
