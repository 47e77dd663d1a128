package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// This file copies and compares the rows of one table.

// counted forwards each Write, which is one row of COPY, and reports the count now and then.
type counted struct {
	io.Writer
	rows  int64
	often int64 // see Bounds.MoveTell
	tell  func(rows int64)
}

func (c *counted) Write(p []byte) (int, error) {
	if c.rows++; c.rows%c.often == 0 {
		c.tell(c.rows)
	}
	return c.Writer.Write(p)
}

// copy copies the rows of one table.
func (a *arrival) copy(ctx context.Context, m *moving) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, in := io.Pipe()
	read := make(chan error, 1)
	var sent int64
	go func() {
		to := &counted{Writer: in, often: a.store.bounds.MoveTell, tell: func(rows int64) { a.progress(a.done.Rows + rows) }}
		tag, err := a.from.Conn().PgConn().CopyTo(ctx, to, "COPY ("+m.there(a.leaving, &a.by)+") TO STDOUT (FORMAT binary)")
		sent = tag.RowsAffected()
		_ = in.CloseWithError(err)
		read <- err
	}()
	into := fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT binary)", m.table, strings.Join(m.names(), ", "))
	tag, err := a.to.Conn().PgConn().CopyFrom(ctx, out, into)
	_ = out.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // ends the reader, which would block for ever
	if err != nil {
		cancel()
	}
	if failed := <-read; failed != nil && (err == nil || stateOf(err) == "" || stateOf(err) == stateCanceled) {
		err = failed
	}
	if err == nil && tag.RowsAffected() != sent {
		err = fmt.Errorf("%d rows sent, %d written", sent, tag.RowsAffected())
	}
	if err != nil {
		return fmt.Errorf("copying %s: %w", m.table, err)
	}
	a.count(m.table, sent)
	return nil
}

func (a *arrival) count(table string, rows int64) {
	a.done.Rows += rows
	switch table {
	case "event":
		a.done.Events = rows
	case "pending":
		a.done.Waits = rows
	case "finished":
		a.done.Over = rows
	}
	a.progress(a.done.Rows)
}

// verify compares the copied rows with the original ones.
func (a *arrival) verify(ctx context.Context, m *moving) error {
	var want digest
	var failed error
	read := make(chan struct{})
	go func() {
		defer close(read)
		want, failed = digestRows(ctx, a.from, m.there(a.leaving, &a.by))
	}()
	// The planner has no statistics of the rows just written, and would choose sequential scans.
	_, err := a.to.Exec(ctx, "SELECT set_config('enable_seqscan', 'off', true)")
	var got digest
	if err == nil {
		got, err = digestRows(ctx, a.to, m.here(a.arrived))
	}
	<-read
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("comparing %s: %w", m.table, err)
	}
	if got != want {
		return fmt.Errorf("%w: %s has %d rows there, and %d here (%s, %s)", errDiffers, m.table, want.rows, got.rows, want.sum, got.sum)
	}
	return nil
}

// errDiffers is the error of a copy that differs from its original.
var errDiffers = errors.New("postgres: the copy of a tenant differs from the original")
