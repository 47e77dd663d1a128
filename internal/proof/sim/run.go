package sim

import (
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

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
