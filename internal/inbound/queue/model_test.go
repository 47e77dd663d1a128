package queue

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/policy"
)

var (
	seedFlag = flag.Uint64("seed", 0, "of the one history to play; 0: those of the test")
	stepFlag = flag.Int("steps", 250, "of each history")
)

// A history is a random sequence of actions of two consumers, publishers, operators and faults on
// one queue. It checks every lease against the settlements so far:
//
//   - no consumer gets a delivery on which another has a valid lease,
//   - no consumer gets a delivery that was acked or rejected, or one behind an unfinished delivery
//     of its key,
//   - a lease that has expired or was used has no effect.
//
// At the end it checks that nothing was lost, that every lease was recorded as an attempt, and that
// every recorded attempt had a cause.
type history struct {
	*world
	t      *testing.T
	rng    *rand.Rand
	queue  *grapnel.Endpoint
	ids    []string
	told   map[int64]*told // by delivery
	leases []*held
	excuse bool // an attempt may be recorded that no consumer knows: a claim's answer was lost with the process, or with two calls

	faults atomic.Int64 // in a hundred
	luck   sync.Mutex
	lucky  *rand.Rand // for faults, which several goroutines meet
	steps  []string   // the last ones
}

// told is the known outcome of a delivery.
type told struct {
	final  grapnel.Status // of a settlement that succeeded
	maybe  bool           // a settlement was answered with an error that leaves it open
	leases []*held
}

// held is a lease that a consumer got.
type held struct {
	Message
	until time.Time // the latest that it can end
	class policy.Class
	open  bool // not known to be settled
}

func (h *history) note(format string, args ...any) {
	h.steps = append(h.steps, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
	if len(h.steps) > 60 {
		h.steps = h.steps[1:]
	}
}

func (h *history) wrong(format string, args ...any) {
	h.t.Helper()
	for _, s := range h.steps {
		h.t.Log(s)
	}
	h.t.Fatalf(format, args...)
}

var errLost = errors.New("the answer is lost")

// fault fails some of the package's store calls, half of them after they have taken effect.
func (h *history) fault(method string) memory.Fault {
	switch method {
	case "Claim", "Record", "Events", "Lease", "Extend", "LeaseList", "Append", "Delivery":
		h.luck.Lock()
		defer h.luck.Unlock()
		if h.lucky.Int64N(100) < h.faults.Load() {
			return memory.Fault{Err: errLost, Applied: h.lucky.IntN(2) == 0}
		}
	}
	return memory.Fault{}
}

// play runs `steps` random actions, then lets all leases end, and checks the store.
func (h *history) play(steps int, reopen func() store.Store) {
	h.queue = h.world.queue(func(ep *grapnel.Endpoint) { ep.Queue.MaxLeased = 4 })
	for range steps {
		h.step(reopen)
		synctest.Wait()
	}
	h.faults.Store(0)
	if h.queue.Status != grapnel.EndpointEnabled {
		h.queue.Status = grapnel.EndpointEnabled
		h.queue = h.put(*h.queue)
	}
	for n := 0; h.waiting() > 0; n++ {
		if n > 300 {
			h.wrong("%d deliveries do not end", h.waiting())
		}
		h.take(fmt.Sprint("c", n%2), 10)
		for _, l := range h.leases {
			if l.open {
				h.settleOne(l, Answer{Verdict: Ack})
			}
		}
		backoff.Wait(nil, 2*time.Second)
	}
	h.audit()
}

func (h *history) waiting() int {
	n, err := h.store.Waiting(context.Background(), h.queue.ID, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *history) step(reopen func() store.Store) {
	consumer := fmt.Sprint("c", h.rng.IntN(2))
	switch n := h.rng.IntN(100); {
	case n < 22:
		key := ""
		if k := h.rng.IntN(4); k > 0 {
			key = fmt.Sprint("k", k)
		}
		h.ids = append(h.ids, h.publish(key))
		h.note("published %s of %q", h.ids[len(h.ids)-1], key)
	case n < 50:
		h.take(consumer, 1+h.rng.IntN(3))
	case n < 56:
		h.wait(consumer)
	case n < 82 && len(h.leases) > 0:
		l := h.leases[max(0, len(h.leases)-1-h.rng.IntN(8))] // some of them are used or have expired
		a := Answer{Verdict: []Verdict{Ack, Ack, Ack, Nack, Nack, Reject}[h.rng.IntN(6)]}
		if a.Verdict == Nack && h.rng.IntN(2) == 0 {
			a.Delay, a.HasDelay = time.Duration(h.rng.IntN(20))*time.Second, true
		}
		h.settleOne(l, a)
	case n < 86 && len(h.leases) > 0:
		h.extend(h.leases[max(0, len(h.leases)-1-h.rng.IntN(4))])
	case n < 94:
		d := time.Duration(h.rng.IntN(15_000)) * time.Millisecond
		h.note("time passes: %s", d)
		backoff.Wait(nil, d)
	case n < 96:
		h.queue.Status = grapnel.EndpointPaused
		if h.rng.IntN(2) == 0 {
			h.queue.Status = grapnel.EndpointEnabled
		}
		h.note("the queue is %s", h.queue.Status)
		h.queue = h.put(*h.queue)
	case n < 98:
		h.note("crash")
		h.excuse = true
		h.crash(reopen)
	}
}

func (h *history) take(consumer string, most int) {
	found, err := h.broker.Next(context.Background(), h.queue, consumer, most, 0)
	h.note("%s asked for %d: %d, %v", consumer, most, len(found), err)
	if err != nil && h.faults.Load() == 0 {
		h.wrong("next: %v", err)
	}
	h.handed(found)
}

// wait asks with a wait while an event is published; the consumer may disconnect before it has an
// answer.
func (h *history) wait(consumer string) {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	got := make(chan []Message, 1)
	go func() {
		found, _ := h.broker.Next(ctx, h.queue, consumer, 1, 2*time.Second)
		got <- found
	}()
	synctest.Wait()
	h.ids = append(h.ids, h.publish(""))
	if h.rng.IntN(3) == 0 {
		leave()
	}
	found := <-got
	h.note("%s waited, and %s was published: %d", consumer, h.ids[len(h.ids)-1], len(found))
	h.handed(found)
}

// handed checks the messages that a consumer got.
func (h *history) handed(found []Message) {
	h.t.Helper()
	if len(found) > 0 && h.queue.Status != grapnel.EndpointEnabled {
		h.wrong("a paused queue hands out %v", bodies(found))
	}
	for _, m := range found {
		d := h.told[m.Delivery]
		if d == nil {
			d = &told{}
			h.told[m.Delivery] = d
		}
		h.note("  handed %s attempt %d to %s, lease …%s until %s", m.Event.ID, m.Number, m.Consumer, m.Token[len(m.Token)-4:],
			m.Until.Format("04:05"))
		if d.final != "" {
			h.wrong("%s came again although it is %s", m.Event.ID, d.final)
		}
		for _, l := range d.leases {
			switch {
			case l.Token == m.Token:
				h.wrong("a token was granted twice")
			case l.open && l.until.After(m.GrantedAt) && !d.maybe:
				h.wrong("%s was handed out while …%s is valid until %s", m.Event.ID, l.Token[len(l.Token)-4:], l.until.Format("04:05"))
			case l.Number >= m.Number:
				h.wrong("attempt %d of %s came after %d", m.Number, m.Event.ID, l.Number)
			}
			l.open = false
		}
		is := h.delivery(m.Delivery)
		if is.AttemptsMade != m.Number-1 || m.Number > h.queue.Policy.MaxAttempts {
			h.wrong("%s was handed out as attempt %d after %d", m.Event.ID, m.Number, is.AttemptsMade)
		}
		h.first(is)
		d.maybe = false
		l := &held{Message: m, until: m.Until, open: true}
		d.leases, h.leases = append(d.leases, l), append(h.leases, l)
	}
}

// first checks that no earlier delivery in the lane of this one is pending.
func (h *history) first(is *grapnel.Delivery) {
	h.t.Helper()
	if is.Key == "" {
		return
	}
	list, err := h.store.DeliveryList(context.Background(), store.Everyone(), store.DeliveryQuery{Endpoint: h.queue.ID, Key: is.Key,
		Limit: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, other := range list {
		if other.Position < is.Position && !other.Status.Final() {
			h.wrong("%s was handed out before %s of its key was over", is.EventID, other.EventID)
		}
	}
}

func (h *history) settleOne(l *held, a Answer) {
	h.t.Helper()
	d := h.told[l.Delivery]
	valid := l.open && time.Now().Before(l.until)
	before := h.delivery(l.Delivery)
	err := h.settle(l.Token, a)
	h.note("%s of …%s (%s): %v", a.Verdict, l.Token[len(l.Token)-4:], l.Event.ID, err)
	class := map[Verdict]policy.Class{Ack: policy.ClassNone, Nack: policy.ClassNack, Reject: policy.ClassReject}[a.Verdict]
	switch {
	case err == nil:
		if !valid {
			h.wrong("a lease that was over or used has settled %s", l.Event.ID)
		}
		l.open, l.class = false, class
		switch a.Verdict {
		case Ack:
			d.final = grapnel.Delivered
		case Reject:
			d.final = grapnel.Failed
		}
		if is := h.delivery(l.Delivery); d.final != "" && is.Status != d.final {
			h.wrong("%s was answered well, and %s is %s", a.Verdict, l.Event.ID, is.Status)
		}
	case grapnel.CodeOf(err) == grapnel.CodeConflict:
		if valid && !d.maybe {
			h.wrong("a valid lease of %s was refused", l.Event.ID)
		}
		after := h.delivery(l.Delivery)
		if (after.AttemptsMade != before.AttemptsMade || after.Status != before.Status) && !l.lapsed(before, after) {
			h.wrong("a lease that was refused has changed %s", l.Event.ID)
		}
		l.open = false
	default:
		if h.faults.Load() == 0 {
			h.wrong("settling failed: %v", err)
		}
		d.maybe = true
	}
}

// lapsed reports whether all that a delivery got between two reads is the expiry of the lease. A
// crash leaves expired leases without an attempt, and the broker records these when it sees them.
func (l *held) lapsed(before, after *grapnel.Delivery) bool {
	return !time.Now().Before(l.until) && before.AttemptsMade == l.Number-1 && after.AttemptsMade == l.Number &&
		after.Attempts[l.Number-1].Class == policy.ClassLease
}

func (h *history) extend(l *held) {
	by := time.Duration(1+h.rng.IntN(30)) * time.Second
	valid := l.open && time.Now().Before(l.until)
	got, err := h.broker.Extend(context.Background(), store.Everyone(), l.Token, by)
	h.note("extend …%s by %s: %v", l.Token[len(l.Token)-4:], by, err)
	d := h.told[l.Delivery]
	switch {
	case err == nil && !valid:
		h.wrong("a lease that was over or used was extended")
	case err == nil:
		l.until = got.Until
	case grapnel.CodeOf(err) == grapnel.CodeConflict && valid && !d.maybe:
		h.wrong("a valid lease was not extended")
	case grapnel.CodeOf(err) != grapnel.CodeConflict:
		d.maybe = true // it may end then, or when it would have
		if until := time.Now().Add(by); until.After(l.until) {
			l.until = until
		}
	}
}

// audit compares the final store with the answers that consumers got.
func (h *history) audit() {
	h.t.Helper()
	ctx := context.Background()
	list, err := h.store.DeliveryList(ctx, store.Everyone(), store.DeliveryQuery{Endpoint: h.queue.ID, Limit: 10_000})
	if err != nil {
		h.t.Fatal(err)
	}
	if len(list) != len(h.ids) {
		h.wrong("%d events were published, and there are %d deliveries", len(h.ids), len(list))
	}
	for i := range list {
		is := h.delivery(list[i].Seq)
		d := h.told[is.Seq]
		if d == nil {
			d = &told{}
		}
		if !is.Status.Final() || d.final != "" && is.Status != d.final {
			h.wrong("%s is %s and should be %q", is.EventID, is.Status, d.final)
		}
		if len(is.Attempts) != is.AttemptsMade || is.AttemptsMade > h.queue.Policy.MaxAttempts {
			h.wrong("%s has %d attempts on record and has made %d", is.EventID, len(is.Attempts), is.AttemptsMade)
		}
		if is.ReasonCode == grapnel.ReasonExhausted && is.AttemptsMade != h.queue.Policy.MaxAttempts {
			h.wrong("%s is exhausted after %d attempts", is.EventID, is.AttemptsMade)
		}
		byNumber := map[int]*held{}
		for _, l := range d.leases {
			byNumber[l.Number] = l
			if l.Number > len(is.Attempts) {
				h.wrong("attempt %d of %s was handed out and is not on record", l.Number, is.EventID)
			}
		}
		for n := range is.Attempts {
			a, l := &is.Attempts[n], byNumber[n+1]
			switch {
			case a.Number != n+1:
				h.wrong("attempts of %s are numbered %d after %d", is.EventID, a.Number, n)
			case l == nil && (a.Class != policy.ClassLease || !h.excuse):
				h.wrong("attempt %d of %s (%s) was never handed out", a.Number, is.EventID, a.Class)
			case l != nil && !a.StartedAt.Equal(l.GrantedAt):
				h.wrong("attempt %d of %s is not the lease that was handed out", a.Number, is.EventID)
			case l != nil && l.class != "" && a.Class != l.class:
				h.wrong("attempt %d of %s was answered %s and is on record as %s", a.Number, is.EventID, l.class, a.Class)
			}
		}
	}
	if off, err := h.store.Imbalance(ctx); err != nil || off != 0 {
		h.wrong("the books are off by %d, %v", off, err)
	}
}

// histories plays histories with their seeds in their names; -seed plays one again.
func histories(t *testing.T, count, steps int, tiny bool, open func(t *testing.T) (first store.Store, reopen func() store.Store)) {
	t.Helper()
	seeds := make([]uint64, count)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	if *seedFlag != 0 {
		seeds = []uint64{*seedFlag}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, reopen := open(t)
				h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 5)), lucky: rand.New(rand.NewPCG(seed, 6)), told: map[int64]*told{}}
				h.faults.Store([]int64{0, 5, 15}[seed%3])
				// A claim that fails leaves leases that are returned; they expire if returning them
				// fails too.
				h.excuse = h.faults.Load() > 0
				h.world = &world{t: t, store: first}
				if tiny {
					h.bounds = seed
				}
				fault := h.fault
				h.injure.Store(&fault)
				h.log = discard
				h.start()
				defer func() {
					h.halt()
					if err := h.store.Close(); err != nil {
						t.Error(err)
					}
				}()
				h.play(steps, reopen)
			})
		})
	}
}

func onModel(*testing.T) (store.Store, func() store.Store) {
	s := memory.New()
	return s, func() store.Store { return s }
}

func TestHistoriesOnTheModel(t *testing.T) { histories(t, 30, *stepFlag, false, onModel) }

// TestHistoriesWithinTinyBounds plays them with the smallest bounds of broker and engine.
func TestHistoriesWithinTinyBounds(t *testing.T) {
	count := 6
	if os.Getenv("GRAPNEL_SOAK") != "" {
		count = 200
	}
	histories(t, count, *stepFlag, true, onModel)
}

func TestHistoriesOnSQLite(t *testing.T) {
	histories(t, 5, *stepFlag/2, false, func(t *testing.T) (store.Store, func() store.Store) {
		path := filepath.Join(t.TempDir(), "queue.db")
		var now *sqlite.Store
		open := func() store.Store {
			if now != nil {
				if err := now.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			now = s
			return s
		}
		return open(), open
	})
}
