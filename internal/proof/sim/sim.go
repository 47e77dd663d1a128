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
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
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
	for end := w.agenda.now + healTime; w.agenda.now < end && !w.settled(); {
		w.agenda.until(w.agenda.now + time.Minute)
	}
	w.sample()
	w.collect(w.everything(), w.removed())
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
	stage
	skew  time.Duration // offset of the node's clock since the run started
	store store.Store   // the model, behind faults and mutants
	plan  plan

	node      *node // nil: it is down
	endpoints []*receiver
	back      int       // number of times the store went back
	wellAt    time.Time // when the backlog of the faults should have drained
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
	w := &world{stage: newStage(o, 0x6772_6170_6e65_6c)}
	w.store = &observed{Store: w.mutate(&memory.Faulty{Store: w.model, Injure: w.injure}), w: w}
	w.plan = plan{
		crash: w.maybe(), storeError: w.maybe() / 4, storeUnknown: w.maybe() / 4, stall: w.maybe() / 8,
		hintLost: w.maybe(), hintDouble: w.maybe(), hintLate: w.maybe(), loadLate: w.maybe(),
		receiverDown: w.maybe(), receiverSlow: w.maybe(), answerLost: w.maybe() / 2, poison: w.maybe() / 4,
		clockJump: w.maybe(), operator: w.maybe(), cleanStop: w.maybe(),
	}
	if o.Back {
		w.plan.back = (1 + w.rand.Float64()) / 2
	}
	w.history.Limits = history.Limits{Commit: 30 * time.Second, Transit: 50 * time.Millisecond}
	return w
}

// now is the node's clock.
func (w *world) now() time.Time { return w.base.Add(w.agenda.now + w.skew) }
