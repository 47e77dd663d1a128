package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// How the rows of one table are taken over, and compared with what was to come.

// counted passes on what it is written: a row at a time, as the database sends them.
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

// copy takes the rows of one table over.
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
	_ = out.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // so that who writes does not wait for ever
	if err != nil {
		cancel()
	}
	if failed := <-read; failed != nil && (err == nil || stateOf(err) == "" || stateOf(err) == stateCanceled) {
		err = failed
	}
	if err == nil && tag.RowsAffected() != sent {
		err = fmt.Errorf("of %d rows %d were taken", sent, tag.RowsAffected())
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

// verify compares what is here with what was to be here.
func (a *arrival) verify(ctx context.Context, m *moving) error {
	var want digest
	var failed error
	read := make(chan struct{})
	go func() {
		defer close(read)
		want, failed = digestRows(ctx, a.from, m.there(a.leaving, &a.by))
	}()
	// What has just been written is not known to who makes plans.
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

// errDiffers says that a tenant has not arrived as it was.
var errDiffers = errors.New("postgres: the copy of a tenant is not what was copied")
