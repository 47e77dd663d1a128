package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// choosy is a store that refuses some changes for good, and with them the whole transaction.
type choosy struct {
	store.Store
	refuses func(*store.Change) bool

	mu      sync.Mutex
	commits int
}

func (s *choosy) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	time.Sleep(20 * time.Millisecond) // so that changes pile up
	s.mu.Lock()
	s.commits++
	s.mu.Unlock()
	for i := range changes {
		if s.refuses(&changes[i]) {
			return nil, &grapnel.Error{Code: grapnel.CodeInvalid, Detail: "the database cannot keep this"}
		}
	}
	return s.Store.Record(ctx, changes)
}

// logged is a log that can be read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// lines are those that contain all of some texts.
func (l *logged) lines(texts ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.text.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// newLoggedBench is a bench with a log that can be read.
func newLoggedBench(t *testing.T, s store.Store) (*bench, *logged) {
	var log logged
	return newTunedBench(t, s, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }), &log
}

// TestOneChangeThatIsRefused holds up no other, whatever of it is refused, and does not keep Run
// from returning.
func TestOneChangeThatIsRefused(t *testing.T) {
	const n, bad = 300, 137
	for name, c := range map[string]struct {
		refuses func(*store.Change) bool
		status  grapnel.Status
		code    grapnel.ReasonCode
		reason  string
	}{
		"its texts": {func(ch *store.Change) bool {
			return !strings.HasPrefix(ch.Reason, withoutTexts) && ch.ReasonCode != grapnel.ReasonDamaged
		},
			grapnel.Delivered, "", withoutTexts},
		"its attempt": {func(ch *store.Change) bool { return ch.Attempt != nil }, grapnel.Failed, grapnel.ReasonDamaged, endedDamaged},
		"what it says": {func(ch *store.Change) bool { return ch.Attempt != nil || ch.Operational != nil },
			grapnel.Failed, grapnel.ReasonDamaged, endedDamaged},
		"all of it": {func(*store.Change) bool { return true }, grapnel.Pending, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &choosy{Store: memory.New(), refuses: func(ch *store.Change) bool { return ch.Delivery == bad && c.refuses(ch) }}
				b, log := newLoggedBench(t, s)
				r := &receiver{}
				b.endpoint("ep", r, nil)
				b.watcher("w", nil)
				b.publish("", n)
				time.Sleep(time.Minute)
				for _, d := range b.deliveries("ep") {
					switch {
					case d.Seq != bad && d.Status != grapnel.Delivered:
						t.Errorf("another one is %s", d.Status)
					case d.Seq == bad && (d.Status != c.status || d.ReasonCode != c.code || d.Reason != c.reason):
						t.Errorf("it is %s: %s, %s", d.Status, d.ReasonCode, d.Reason)
					}
				}
				damaged := 1.0
				if name == "all of it" {
					damaged = 0
				}
				if got := b.value(b.engine.metrics.damaged); got != damaged {
					t.Errorf("%v are counted as damaged", got)
				}
				id := b.store.IDs().Delivery(b.deliveries("ep")[bad-1].CreatedAt, bad)
				if lines := log.lines("level=ERROR", id); len(lines) != 1 {
					t.Errorf("its lines are %q", lines)
				}
				if got := len(r.log()); got != n {
					t.Errorf("%d requests", got)
				}
				s.mu.Lock()
				if name != "all of it" && s.commits > 60 {
					t.Errorf("%d commits", s.commits)
				}
				s.mu.Unlock()
				stopped := time.Now()
				b.close()
				if took := time.Since(stopped); took > 10*time.Second {
					t.Errorf("stopping took %v", took)
				}
			})
		})
	}
}

// TestAnOrderThatIsRefusedForItsText is carried out without it.
func TestAnOrderThatIsRefusedForItsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &choosy{Store: memory.New(), refuses: func(ch *store.Change) bool {
			return strings.ContainsRune(ch.Reason, 0) || ch.Audit != nil && strings.ContainsRune(ch.Audit.Reason, 0)
		}}
		b, _ := newLoggedBench(t, s)
		defer b.close()
		b.endpoint("away", &receiver{then: status(500)}, nil)
		b.publish("", 1)
		time.Sleep(time.Second)
		err := b.engine.Skip(context.Background(), store.Everyone(), b.only("away").Seq, grapnel.By{Actor: "key", Reason: "\x00"})
		if d := b.only("away"); err != nil || d.Status != grapnel.Skipped {
			t.Errorf("it is %s: %v", d.Status, err)
		}
		audit, err := b.store.AuditList(context.Background(), store.Everyone(), store.AuditQuery{Limit: 10})
		if err != nil || len(audit) != 1 || audit[0].Verb != grapnel.VerbSkip {
			t.Errorf("%v, %v", audit, err)
		}
	})
}

// TestAStoreThatRefusesMany still gets all others, and ends.
func TestAStoreThatRefusesMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &choosy{Store: memory.New(), refuses: func(ch *store.Change) bool { return ch.Delivery%3 == 0 && ch.Attempt != nil }}
		b, _ := newLoggedBench(t, s)
		defer b.close()
		b.endpoint("ep", &receiver{}, nil)
		for i := range 90 {
			b.publish(fmt.Sprint(i%9), 1)
		}
		time.Sleep(10 * time.Minute)
		for _, d := range b.deliveries("ep") {
			if want := map[bool]grapnel.Status{true: grapnel.Failed, false: grapnel.Delivered}[d.Seq%3 == 0]; d.Status != want {
				t.Errorf("%d is %s", d.Seq, d.Status)
			}
		}
	})
}

// slowly is a store whose commits take long.
type slowly struct{ *choosy }

func (s slowly) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	time.Sleep(time.Second)
	return s.choosy.Record(ctx, changes)
}

// TestFindingARefusedChangeIsNoStandstill: many slow commits in a row find the change that the
// store refuses. The loop moves all that time, so its node keeps its shards.
func TestFindingARefusedChangeIsNoStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		s := slowly{&choosy{Store: memory.New(), refuses: func(ch *store.Change) bool { return ch.Delivery == 137 && ch.Attempt != nil }}}
		b := newTunedBench(t, s, func(o *Options) {
			o.Log = slog.New(slog.NewTextHandler(log, nil))
			o.Cluster = &ownership.Options{Ownership: &estate{}, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: neighbours{}}
		})
		defer b.close()
		time.Sleep(leaseHere)
		b.endpoint("ep", &receiver{}, nil)
		b.publish("", 300)
		time.Sleep(5 * time.Minute)
		if lines := log.lines("stands still"); len(lines) != 0 || b.value(b.engine.metrics.damaged) != 1 {
			t.Errorf("%v are damaged; logged %q", b.value(b.engine.metrics.damaged), lines)
		}
	})
}
