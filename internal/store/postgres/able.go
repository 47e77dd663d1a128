package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
)

// able records whether writes currently succeed, judged by the last of them.
type able struct {
	mu      sync.Mutex
	failed  error     // of the last transaction or probe, if the database was the reason
	commits int64     // number of commits so far
	waiting int       // requests that wait for their commit
	since   time.Time // start of the current time with waiting requests and without a commit
}

// enter records that a request waits; leave, that it no longer waits.
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

// saw records the result of a transaction.
func (a *able) saw(err error, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note(err, now)
}

// probed records the result of a probe that began after this number of commits. A failure says
// nothing if something was committed since: a connection of before an outage may end after it.
func (a *able) probed(err error, commits int64, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil || a.commits == commits {
		a.note(err, now)
	}
}

func (a *able) note(err error, now time.Time) {
	switch code := grapnel.CodeOf(err); {
	case err == nil:
		a.failed, a.since = nil, now
		a.commits++
	case code == grapnel.CodeUnavailable, code == grapnel.CodeStorageFull, errors.Is(err, errUnknown):
		a.failed = err
	}
}

// quiet says whether no write waits and none was committed since the count of commits was since. It
// also returns the current count.
func (a *able) quiet(since int64) (bool, int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting == 0 && a.commits == since, a.commits
}

// Unable says why new events cannot be committed at the moment; nil: they can, or no failure is
// known. It makes no call. Probes read while no request writes, and write while the store is
// unable; the first commit ends that state.
func (s *database) Unable() error {
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

// probeSQL writes a row that no other statement writes. It must change the row: a commit without a
// change is not synced, so its success would show nothing.
const probeSQL = "UPDATE peer SET secret = secret"

// probes notices a database that is unreachable while no request writes, so that readiness fails
// before a publisher meets the fault. It also notices the recovery, because without publishers no
// commit would show it.
func (s *writer) probes() {
	tick := time.NewTicker(s.bounds.Conns.Probe)
	defer tick.Stop()
	commits := int64(-1)
	for {
		select {
		case <-tick.C:
		case <-s.quit:
			return
		}
		var quiet bool
		quiet, commits = s.able.quiet(commits)
		switch {
		case s.refusal() != nil:
		case s.Unable() != nil:
			s.able.probed(s.probe(probeSQL, s.bounds.Conns.Patience), commits, s.now())
		case quiet:
			if err := s.probe("SELECT", s.bounds.Conns.Stall); err != nil {
				s.able.probed(err, commits, s.now())
			}
		}
	}
}

// probe uses a connection for writing. While no write waits, one is free.
func (s *writer) probe(sql string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(s.ctx, within)
	defer cancel()
	_, err := s.writing.Exec(ctx, sql)
	return asError(err)
}
