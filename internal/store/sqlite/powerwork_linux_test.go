package sqlite

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/journal"
)

// deed is a line of the ledger of a process whose power is cut: an operation has begun, or was
// acknowledged. Events have one delivery each.
type deed struct {
	Done   bool     `json:"done,omitempty"`
	Kind   string   `json:"kind"`
	Events []string `json:"events,omitempty"` // of a batch; whose deliveries are recorded as delivered, or leased
	Tokens []string `json:"tokens,omitempty"` // of leases, parallel to Events
}

// Kinds of deeds. Only events of deedOld are purged.
const (
	deedAppend = "append"
	deedOld    = "append what will be purged"
	deedRecord = "record"
	deedClaim  = "claim"
	deedPurge  = "purge"
)

var cutEpoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const cutOldType = "old.data"

// cutData are the data of the event with an id.
func cutData(id string) []byte {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	size := 20 + r.IntN(300)
	if r.IntN(4) == 0 {
		size = 1500 + r.IntN(6000)
	}
	data := append(make([]byte, 0, size+20), id...)
	for len(data) < size {
		data = append(data, byte(r.Uint32()))
	}
	return data
}

// cutBounds are so small that a second of work crosses them all.
func cutBounds(seed uint64) Bounds {
	r := rand.New(rand.NewPCG(seed, 2))
	return Bounds{Unflushed: 8 << r.IntN(6), Deferred: 1 + r.IntN(40), FlushEvery: time.Millisecond << r.IntN(8),
		Apart: 1 << r.IntN(12), LeastApart: 1 << r.IntN(11), ApartStep: 4096 << r.IntN(4), ApartWrite: 1 << (8 + r.IntN(8)),
		Checkpoint: 16 << r.IntN(6), CopyEvery: time.Millisecond, RestEvery: time.Millisecond << r.IntN(6),
		Journal: journal.Bounds{Half: 1 << (17 + r.IntN(3)), Step: 4096, First: 8192}}
}

// cutWorker publishes, records, claims, settles and repeats events of its own lane and queue.
type cutWorker struct {
	t      *testing.T
	s      *Store
	ledger *os.File
	name   string
	r      *rand.Rand
	events map[int64]string // ids by row id
	heads  []store.Head
	leases []grapnel.Lease
	before []cutBatch
	i      int
}

type cutBatch struct {
	ids []string
	to  store.Target
	key string
}

// cutWorks is the process whose power is cut.
func cutWorks(t *testing.T, path, ledger string, seed, steps uint64) {
	s, err := Open(t.Context(), path, Options{Ballast: -1, Bounds: cutBounds(seed)})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(ledger)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range uint64(4) {
		w := &cutWorker{t: t, s: s, ledger: file, name: fmt.Sprintf("%d_%d", seed, n), r: rand.New(rand.NewPCG(seed, 10+n)),
			events: make(map[int64]string)}
		all.Go(func() {
			for range steps {
				if err := w.step(n == 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if seed%2 == 0 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// note writes a line of the ledger with one call, which is in the trace.
func (w *cutWorker) note(d deed) error {
	line, err := json.Marshal(d)
	if err == nil {
		_, err = w.ledger.Write(append(line, '\n'))
	}
	return err
}

// deed does an operation between two lines. do may complete the second.
func (w *cutWorker) deed(d deed, do func(d *deed) error) error {
	if err := w.note(d); err != nil {
		return err
	}
	if err := do(&d); err != nil {
		return fmt.Errorf("%s: %w", d.Kind, err)
	}
	d.Done = true
	return w.note(d)
}

func (w *cutWorker) step(purges bool) error {
	switch n := w.r.IntN(12); {
	case n == 0 && len(w.before) > 0:
		_, err := w.append(w.before[w.r.IntN(len(w.before))], true)
		return err
	case n == 1 && purges:
		return w.purge()
	case n < 4 && len(w.heads) > 0:
		return w.record()
	case n < 6:
		return w.claim()
	case n < 8 && len(w.leases) > 0:
		return w.settle()
	}
	ids := make([]string, 1+w.r.IntN(5))
	for j := range ids {
		ids[j] = fmt.Sprintf("evt_%s_%04d_%d", w.name, w.i, j)
	}
	w.i++
	switch n := w.r.IntN(6); {
	case n == 0:
		return w.old(ids)
	case n < 3:
		return w.publish(cutBatch{ids, store.Target{Endpoint: "ep", Ordered: true}, "k" + w.name})
	case n < 5:
		return w.publish(cutBatch{ids, store.Target{Endpoint: "que_" + w.name, Ordered: true}, ""})
	}
	return w.publish(cutBatch{ids, store.Target{Endpoint: "ep"}, ""})
}

func (w *cutWorker) publish(b cutBatch) error {
	return w.deed(deed{Kind: deedAppend, Events: b.ids}, func(*deed) error {
		heads, err := w.append(b, false)
		w.before = append(w.before, b)
		if b.to.Endpoint == "ep" {
			w.heads = append(w.heads, heads...)
		}
		return err
	})
}

// append publishes events, or repeats them.
func (w *cutWorker) append(b cutBatch, again bool) ([]store.Head, error) {
	in := store.Batch{Config: 1}
	for _, id := range b.ids {
		in.Events = append(in.Events, store.Incoming{Event: cutEvent(id, "a.b", b.key), Targets: []store.Target{b.to}})
	}
	done, err := w.s.Append(w.t.Context(), in)
	if err != nil {
		return nil, err
	}
	for i, p := range done.Events {
		if p.Duplicate != again || p.Conflict {
			return nil, fmt.Errorf("%s, repeated: %v: %+v", b.ids[i], again, p)
		}
		w.events[p.Seq] = b.ids[i]
	}
	return done.Heads, nil
}

// old publishes events that the next purge removes, and finishes them.
func (w *cutWorker) old(ids []string) error {
	var heads []store.Head
	err := w.deed(deed{Kind: deedOld, Events: ids}, func(*deed) error {
		b := store.Batch{Config: 1}
		for _, id := range ids {
			b.Events = append(b.Events, store.Incoming{Event: cutEvent(id, cutOldType, ""), Targets: []store.Target{{Endpoint: "ep"}}})
		}
		done, err := w.s.Append(w.t.Context(), b)
		for i, p := range done.Events {
			w.events[p.Seq] = ids[i]
		}
		heads = done.Heads
		return err
	})
	if err != nil {
		return err
	}
	return w.delivered(heads)
}

func cutEvent(id, kind, key string) *grapnel.Event {
	return &grapnel.Event{ID: id, Tenant: "acme", Type: kind, Key: key, Data: cutData(id), AcceptedAt: cutEpoch}
}

// record records some heads as delivered. The next ones of their lanes become heads.
func (w *cutWorker) record() error {
	n := min(len(w.heads), 1+w.r.IntN(4))
	heads := w.heads[:n:n]
	w.heads = w.heads[n:]
	return w.delivered(heads)
}

func (w *cutWorker) delivered(heads []store.Head) error {
	d := deed{Kind: deedRecord}
	var changes []store.Change
	for _, h := range heads {
		d.Events = append(d.Events, w.events[h.Event])
		changes = append(changes, store.Change{Delivery: h.Delivery, Status: grapnel.Delivered, At: cutEpoch})
	}
	return w.deed(d, func(*deed) error { return w.change(changes) })
}

func (w *cutWorker) change(changes []store.Change) error {
	done, err := w.s.Record(w.t.Context(), changes)
	for _, is := range done {
		if !is.Applied {
			return fmt.Errorf("not applied: %+v", is)
		}
		if is.Next != nil && is.Next.Lane != "" {
			w.heads = append(w.heads, *is.Next)
		}
	}
	return err
}

func (w *cutWorker) claim() error {
	c := store.Claim{Queue: "que_" + w.name, Now: cutEpoch}
	for range 1 + w.r.IntN(3) {
		c.Wants = append(c.Wants, store.Want{Token: fmt.Sprintf("lse_%s_%x", w.name, w.r.Uint64()), Consumer: "c", For: time.Hour})
	}
	return w.deed(deed{Kind: deedClaim}, func(d *deed) error {
		done, err := w.s.Claim(w.t.Context(), c)
		w.leases = append(w.leases, done.Leases...)
		for _, l := range done.Leases {
			d.Tokens, d.Events = append(d.Tokens, l.Token), append(d.Events, w.events[l.Event])
		}
		return err
	})
}

func (w *cutWorker) settle() error {
	l := w.leases[0]
	w.leases = w.leases[1:]
	return w.deed(deed{Kind: deedRecord, Events: []string{w.events[l.Event]}, Tokens: []string{l.Token}}, func(*deed) error {
		return w.change([]store.Change{{Delivery: l.Delivery, Status: grapnel.Delivered, At: cutEpoch, Lease: &store.Settlement{Token: l.Token}}})
	})
}

func (w *cutWorker) purge() error {
	return w.deed(deed{Kind: deedPurge}, func(*deed) error {
		_, err := w.s.Purge(w.t.Context(), store.Keep{Now: cutEpoch.Add(2 * time.Hour), For: 1000 * time.Hour,
			Rules: []store.KeepRule{{Type: cutOldType, For: time.Hour}}}, 1000)
		return err
	})
}
