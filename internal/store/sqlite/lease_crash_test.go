package sqlite

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// ledgerOfLeases is the consumers' knowledge: the leases granted, the settlements begun, and the
// settlements acknowledged.
type ledgerOfLeases struct {
	mu             sync.Mutex
	granted        map[string]int64 // deliveries by token
	settling, done map[string]bool
}

func (l *ledgerOfLeases) note(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

func (l *ledgerOfLeases) settled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.done)
}

// TestLeasesCopiedInTheMiddle copies the files while consumers claim and settle, in the state that
// a killed process leaves. Every lease granted before, and not being settled, is in the copy; a
// delivery whose settlement was acknowledged is finished there, and its token is invalid.
func TestLeasesCopiedInTheMiddle(t *testing.T) {
	s, path := openNew(t)
	s.checkpoints.at = 1 << 40 // no checkpoint: the copy of two files during a checkpoint differs from the state after a kill
	messages := 20_000
	if slow() {
		messages = 5000
	}
	now := queued(t, s, messages, func(i int) string {
		if i%2 == 0 {
			return ""
		}
		return fmt.Sprint("k", i/10)
	})
	known := &ledgerOfLeases{granted: map[string]int64{}, settling: map[string]bool{}, done: map[string]bool{}}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for p := range 4 {
		all.Go(func() { takeAndSettle(ctx, t, s, known, p, now) })
	}
	type copied struct {
		path    string
		granted map[string]int64
		settled map[string]bool
	}
	var copies []copied
	for range 4 {
		began := known.settled()
		until(t, "progress", func() bool { return known.settled() >= began+40 || t.Failed() })
		var c copied
		c.path = killed(t, s, path, "", func() {
			known.note(func() { c.granted, c.settled = maps.Clone(known.granted), maps.Clone(known.done) })
		})
		known.note(func() {
			for token := range known.settling {
				if !c.settled[token] {
					delete(c.granted, token) // the copy may or may not contain its settlement
				}
			}
		})
		copies = append(copies, c)
	}
	stop()
	all.Wait()
	if slow() {
		copies = copies[3:]
	}
	for _, c := range copies {
		inspectLeases(t, c.path, c.granted, c.settled)
	}
}

// takeAndSettle claims three at a time and settles two of them.
func takeAndSettle(ctx context.Context, t *testing.T, s *Store, known *ledgerOfLeases, p int, now time.Time) {
	for i := 0; ctx.Err() == nil; i++ {
		c := store.Claim{Queue: "que", Now: now}
		for j := range 3 {
			c.Wants = append(c.Wants, store.Want{Token: fmt.Sprintf("lse_%d_%d_%d", p, i, j), Consumer: fmt.Sprint("c", p), For: time.Hour})
		}
		done, err := s.Claim(t.Context(), c)
		if err != nil || len(done.Over) > 0 {
			t.Errorf("claim: %+v, %v", done, err)
			return
		}
		if len(done.Leases) == 0 {
			return
		}
		known.note(func() {
			for _, l := range done.Leases {
				known.granted[l.Token] = l.Delivery
			}
		})
		for _, l := range done.Leases[:len(done.Leases)-1] {
			known.note(func() { known.settling[l.Token] = true })
			is, err := s.Record(t.Context(), []store.Change{{Delivery: l.Delivery, Status: grapnel.Delivered, At: now,
				Lease: &store.Settlement{Token: l.Token}}})
			if err != nil || !is[0].Applied {
				t.Errorf("record: %+v, %v", is, err)
				return
			}
			known.note(func() { known.done[l.Token] = true })
		}
	}
}

func inspectLeases(t *testing.T, path string, granted map[string]int64, settled map[string]bool) {
	t.Helper()
	s, err := Open(t.Context(), path, Options{Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for token, delivery := range granted {
		l, err := s.Lease(t.Context(), token)
		if !settled[token] {
			if err != nil || l.Delivery != delivery {
				t.Errorf("%s was granted for %d: %+v, %v", token, delivery, l, err)
			}
			continue
		}
		d, missing := s.Delivery(t.Context(), store.Everyone(), delivery)
		if grapnel.CodeOf(err) != grapnel.CodeNotFound || missing != nil || d.Status != grapnel.Delivered {
			t.Errorf("%s was settled, and delivery %d is %+v: %v, %v", token, delivery, d, err, missing)
		}
	}
	list, err := s.LeaseList(t.Context(), "que", 1<<30)
	if err != nil || len(list) == 0 {
		t.Fatalf("%d leases: %v", len(list), err)
	}
	deliveries := make(map[int64]bool)
	for _, l := range list {
		if deliveries[l.Delivery] || settled[l.Token] {
			t.Errorf("a second lease for a delivery, or one that was settled: %+v", l)
		}
		deliveries[l.Delivery] = true
	}
	if n, err := s.QueueCounts(t.Context(), "que", list[0].GrantedAt); err != nil || n.Leased != int64(len(list)) {
		t.Errorf("%d leases, counted %+v: %v", len(list), n, err)
	}
}
