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
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/store"
)

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

const (
	// chaosTime is how long faults happen. healTime is the longest time from the last fault until
	// everything has ended. The longest policy used here takes about four minutes for one delivery,
	// and lanes are short.
	chaosTime = 4 * time.Minute
	healTime  = 3 * time.Hour
)

// now is the node's clock.
func (w *world) now() time.Time { return w.base.Add(w.agenda.now + w.skew) }

// sample counts the deliveries in each status.
func (w *world) sample() {
	counts, err := w.model.Counts(context.Background(), store.Everyone())
	if err != nil {
		panic(err)
	}
	for _, d := range w.purged {
		if counts[d.EndpointID] == nil {
			counts[d.EndpointID] = map[grapnel.Status]int64{}
		}
		counts[d.EndpointID][d.Status]++
	}
	for _, r := range w.endpoints {
		w.history.Samples = append(w.history.Samples, history.Sample{At: w.agenda.now, Endpoint: r.config.ID, Counts: counts[r.config.ID]})
	}
}

func (w *world) anyone() *receiver { return w.endpoints[w.rand.IntN(len(w.endpoints))] }

func (w *world) receiver(id string) *receiver {
	at := slices.IndexFunc(w.endpoints, func(r *receiver) bool { return r.config.ID == id })
	if at < 0 {
		return nil
	}
	return w.endpoints[at]
}
