package core

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestReserveKeepsTheEarliest: two reserves with one limit have the heads of a model, and count
// them together.
func TestReserveKeepsTheEarliest(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		all := &reserved{most: rapid.IntRange(1, 8).Draw(t, "most")}
		var both [2]reserve
		var model [2][]store.Head
		for i := range both {
			both[i] = reserve{all: all}
		}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "which")
			r, m := &both[i], &model[i]
			due := start.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "due")) * time.Second)
			switch rapid.IntRange(0, 9).Draw(t, "action") {
			case 0:
				r.cut(due)
				*m = slices.DeleteFunc(*m, func(h store.Head) bool { return h.Due.After(due) })
			case 1:
				r.clear()
				*m = nil
			case 2, 3:
				delivery := rapid.Int64Range(0, int64(n)).Draw(t, "delivery")
				r.remove(delivery)
				*m = slices.DeleteFunc(*m, func(h store.Head) bool { return h.Delivery == delivery })
			default:
				full := all.count == all.most
				h := store.Head{Delivery: int64(n), Due: due}
				left := r.add(h)
				*m = append(*m, h)
				slices.SortFunc(*m, func(a, b store.Head) int { return compareReserved(&a, &b) })
				if full != !left.IsZero() {
					t.Fatalf("full: %v, and it left out a head due at %v", full, left)
				}
				if full {
					last := len(*m) - 1
					if !(*m)[last].Due.Equal(left) {
						t.Fatalf("it left out a head due at %v, not at %v", left, (*m)[last].Due)
					}
					*m = (*m)[:last]
					if len(r.list) > 0 && r.by[r.list[len(r.list)-1].Delivery] == nil {
						t.Fatal("a head is in the list alone")
					}
				}
			}
			if n := len(model[0]) + len(model[1]); all.count != n || n > all.most {
				t.Fatalf("it counts %d of at most %d, and has %d", all.count, all.most, n)
			}
			if len(r.list) != len(*m) || len(r.by) != len(*m) {
				t.Fatalf("it has %d and %d heads, not %d", len(r.list), len(r.by), len(*m))
			}
			for at, h := range *m {
				if !r.list[at].Due.Equal(h.Due) || r.by[r.list[at].Delivery] != r.list[at] {
					t.Fatalf("head %d is due at %v, not at %v", at, r.list[at].Due, h.Due)
				}
			}
		}
	})
}

// TestReserveGivesMemoryBack: a reserve that was large and is small keeps little memory, and loses
// no head.
func TestReserveGivesMemoryBack(t *testing.T) {
	r := reserve{all: &reserved{most: 10_000}}
	for n := range int64(10_000) {
		r.add(store.Head{Delivery: n, Due: start.Add(time.Duration(n))})
	}
	for n := range int64(9_990) {
		r.remove(n)
	}
	if n := cap(r.list); n > 4*small || r.peak > 4*small {
		t.Errorf("space for %d heads, at most %d", n, r.peak)
	}
	for n := int64(9_990); n < 10_000; n++ {
		if h := r.first(); h == nil || h.Delivery != n || r.by[n] != h {
			t.Fatalf("the first is %+v, not %d", h, n)
		}
		r.remove(n)
	}
	if r.all.count != 0 || len(r.by) != 0 {
		t.Errorf("%d and %d heads are left", r.all.count, len(r.by))
	}
}

// stocked is a shop whose store has the deliveries that arrived and are not recorded, the oldest
// first. rows counts those that pages showed. A delivery whose attempt failed comes last.
func stocked(o Options) (s *shop, rows *int) {
	s, rows = newShop(o), new(int)
	done, low := map[int64]bool{}, int64(1)
	var failed []store.Head
	s.recorded = func(c store.Change) store.Changed {
		done[c.Delivery] = true
		is := store.Changed{Applied: true, Status: c.Status}
		if len(failed) > 0 && c.Delivery == failed[0].Delivery {
			failed = nil
		}
		if c.Status == grapnel.Pending {
			failed = []store.Head{{Delivery: c.Delivery, Event: c.Delivery, Endpoint: "ep", Due: c.Due, Anchor: start, CreatedAt: start,
				Trigger: grapnel.TriggerSchedule, Attempts: 1}}
			is.Next = &failed[0]
		}
		return is
	}
	s.page = func(limit int) (heads []store.Head) {
		for ; done[low]; low++ {
			delete(done, low)
		}
		for n := low; n <= s.next && len(heads) < limit; n++ {
			if !done[n] {
				heads = append(heads, store.Head{Delivery: n, Event: n, Endpoint: "ep", Due: start, Anchor: start, CreatedAt: start,
					Trigger: grapnel.TriggerSchedule})
			}
		}
		if len(heads) < limit {
			heads = append(heads, failed...)
		}
		*rows += len(heads)
		return heads
	}
	return s, rows
}

// TestBacklogIsNotReadBack: of a backlog as large as the reserve, only the regular polls read a
// page. What exceeds the reserve is read back.
func TestBacklogIsNotReadBack(t *testing.T) {
	const window, reserve = 64, 4096
	for _, c := range []struct{ backlog, most int }{{reserve, 10 * 2 * window}, {2 * reserve, 8 * reserve}} {
		s, rows := stocked(Options{Slots: 64, Bounds: Bounds{Window: window, Reserve: reserve}})
		s.endpoint("ep", "a", time.Second, 32)
		for range c.backlog / 64 {
			s.arrive("ep", 64)
		}
		s.run(time.Hour)
		if s.got["ep"] != c.backlog {
			t.Errorf("%d of %d were attempted", s.got["ep"], c.backlog)
		}
		if *rows > c.most {
			t.Errorf("backlog of %d: %d rows were read", c.backlog, *rows)
		}
		if s.core.reserved.count != 0 {
			t.Errorf("%d heads are still in the reserve", s.core.reserved.count)
		}
	}
}

// TestLostHintBehindABacklog: a delivery whose hint was lost is attempted although the reserve has
// later ones.
func TestLostHintBehindABacklog(t *testing.T) {
	s, _ := stocked(Options{Slots: 64, Bounds: Bounds{Window: 64, Reserve: 4096}})
	s.endpoint("ep", "a", time.Second, 32)
	s.arrive("ep", 1000)
	s.next++ // the lost one
	s.arrive("ep", 1000)
	s.run(time.Duration(2001/16+1)*time.Second + 31*time.Second)
	if s.got["ep"] != 2001 {
		t.Errorf("%d of 2001 were attempted", s.got["ep"])
	}
}

// TestRetryBehindABacklog: a poll that sees only a part of the backlog does not forget that a retry
// is in the store, which is due after the backlog.
func TestRetryBehindABacklog(t *testing.T) {
	s, _ := stocked(Options{Slots: 64, Bounds: Bounds{Window: 64, Reserve: 4096}})
	var drained, retried time.Duration
	s.outcome = func(a Attempt) policy.Outcome {
		if a.Head.Delivery == 1 && a.Number == 1 {
			return policy.Outcome{Status: 503, Class: policy.ClassStatus5xx, HasDelay: true, Delay: 75 * time.Second}
		}
		if a.Head.Delivery == 1 {
			retried = s.now.Sub(start)
		} else {
			drained = s.now.Sub(start)
		}
		return policy.Outcome{Status: 200, Class: policy.ClassNone}
	}
	s.endpoint("ep", "a", time.Second, 32)
	s.arrive("ep", 1600)
	s.run(time.Hour)
	if s.got["ep"] != 1601 || retried > drained+2*time.Second {
		t.Errorf("%d attempts of 1601; the last of the backlog after %s, the retry after %s", s.got["ep"], drained, retried)
	}
}

// TestReserveFollowsChanges: an order for a delivery in the reserve takes it out, and an endpoint
// that closes forgets its reserve.
func TestReserveFollowsChanges(t *testing.T) {
	s, _ := stocked(Options{Slots: 4, Bounds: Bounds{Window: 8, Reserve: 100}})
	s.endpoint("ep", "a", time.Second, 2)
	s.arrive("ep", 50)
	attempted := 0
	s.outcome = func(a Attempt) policy.Outcome {
		if a.Head.Delivery == 30 {
			attempted++
		}
		return policy.Outcome{Status: 200, Class: policy.ClassNone}
	}
	s.step(Operated{Order: store.Order{Verb: store.Skip, Endpoint: "ep", Delivery: 30, Event: 30, Created: start, Reason: "stuck"}})
	s.run(5 * time.Second)
	ep := s.core.endpoints["ep"]
	if len(ep.window.reserve.list) == 0 {
		t.Error("the reserve is empty")
	}
	paused := *ep.config
	paused.Status, paused.Revision = grapnel.EndpointPaused, 2
	s.step(Configured{Endpoint: &paused})
	if s.core.reserved.count != 0 || len(ep.window.reserve.list) != 0 || ep.window.cold.IsZero() {
		t.Errorf("closed, its reserve has %d heads, all have %d", len(ep.window.reserve.list), s.core.reserved.count)
	}
	resumed := paused
	resumed.Status, resumed.Revision = grapnel.EndpointEnabled, 3
	s.step(Configured{Endpoint: &resumed})
	s.run(time.Hour)
	if attempted != 0 || s.got["ep"] != 49 {
		t.Errorf("the skipped delivery was attempted %d times, and %d of 49 others", attempted, s.got["ep"])
	}
}
