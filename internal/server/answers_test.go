package server

import (
	"context"
	"errors"
	"testing"
	"time"
)

// hanging is a store whose writes do not return before their context ends.
type hanging struct{ refusing }

func (h *hanging) Forget(ctx context.Context, _ time.Time, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestAStoreThatHangsDoesNotAnswer: a store whose writes hang does not answer, so that the watchdog
// ends the process. One that says why it cannot commit answers: a restart would not help.
func TestAStoreThatHangsDoesNotAnswer(t *testing.T) {
	opened, err := Open(t.Context(), options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	db := &hanging{refusing{keeper: opened.life.store}}
	s := run(t, opened)
	asks := func(limit time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return s.Answers(ctx)
	}
	if !asks(time.Minute) {
		t.Error("a healthy store does not answer")
	}
	is := s.lives.now.Load().store
	s.lives.now.Load().store = db
	if asks(50 * time.Millisecond) {
		t.Error("a store whose writes hang answers")
	}
	away := errors.New("no connection to the database")
	db.why.Store(&away)
	if !asks(50 * time.Millisecond) {
		t.Error("a store that says why it cannot commit counts as one that hangs")
	}
	s.lives.now.Load().store = is
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
}
