package replay_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestKilledOnTheWay: a replay continues at its stored cursor after the process was killed. Every
// delivery is created once; those of a key arrive in order; only requests in flight arrive twice.
func TestKilledOnTheWay(t *testing.T) {
	const letters, keys, kills = 2000, 50, 7
	// With again, only the cursor keeps a delivery from being created twice.
	for _, again := range []bool{false, true} {
		killed(t, 0, letters, keys, kills, again)
	}
}

// TestKilledWithinTinyBounds is the same with all bounds as small as they may be.
func TestKilledWithinTinyBounds(t *testing.T) {
	seeds := uint64(4)
	if os.Getenv("GRAPNEL_SOAK") != "" {
		seeds = 100
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed+1), func(t *testing.T) { killed(t, seed+1, 300, 20, 5, seed%2 == 0) })
	}
}

func killed(t *testing.T, tiny uint64, letters, keys, kills int, again bool) {
	within(t, tiny, memoryStore(), nil, func(t *testing.T, w *world) {
		random := rand.New(rand.NewPCG(4, 4))
		keyOf := w.letters(letters, keys)
		w.receiver.answer(200, 20*time.Millisecond)
		id := w.begin(func(q *replay.Request) { q.Selection.Again = again })
		if total := w.get(id).Total; total != letters {
			t.Errorf("%d are to be made", total)
		}
		done := 0
		for range kills {
			time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
			w.kill()
			p := w.get(id)
			if p.Status != grapnel.ReplayRunning {
				t.Fatalf("it was over before the last kill: %+v", p)
			}
			if p.Started-p.Done > 64 {
				t.Errorf("%d are on their way", p.Started-p.Done)
			}
			if p.Done > done {
				done = p.Done
			}
		}
		if done == 0 {
			t.Error("nothing was done before the last kill: this test shows nothing")
		}
		p := w.is(id, grapnel.ReplayCompleted, 10*time.Minute)
		if p.Started != letters || p.Done != letters || p.Delivered != letters || p.Failed != 0 || p.FinishedAt.IsZero() {
			t.Errorf("in the end %+v", p)
		}
		w.onceEach(id, letters)
		seen, twice := w.receiver.ordered(t, keyOf)
		if seen != letters {
			t.Errorf("%d of %d events arrived", seen, letters)
		}
		if twice > kills*keys {
			t.Errorf("%d came more than once: more than one for each key and kill", twice)
		}
		if off, err := w.store.Imbalance(ctx); off != 0 || err != nil {
			t.Errorf("the books are off by %d, %v", off, err)
		}
	})
}

// TestAnswersGetLost: a step whose answer was lost is made once. Every third call of a method fails;
// half of these had their effect.
func TestAnswersGetLost(t *testing.T) {
	const letters, keys = 300, 20
	var mu sync.Mutex
	broken := false
	calls := map[string]int{} // of each method
	faulty := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		if !broken {
			return memory.Fault{}
		}
		n := calls[method]
		if calls[method]++; n%3 > 0 {
			return memory.Fault{}
		}
		return memory.Fault{Err: io.ErrUnexpectedEOF, Applied: n%6 == 0}
	}}
	bubble(t, faulty, nil, func(t *testing.T, w *world) {
		keyOf := w.letters(letters, keys)
		id := w.begin(nil)
		mu.Lock()
		broken = true
		mu.Unlock()
		time.Sleep(5 * time.Minute)
		mu.Lock()
		broken = false
		mu.Unlock()
		w.is(id, grapnel.ReplayCompleted, 10*time.Minute)
		w.onceEach(id, letters)
		if seen, twice := w.receiver.ordered(t, keyOf); seen != letters || twice > 0 {
			t.Errorf("%d events arrived, %d more than once", seen, twice)
		}
	})
	for _, method := range []string{"Advance", "Candidates", "Replay", "ReplayList"} {
		if calls[method] == 0 {
			t.Errorf("%s was not called, and never failed: this test shows less than it says", method)
		}
	}
}

// TestSomebodyElseChangesIt: an order that conflicts with another change of the replay is applied
// to the changed replay.
func TestSomebodyElseChangesIt(t *testing.T) {
	var mu sync.Mutex
	conflicts := 0
	faulty := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		if method != "PutReplay" || conflicts == 0 {
			return memory.Fault{}
		}
		conflicts--
		return memory.Fault{Err: grapnel.Errorf(grapnel.CodeConflict, "changed")}
	}}
	bubble(t, faulty, nil, func(t *testing.T, w *world) {
		w.letters(1000, 10)
		id := w.begin(func(q *replay.Request) { q.Rate = 1 })
		mu.Lock()
		conflicts = 2
		mu.Unlock()
		p, err := w.runner.Pause(ctx, store.Everyone(), id, grapnel.By{})
		if err != nil || p.Status != grapnel.ReplayPaused {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

// TestOrderedAtAnotherNode: one node accepts the order, another carries it out. The other finds the
// replay at its next look.
func TestOrderedAtAnotherNode(t *testing.T) {
	bubble(t, memory.New(), nil, func(t *testing.T, w *world) {
		w.letters(3, 1)
		elsewhere := replay.New(replay.Options{Engine: w.engine, Store: w.mortal, Log: slog.New(slog.DiscardHandler)}) // no job runs there
		started, err := elsewhere.Start(ctx, store.Everyone(), replay.Order{Request: replay.Request{Endpoint: "ep", Rate: 1000}})
		w.must(err)
		w.is(started.ID, grapnel.ReplayCompleted, 2*time.Second)
	})
}

// TestTwoAboutTheSame: two replays with the same selection share its deliveries, although the store
// is slow.
func TestTwoAboutTheSame(t *testing.T) {
	slow := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
		if method == "Advance" || method == "Candidates" {
			time.Sleep(20 * time.Millisecond)
		}
		return memory.Fault{}
	}}
	bubble(t, slow, nil, func(t *testing.T, w *world) {
		w.letters(300, 10)
		one, two := w.begin(nil), w.begin(nil)
		w.is(one, grapnel.ReplayCompleted, time.Minute)
		w.is(two, grapnel.ReplayCompleted, time.Minute)
		if a, b := w.get(one), w.get(two); a.Started+b.Started != 300 || a.Started == 0 || b.Started == 0 {
			t.Errorf("%d and %d were made, of 300", a.Started, b.Started)
		}
		if n := len(w.receiver.got()); n != 300 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestOverload: a replay is slowed down before anything else, states the reason, and continues when
// the load falls.
func TestOverload(t *testing.T) {
	var mu sync.Mutex
	space := engine.DiskSpace{Free: 1 << 40, Total: 1 << 40}
	tune := func(o *engine.Options) {
		o.Disk = func() (engine.DiskSpace, error) {
			mu.Lock()
			defer mu.Unlock()
			return space, nil
		}
	}
	bubble(t, memoryStore(), tune, func(t *testing.T, w *world) {
		w.letters(200, 10)
		id := w.begin(func(q *replay.Request) { q.Rate = 20 })
		time.Sleep(3 * time.Second)
		mu.Lock()
		space.Free = 3 << 30 // enough for single events, not for a replay
		mu.Unlock()
		time.Sleep(10 * time.Second)
		before := w.get(id)
		if before.Status != grapnel.ReplayRunning || before.Reason == "" || before.Started == 0 {
			t.Errorf("while the disk is full: %+v", before)
		}
		time.Sleep(time.Minute)
		if after := w.get(id); after.Started != before.Started {
			t.Errorf("%d more were made while the disk was full", after.Started-before.Started)
		}
		mu.Lock()
		space.Free = 1 << 40
		mu.Unlock()
		w.is(id, grapnel.ReplayCompleted, 30*time.Second)
		w.onceEach(id, 200)
	})
}
