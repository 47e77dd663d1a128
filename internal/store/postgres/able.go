package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
)

// able is whether writes get through, as the last of them showed.
type able struct {
	mu      sync.Mutex
	failed  error     // of the last transaction, if the database was the reason
	waiting int       // requests that wait to be committed
	since   time.Time // they wait, and none has been committed
}

// enter notes that a request waits; leave, that it does not any more.
func (a *able) enter(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting++; a.waiting == 1 {
		a.since = now
	}
}

func (a *able) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
}

// saw notes how a transaction ended.
func (a *able) saw(err error, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch code := grapnel.CodeOf(err); {
	case err == nil:
		a.failed, a.since = nil, now
	case code == grapnel.CodeUnavailable, code == grapnel.CodeStorageFull, errors.Is(err, errUnknown):
		a.failed = err
	}
}

// Unable says why new events can not be committed at the moment; nil: they can, as far as is known.
// It asks nobody: while the store is unable, a probe writes now and then, and the first commit ends
// it.
func (s *Store) Unable() error {
	if err := s.refusal(); err != nil {
		return err
	}
	s.able.mu.Lock()
	defer s.able.mu.Unlock()
	if s.able.failed != nil {
		return s.able.failed
	}
	if waits := s.now().Sub(s.able.since); s.able.waiting > 0 && waits > s.bounds.Conns.Stall {
		return grapnel.Errorf(grapnel.CodeUnavailable, "the database has not committed anything for %s", waits.Round(time.Second/10))
	}
	return nil
}

// probeSQL writes a row that nobody else writes: a commit without a change is not synced, so it
// shows nothing.
const probeSQL = "UPDATE peer SET secret = secret"

// probes finds out when the database commits again: while it does not, readiness keeps publishers
// away, whose commits would show it.
func (s *Store) probes() {
	tick := time.NewTicker(s.bounds.Conns.Probe)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.quit:
			return
		}
		if s.Unable() == nil || s.refusal() != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.bounds.Conns.Patience)
		_, err := s.writing.Exec(ctx, probeSQL)
		cancel()
		s.able.saw(asError(err), s.now())
	}
}
