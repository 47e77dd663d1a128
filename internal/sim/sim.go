// Package sim runs whole histories of Grapnel in one goroutine: the real core and the real policy
// on the model store, with simulated receivers, publishers, operators and a network, all of which
// misbehave. A seed decides everything, so a history that breaks a promise is repeated by its seed.
//
// A history has two phases. First faults: the node crashes and restarts, commits are lost or
// applied without an answer, the store stalls, hints are lost, doubled and late, receivers fail,
// hang, answer slowly or lose their answers, the clock jumps, operators pause, delete, retry and
// skip, and, if enabled, replay and purge. Each seed enables its own subset. Then everything heals,
// and within a deadline every delivery must finish. The history is handed to package history, which
// checks the promises.
//
// Histories of several nodes that share a store are worlds of their own (RunCluster). They add
// shards, leases and epochs, and nodes that stand still, lose each other and the store, and take
// over from each other.
//
// The shell around the core (package engine) and the real stores are simulated here and not proved.
// The end-to-end tests kill the real binary for those, and are checked against the same promises.
package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/sim/history"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// Options of a run.
type Options struct {
	Seed   uint64
	Mutant Mutant // a bug put into the simulated shell or store; the checker must see it
	Tidy   bool   // operators replay finished deliveries, and expired rows are purged
	Tiny   bool   // all bounds of the core are as small as they may be, or a little more
	Back   bool   // the store goes back to an earlier state now and then, while the node runs
	Trace  func(at time.Duration, line string)
}

// Outcome of a run.
type Outcome struct {
	History    history.History
	Violations []history.Violation
	Excesses   []string // limits that were exceeded
	Steps      int      // of the core
	Repaired   int      // faults injected
	Replays    int
	Replayed   int // deliveries created by replays
	Purged     int
}

// Run plays one history.
func Run(o Options) Outcome {
	w := newWorld(o)
	w.setUp()
	w.start()
	w.agenda.until(chaosTime)
	w.heal()
	for end := w.agenda.now + healTime; w.agenda.now < end && !w.quiet(); {
		w.agenda.until(w.agenda.now + time.Minute)
	}
	w.collect()
	w.audit()
	return Outcome{History: w.history, Violations: history.Check(w.history), Excesses: w.excesses, Steps: w.steps,
		Repaired: len(w.history.Faults),
		Replays:  len(w.reruns), Replayed: w.replayed, Purged: len(w.purged)}
}

const (
	// chaosTime is how long faults happen. healTime is the longest time from the last fault until
	// everything has ended. The longest policy used here takes about four minutes for one delivery,
	// and lanes are short.
	chaosTime = 4 * time.Minute
	healTime  = 3 * time.Hour
)

// world is the state of one run.
type world struct {
	options Options
	rand    *rand.Rand
	agenda  agenda
	base    time.Time     // the wall clock when the run starts
	skew    time.Duration // offset of the node's clock since then
	model   *memory.Store
	store   store.Store // the model, behind faults and mutants
	plan    plan
	healing bool

	node      *node // nil: it is down
	endpoints []*receiver
	byID      map[string]*published
	history   history.History
	committed map[string][]string     // event id → endpoints that were matched when it was committed
	back      int                     // number of times the store went back
	over      map[int64]time.Duration // when deliveries ended
	excesses  []string
	wellAt    time.Time // when the backlog of the faults should have drained
	trying    int       // publishes without a known success
	steps     int
	token     int64
	orders    map[int64]func(error)
	reruns    []*rerun
	replayed  int                // deliveries created by replays
	purged    []grapnel.Delivery // as last seen
}

// plan is the subset of faults that a seed enables, each with a probability.
type plan struct {
	crash, storeError, storeUnknown, stall         float64
	hintLost, hintDouble, hintLate, loadLate       float64
	receiverDown, receiverSlow, answerLost, poison float64
	clockJump, operator, cleanStop                 float64
	back                                           float64
}

func newWorld(o Options) *world {
	w := &world{
		options: o, rand: rand.New(rand.NewPCG(o.Seed, 0x6772_6170_6e65_6c)),
		base:  time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC),
		model: memory.New(), byID: map[string]*published{}, committed: map[string][]string{}, orders: map[int64]func(error){},
		over: map[int64]time.Duration{},
	}
	w.agenda.rand = w.rand
	w.store = &observed{Store: w.mutate(&memory.Faulty{Store: w.model, Injure: w.injure}), w: w}
	maybe := func() float64 {
		if w.rand.IntN(2) == 0 {
			return 0
		}
		return w.rand.Float64() * w.rand.Float64()
	}
	w.plan = plan{
		crash: maybe(), storeError: maybe() / 4, storeUnknown: maybe() / 4, stall: maybe() / 8,
		hintLost: maybe(), hintDouble: maybe(), hintLate: maybe(), loadLate: maybe(),
		receiverDown: maybe(), receiverSlow: maybe(), answerLost: maybe() / 2, poison: maybe() / 4,
		clockJump: maybe(), operator: maybe(), cleanStop: maybe(),
	}
	if o.Back {
		w.plan.back = (1 + w.rand.Float64()) / 2
	}
	w.history.Limits = history.Limits{Commit: 30 * time.Second, Transit: 50 * time.Millisecond}
	return w
}

// now is the node's clock.
func (w *world) now() time.Time { return w.base.Add(w.agenda.now + w.skew) }

func (w *world) chance(p float64) bool { return !w.healing && w.rand.Float64() < p }

// between is a random duration.
func (w *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(w.rand.Int64N(int64(b-a)+1))
}

func (w *world) trace(format string, args ...any) {
	if w.options.Trace != nil {
		w.options.Trace(w.agenda.now, fmt.Sprintf(format, args...))
	}
}

// reserveOf is the size of the reserve in a world with windows of a size: large in half of the
// worlds, and nearly nothing in the others.
func reserveOf(window int) int {
	if window%2 == 0 {
		return 4 * window
	}
	return 1
}

// small limits make windows overflow and slots run out within a short history.
func (w *world) limits() core.Options {
	o := core.Options{Slots: 2 + w.rand.IntN(8), PerHost: 1 + w.rand.IntN(8), Bounds: core.Bounds{Window: 2 + w.rand.IntN(6),
		Horizon: w.between(time.Second, time.Minute), Poll: w.between(5*time.Second, time.Minute)}}
	o.Bounds.Reserve = reserveOf(o.Bounds.Window)
	if w.options.Tiny {
		o.Bounds = bounds.Tiny[core.Bounds](w.rand.Uint64())
	}
	return o
}
