package postgres

import (
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
