package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Admission refuses new work before the store suffers from it. A caller that is refused at once can
// retry; a caller that waits behind hundreds of others cannot do anything. Accepted work is never
// dropped, and its outcomes are recorded whatever is refused here.
//
// Three loads are measured: the duration of commits, the publishes in flight and the free space of
// the disk. Each has one limit, and each kind of work a patience: the share of the limits that may
// be in use before that work is refused. So replays are refused first and single events last. The
// limits of a tenant are in pending.go and rates.go.

// work is a kind of request that makes the store grow.
type work string

// The kinds of work.
const (
	replay work = "replay" // redeliver: the delivery has been pending before and can wait again
	batch  work = "batch"  // several events at once: their publisher has a queue of its own
	single work = "single" // one event: its publisher waits for the answer
	asked  work = ""       // by a person, who reads the answer: never refused
)

func (w work) patience() float64 {
	switch w {
	case replay:
		return 0.5
	case batch:
		return 0.75
	default:
		return 1
	}
}

// cause is the reason for which work is refused.
type cause string

// The causes.
const (
	admitted    cause = ""
	slowCommits cause = "commit"    // commits have been slow for some seconds
	crowded     cause = "in_flight" // too many publishes are in flight
	scarceRoom  cause = "disk"      // the disk is nearly full
	overQuota   cause = "quota"     // the tenant has too many pending deliveries
	overRate    cause = "rate"      // the tenant publishes faster than it may
	overDay     cause = "day"       // the tenant has published too much today
)

// DiskSpace is the free and the total space of a disk, in bytes.
type DiskSpace struct{ Free, Total uint64 }

// The disk is nearly full if less than both of these is free. A share alone is wrong for large
// disks: a twentieth of a terabyte lasts for weeks. An amount alone is wrong for small disks, which
// would be full when they are new. 2 GiB are enough to record the outcomes of about a million
// pending deliveries, and the reserve is for those.
const (
	leastShare = 20 // a twentieth
	leastBytes = 2 << 30
)

// enough says whether there is space for work of this patience. The zero DiskSpace, of a disk that
// cannot be measured, counts as enough.
func (r DiskSpace) enough(patience float64) bool {
	return float64(r.Free)*patience >= min(float64(r.Total)/leastShare, leastBytes)
}

// strain is the load as measured now.
type strain struct {
	commit     time.Duration // average duration of one
	long       time.Duration // limit of commit
	publishing int           // publishes in flight
	most       int           // limit of publishing
	room       DiskSpace
}

// refuses returns the cause for which work is refused; admitted: it is not.
func (s strain) refuses(w work) cause {
	patience := w.patience()
	switch {
	case !s.room.enough(patience):
		return scarceRoom
	case float64(s.commit) > patience*float64(s.long):
		return slowCommits
	case float64(s.publishing) >= patience*float64(s.most):
		return crowded
	}
	return admitted
}

// admission accepts or refuses each piece of work once, when it comes in.
type admission struct {
	clock  func() time.Time // with the reading of the monotonic clock
	random func() float64
	disk   func() (DiskSpace, error)
	log    *slog.Logger
	count  func(work, cause)
	bounds AdmissionBounds

	mu       sync.Mutex
	failed   int    // commits in a row
	seen     strain // all but commit, which is in pace
	pace     pace
	lookedAt time.Time // when the disk was measured
	shed     shedding
}

// enter admits work, which then has to call leave, or refuses it.
func (a *admission) enter(w work) error {
	a.look()
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	seen := a.seen
	seen.commit = a.pace.current(now)
	if why := seen.refuses(w); why != admitted {
		a.shed.refused(a.log, now, why)
		return a.refusal(w, why)
	}
	a.shed.taken(a.log, now)
	a.seen.publishing++
	return nil
}

// calm says whether the load is so low that background work which needs no disk space delays
// no caller. Space is left out because a purge, which frees it, asks too.
func (a *admission) calm() bool {
	now := a.clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.seen
	seen.commit, seen.room = a.pace.current(now), DiskSpace{}
	return seen.refuses(replay) == admitted
}

func (a *admission) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen.publishing--
}

// begin and end stand around a commit.
func (a *admission) begin() time.Time {
	now := a.clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pace.begin(now)
	return now
}

func (a *admission) end(began time.Time, err error) {
	now := a.clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pace.end(now, began, err == nil)
	if err == nil {
		a.failed = 0
	} else if faulty(err) {
		a.failed++
	}
}

// faulty says whether an error of a commit is the store's fault, and not the caller's.
func faulty(err error) bool {
	switch grapnel.CodeOf(err) {
	case grapnel.CodeUnavailable, grapnel.CodeStorageFull:
		return true
	case "":
		return !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrFenced) && !errors.Is(err, context.Canceled)
	}
	return false
}

// commit is the average duration of a commit over the last seconds.
func (a *admission) commit() time.Duration {
	now := a.clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pace.current(now)
}

// look measures the disk without holding the lock: a disk in trouble is slow to answer, and then
// only one caller waits for it.
func (a *admission) look() {
	if a.disk == nil {
		return
	}
	now := a.clock()
	a.mu.Lock()
	due := a.lookedAt.IsZero() || now.Sub(a.lookedAt) >= a.bounds.Look
	if due {
		a.lookedAt = now
	}
	a.mu.Unlock()
	if !due {
		return
	}
	room, err := a.disk()
	if err != nil {
		a.log.Warn("free disk space unknown; new work is accepted", "err", err)
		room = DiskSpace{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen.room = room
}

const nearlyFull = "the disk that holds the data is nearly full"

// unable measures the disk itself, so freed space is noticed even while no events are published.
func (a *admission) unable() error {
	a.look()
	now := a.clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.seen.room.enough(single.patience()):
		return grapnel.Errorf(grapnel.CodeStorageFull, nearlyFull)
	case a.pace.calls > 0 && now.Sub(a.pace.since) >= a.bounds.Silence:
		return grapnel.Errorf(grapnel.CodeUnavailable, "no commit has returned for more than %s", a.bounds.Silence)
	}
	return nil
}

// refusal is the error for refused work. Its RetryAfter is random, so that refused callers do not
// all come back at the same moment.
func (a *admission) refusal(w work, why cause) *grapnel.Error {
	a.count(w, why)
	e := &grapnel.Error{Code: grapnel.CodeOverloaded, RetryAfter: time.Second + time.Duration(a.random()*float64(4*time.Second))}
	switch why {
	case scarceRoom:
		// This is no overload: it does not pass by itself, an operator has to free space.
		e.Code, e.Detail = grapnel.CodeStorageFull, nearlyFull
	case slowCommits:
		e.Detail = fmt.Sprintf("commits are slow now, so new work is refused (%s)", w)
	case crowded:
		e.Detail = fmt.Sprintf("too many requests wait for the store, so new work is refused (%s)", w)
	case overQuota:
		e.Code = grapnel.CodeQuota
	}
	return e
}

// shedding is a period in which work is refused. Its beginning and its end are logged, not each
// request.
type shedding struct {
	since, last time.Time
	refusals    int
}

// quietFor is the time without a refusal after which the period has ended.
const quietFor = 10 * time.Second

func (s *shedding) refused(log *slog.Logger, now time.Time, why cause) {
	if s.refusals == 0 {
		s.since = now
		log.Warn("new work refused; accepted deliveries go on", "reason", string(why))
	}
	s.refusals, s.last = s.refusals+1, now
}

func (s *shedding) taken(log *slog.Logger, now time.Time) {
	if s.refusals > 0 && now.Sub(s.last) >= quietFor {
		log.Info("new work accepted again", "refused", s.refusals, "from", s.since, "to", s.last)
		*s = shedding{}
	}
}

// announce counts deliveries that are about to be created, or refuses them for the tenant's quota.
func (a *admission) announce(p *pending, kind work, expected ...share) error {
	if kind == asked {
		p.begin(expected...)
		return nil
	}
	err := p.reserve(expected)
	if err == nil {
		return nil
	}
	refusal := a.refusal(kind, overQuota)
	refusal.Detail = err.Error()
	return refusal
}
