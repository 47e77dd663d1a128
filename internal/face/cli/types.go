package cli

import (
	"io"
	"log/slog"
	"sync/atomic"
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
	Environ func() []string                  // all variables, as NAME=VALUE; nil: unknown
	Now     func() time.Time

	Yes         bool            // questions are answered with it instead of being asked
	Interrupted <-chan struct{} // closed by a signal to stop; nil: never

	hangup atomic.Pointer[func() bool] // see OnHangup

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

// Wrong is a fault of a setting.
type Wrong struct {
	Where   string `json:"where,omitempty"` // "FILE, line N", or a variable; empty: Detail says it
	Line    int    `json:"line,omitempty"`
	Setting string `json:"setting,omitempty"` // as it is written there; empty: the whole file
	Detail  string `json:"detail"`
}

func (w Wrong) Error() string {
	if w.Where == "" {
		return w.Detail
	}
	return w.Where + ": " + w.Detail
}
