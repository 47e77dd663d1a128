package sqlite

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// write queues an operation and waits until it is durable or has failed. The writer's goroutine
// (writer.run) takes it from the line and calls its apply.
func (s *database) write(ctx context.Context, o operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := s.spare.Get().(*request)
	r.operation, r.err, r.heavy = o, nil, false
	r.state.Store(waits)
	if !s.line.join(r) {
		return s.gone()
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waits, abandoned) {
			return ctx.Err() // the line has the request, so it is not used again
		}
		<-r.done
	}
	err := r.err
	r.operation = nil
	s.spare.Put(r)
	return err
}

// read lends a connection to do. The tables then have every write that has returned.
func (s *database) read(ctx context.Context, do func(*sqlite3.Conn) error) error {
	if s.unflushed.owes.Load() {
		switch err := s.write(ctx, flushing{}); {
		case grapnel.CodeOf(err) == grapnel.CodeStorageFull:
			return s.write(ctx, seeing(do)) // the disk has no space for a flush, and the writer sees all
		case err != nil:
			return err
		}
	}
	return s.readFlushed(ctx, do)
}

// readUnflushed is like read for something that takes well below a millisecond. If there are
// unflushed writes, the writer reads on its own connection, which sees them: no flush is needed.
func (s *database) readUnflushed(ctx context.Context, do func(*sqlite3.Conn) error) error {
	if !s.unflushed.owes.Load() {
		return s.readFlushed(ctx, do)
	}
	return s.write(ctx, looking(do))
}

// readFlushed does the same as read, but the tables may lack the unflushed writes.
//
// When ctx ends, the connection's running statement is interrupted.
func (s *database) readFlushed(ctx context.Context, do func(*sqlite3.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.failed(); err != nil {
		return err
	}
	var conn *sqlite3.Conn
	select {
	case conn = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return s.gone()
	}
	defer func() { s.readers <- conn }()

	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		conn.Interrupt()
	})
	err := do(conn)
	if !stop() {
		<-interrupted // it must not interrupt the next borrower's statement
	}
	if conn.InTransaction() {
		// The interruption hit the end of a snapshot. The connection's next borrower would see the
		// past for ever.
		_ = conn.Exec("ROLLBACK")
	}
	var e *sqlite3.Error
	switch {
	case errors.As(err, &e) && e.Interrupted():
		return ctx.Err()
	case broken(err):
		return s.fail(err)
	}
	return err
}

// snapshot runs do in one transaction, so that all its reads see one snapshot.
func (s *database) snapshot(ctx context.Context, do func(*sqlite3.Conn) error) error {
	return s.read(ctx, func(r *sqlite3.Conn) error { return rows.Together(r, do) })
}
