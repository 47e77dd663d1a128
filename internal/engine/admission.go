package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/bounds"
)

// Admission. New work is refused before the store suffers from it: a caller who hears "not now" at once can come again, one who waits
// in line behind hundreds cannot do anything. What was accepted is never dropped, and its outcomes are recorded whatever happens here.
//
// Three things are looked at: how long commits take, how many publishes are on their way, and how much room the disk has. Each has one
// limit, and each kind of work a patience: how much of the limits may be in use before it is refused. So what can best wait is given up
// first. The fourth, how much a tenant has waiting, is in pending.go.

// work is what a caller wants done that makes the store grow.
type work string

// The kinds of work.
const (
	replay work = "replay" // a delivery once more: it has waited before and can wait again
	batch  work = "batch"  // several events at once: whoever sends them has a queue of their own
	single work = "single" // one event: somebody is waiting for the answer
	asked  work = ""       // by a person, who looks what comes of it: never refused
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

// cause is why work is refused.
type cause string

// The causes.
const (
	admitted    cause = ""
	slowCommits cause = "commit"    // commits have taken long for some seconds
	crowded     cause = "in_flight" // too many publishes are on their way
	scarceRoom  cause = "disk"      // the disk is nearly full
	overQuota   cause = "quota"     // the tenant has too much waiting
)

// longCommit is how long a commit may take, averaged over some seconds. The guide is the publisher's patience: half a second for a
// commit is three or four for those who are unlucky.
const longCommit = 500 * time.Millisecond

// Room is how much room a disk has, in bytes.
type Room struct{ Free, Total uint64 }

// The disk is nearly full with less than both of these. A share alone would be wrong for large disks: a twentieth of a terabyte is room
// for weeks. An amount alone would be wrong for small ones, which it would call full when they are new. Two gibibytes are enough to
// record the outcomes of about a million deliveries that wait, which is what the rest of the room is for.
const (
	leastShare = 20 // a twentieth
	leastBytes = 2 << 30
)

// enough says whether there is room for work of this patience. Nobody knowing how much there is counts as room.
func (r Room) enough(patience float64) bool {
	return float64(r.Free)*patience >= min(float64(r.Total)/leastShare, leastBytes)
}

// strain is what can be seen of how much there is to do.
type strain struct {
	commit     time.Duration // how long one takes
	publishing int           // publishes on their way
	most       int           // of those at once
	room       Room
}

// refuses says why work is not taken on now.
func (s strain) refuses(w work) cause {
	patience := w.patience()
	switch {
	case !s.room.enough(patience):
		return scarceRoom
	case float64(s.commit) > patience*float64(longCommit):
		return slowCommits
	case float64(s.publishing) >= patience*float64(s.most):
		return crowded
	}
	return admitted
}

// admission decides about each piece of work once, when it comes.
type admission struct {
	clock  func() time.Time // with the reading of the monotonic clock
	random func() float64
	disk   func() (Room, error)
	log    *slog.Logger
	count  func(work, cause)

	mu       sync.Mutex
	seen     strain // but for commit, which pace knows
	pace     pace
	lookedAt time.Time // at the disk
	shed     shedding
}

func newAdmission(o Options, count func(work, cause)) *admission {
	a := &admission{
		clock: o.Now, random: o.Random, disk: o.Disk, log: o.Log, count: count,
		seen: strain{most: cmp.Or(o.MaxPublishing, bounds.Fill(o.Bounds).Recorder.Publish)},
	}
	if a.random == nil {
		a.random = rand.Float64
	}
	return a
}

// enter takes work in, which then has to leave, or refuses it.
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

// calm says whether there is so little to do that work which nobody waits for, and which needs no room, is not in the way.
func (a *admission) calm() bool {
	now := a.clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.seen
	seen.commit, seen.room = a.pace.current(now), Room{}
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
}

// commit is how long a commit takes lately.
func (a *admission) commit() time.Duration {
	now := a.clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pace.current(now)
}

// lookEvery is how old what is known of the disk may be.
const lookEvery = time.Second

// look asks how much room there is, not under the lock: a disk in trouble may be slow to answer, and then only one caller waits for it.
func (a *admission) look() {
	if a.disk == nil {
		return
	}
	now := a.clock()
	a.mu.Lock()
	due := a.lookedAt.IsZero() || now.Sub(a.lookedAt) >= lookEvery
	if due {
		a.lookedAt = now
	}
	a.mu.Unlock()
	if !due {
		return
	}
	room, err := a.disk()
	if err != nil {
		a.log.Warn("how much room the disk has cannot be found out", "error", err)
		room = Room{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen.room = room
}

const nearlyFull = "the disk that holds the data is nearly full"

// silence is how long commits may be under way without one coming back until the store counts as
// gone. A store that hangs is not waited for any more a little before that.
const silence = 3 * time.Second

// Unable says why single events are refused for longer than a moment: the disk is nearly full, or
// the store hangs. nil: they are not. A store that is only slow is no reason, and neither is a quota.
func (e *Engine) Unable() error { return e.admission.unable() }

// unable looks at the disk itself, so room is also noticed while no events are published.
func (a *admission) unable() error {
	a.look()
	now := a.clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.seen.room.enough(single.patience()):
		return grapnel.Errorf(grapnel.CodeStorageFull, nearlyFull)
	case a.pace.calls > 0 && now.Sub(a.pace.since) >= silence:
		return grapnel.Errorf(grapnel.CodeUnavailable, "no commit has come back for more than %s", silence)
	}
	return nil
}

// refusal is what the caller of refused work gets. They come back at different times, so that they do not come back together.
func (a *admission) refusal(w work, why cause) *grapnel.Error {
	a.count(w, why)
	e := &grapnel.Error{Code: grapnel.CodeOverloaded, RetryAfter: time.Second + time.Duration(a.random()*float64(4*time.Second))}
	switch why {
	case scarceRoom:
		// Not an overload: it does not pass by itself, and somebody has to make room.
		e.Code, e.Detail = grapnel.CodeStorageFull, nearlyFull
	case slowCommits:
		e.Detail = fmt.Sprintf("commits take too long at the moment to take on more (%s)", w)
	case crowded:
		e.Detail = fmt.Sprintf("too many requests are waiting for the store to take on more (%s)", w)
	case overQuota:
		e.Code = grapnel.CodeQuota
	}
	return e
}

// shedding is a time in which work is refused. It is logged when it begins and when it is over, not for every request.
type shedding struct {
	since, last time.Time
	refusals    int
}

// quietFor is how long nothing is refused until it counts as over.
const quietFor = 10 * time.Second

func (s *shedding) refused(log *slog.Logger, now time.Time, why cause) {
	if s.refusals == 0 {
		s.since = now
		log.Warn("new work is refused; what was accepted goes on", "why", string(why))
	}
	s.refusals, s.last = s.refusals+1, now
}

func (s *shedding) taken(log *slog.Logger, now time.Time) {
	if s.refusals > 0 && now.Sub(s.last) >= quietFor {
		log.Info("new work is taken again", "refused", s.refusals, "from", s.since, "to", s.last)
		*s = shedding{}
	}
}
