package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// hanging is a store whose writes do not return before their context ends.
type hanging struct {
	refusing
	hangs atomic.Bool
}

func (h *hanging) Forget(ctx context.Context, now time.Time, most int) (int, error) {
	if !h.hangs.Load() {
		return h.refusing.Forget(ctx, now, most)
	}
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
	db := &hanging{refusing: refusing{keeper: opened.life.store}}
	opened.life.store = db
	s := run(t, opened)
	asks := func(limit time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return s.Answers(ctx)
	}
	if !asks(time.Minute) {
		t.Error("a healthy store does not answer")
	}
	db.hangs.Store(true)
	if asks(50 * time.Millisecond) {
		t.Error("a store whose writes hang answers")
	}
	away := errors.New("no connection to the database")
	db.why.Store(&away)
	if !asks(50 * time.Millisecond) {
		t.Error("a store that says why it cannot commit counts as one that hangs")
	}
	db.hangs.Store(false)
	db.why.Store(nil)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
}
