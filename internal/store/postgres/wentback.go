package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// identity is the list of columns to select.
func (s *connections) identity() string {
	if s.blind.Load() {
		return blindIdentity
	}
	return fullIdentity
}

var (
	errStandby = errors.New("postgres: the server is a standby")
	errOldLine = errors.New("postgres: the server is on an older timeline than one that this process has used")
)

// mark is a known length of the log; any later answer must be at least as long.
func (s *connections) mark() int64 {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return s.at.log
}

// look compares a connection's database with that of the store. before is the mark from before the
// question.
func (s *connections) look(is identity, before int64) error {
	if is.standby {
		return errStandby
	}
	if is.system == "" {
		return nil
	}
	h := s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if is.system == h.newest.system && is.timeline < h.newest.timeline {
		if now := s.now(); now.Sub(h.warned) > time.Minute {
			h.warned = now
			s.log.Error("connection refused: the server is an old primary; stop it, or restart this node if the server is the right one",
				"timeline", is.timeline, "newest", h.newest.timeline)
		}
		return errOldLine
	}
	switch {
	case s.at.system == "":
		s.at, h.newest = is, is
		return nil
	case is.system != s.at.system:
		return s.wentBack("system identifier %s, was %s", is.system, s.at.system)
	case is.timeline > s.at.timeline:
		return s.wentBack("timeline %d, was %d", is.timeline, s.at.timeline)
	case is.log < before:
		return s.wentBack("%d bytes of log, had %d", is.log, before)
	}
	s.at.log = max(s.at.log, is.log)
	return nil
}

// checkNumbers refuses numbers that were given before. were are the highest numbers committed at
// the beginning of the transaction.
func checkNumbers(t *tx, were counters) error {
	t.drawn = counters{version: t.version}
	if n := len(t.eventSeqs); n > 0 {
		if t.eventSeqs[0] <= were.event {
			return t.conns.wentBack("event number %d was given again", t.eventSeqs[0])
		}
		t.drawn.event = t.eventSeqs[n-1]
	}
	if n := len(t.seqs); n > 0 {
		if t.seqs[0] <= were.delivery {
			return t.conns.wentBack("delivery number %d was given again", t.seqs[0])
		}
		t.drawn.delivery = t.seqs[n-1]
	}
	return t.conns.checkVersion(t.version, were)
}

func (s *connections) checkVersion(version int64, were counters) error {
	if version < were.version {
		return s.wentBack("configuration version %d, was %d", version, were.version)
	}
	return nil
}

// wentBack ends the store: every later call fails with store.ErrWentBack.
func (s *connections) wentBack(how string, args ...any) error {
	err := error(&grapnel.Error{
		Code: grapnel.CodeUnavailable, Detail: "the database is not the one that it was",
		Err: fmt.Errorf("%w: "+how, append([]any{store.ErrWentBack}, args...)...),
	})
	if s.lost.CompareAndSwap(nil, &err) {
		s.fatal <- err
		s.cancel()
	}
	return *s.lost.Load()
}

// refusal is the error of every call once the database went back.
func (s *connections) refusal() error {
	if err := s.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// Fatal delivers the error after which the store refuses all calls; store.ErrWentBack is in its
// chain.
func (s *connections) Fatal() <-chan error { return s.fatal }
