package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestAWithdrawnAttemptIsNoFault: a node releases its shard while an attempt connects. The attempt
// is not sent, and the next owner makes it: that is no error.
func TestAWithdrawnAttemptIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, peers, c := &logged{}, neighbours{}, &company{estate: &estate{}}
		b := &bench{t: t, store: memory.New(), net: pipenet.New()}
		sender := egress.New(egress.Options{Node: "n1", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(5 * time.Second)
			return b.net.Dial(ctx, network, address)
		}})
		b.tune = func(o *Options) {
			o.Sender, o.Log = sender, slog.New(slog.NewTextHandler(log, nil))
			o.Cluster = &ownership.Options{Ownership: c, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: peers}
		}
		b.start(core.Options{})
		peers[""] = b.engine
		defer sender.Close()
		defer b.net.Close()
		time.Sleep(leaseHere)
		r := &receiver{}
		b.endpoint("ep", r, nil)
		b.publish("", 1)
		time.Sleep(time.Second)
		c.mu.Lock()
		c.others = []store.Node{{ID: "one"}} // it takes the shard
		c.mu.Unlock()
		b.halt()
		if n, lines := len(r.log()), log.lines("level=ERROR"); n != 0 || len(lines) != 0 {
			t.Errorf("%d requests, logged %q", n, lines)
		}
	})
}

// unread is a store that reads no event while a caller waits.
type unread struct{ store.Store }

func (unread) Events(ctx context.Context, _ []int64) ([]*grapnel.Event, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestADrainTimeoutIsOneLine: attempts that the drain timeout ends before their events were read
// are in its one line and no errors of their own.
func TestADrainTimeoutIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, log := newLoggedBench(t, unread{memory.New()})
		b.endpoint("ep", &receiver{}, nil)
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointPaused })
		b.publish("", 3)
		b.engine.events.age()
		b.engine.events.age()
		b.update("ep", func(ep *grapnel.Endpoint) { ep.Status = grapnel.EndpointEnabled })
		time.Sleep(time.Minute)
		b.close()
		if late, failed := log.lines("drain timeout", "attempts="), log.lines("level=ERROR"); len(late) != 1 || len(failed) != 0 {
			t.Errorf("logged %q and %q", late, failed)
		}
	})
}

// TestADrainTimeoutWithoutAttempts: if only outcomes are left at the drain timeout, no attempt is
// abandoned and the log does not say so.
func TestADrainTimeoutWithoutAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		b, log := newLoggedBench(t, &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
			if method != "Record" || !broken.Load() {
				return memory.Fault{}
			}
			return memory.Fault{Err: io.ErrUnexpectedEOF}
		}})
		defer b.net.Close()
		b.endpoint("ep", &receiver{}, nil)
		broken.Store(true)
		b.publish("", 1)
		time.Sleep(time.Second)
		b.stop()
		time.Sleep(2 * b.engine.drain)
		broken.Store(false)
		b.halt()
		if late := log.lines("drain timeout"); len(late) != 0 || b.only("ep").Status != grapnel.Delivered {
			t.Errorf("logged %q; the delivery is %s", late, b.only("ep").Status)
		}
	})
}

// fencing is a store in which another node owns the endpoint as soon as its circuit is to open.
type fencing struct{ store.Store }

func (s fencing) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	for i := range changes {
		if st := changes[i].Standing; st != nil && st.Open() {
			all := make([]store.Changed, len(changes))
			for i := range all {
				all[i].Fenced = true
			}
			return all, nil
		}
	}
	return s.Store.Record(ctx, changes)
}

// TestACircuitThatIsNotRecordedIsNotLogged: the store refuses the outcome that opens a circuit,
// because another node owns the endpoint. That node logs and counts the circuit, this one does not.
func TestACircuitThatIsNotRecordedIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, log := newLoggedBench(t, fencing{memory.New()})
		defer b.close()
		r := &receiver{then: status(http.StatusServiceUnavailable)}
		b.endpoint("ep", r, nil)
		b.publish("", 10)
		time.Sleep(time.Minute)
		if lines := log.lines("circuit opened"); len(lines) != 0 || len(r.log()) == 0 {
			t.Errorf("%d requests, logged %q", len(r.log()), lines)
		}
		if opened := read(t, b.engine, "grapnel_breaker_transitions_total"); opened[toOpen] != 0 {
			t.Errorf("counted %v", opened)
		}
	})
}

// TestAChangeOfAnEndedEngineIsDone: a request that is being answered while the server stops changes
// the configuration. The engine attempts nothing any more, so the change has taken effect.
func TestAChangeOfAnEndedEngineIsDone(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.stop()
		b.done.Wait()
		b.endpoint("ep", &receiver{}, nil)
		if b.engine.Settled().At("ep") == nil {
			t.Error("the change has not taken effect")
		}
	})
}

// TestAChangeOnAStoppingNodeIsConfirmed: the other node applies the change at once, so nothing has
// to be waited for.
func TestAChangeOnAStoppingNodeIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := neighbours{}
		b := newTunedBench(t, memory.New(), func(o *Options) {
			c := &company{estate: &estate{}, others: []store.Node{{ID: "one"}}}
			o.Cluster = &ownership.Options{Ownership: c, Node: store.Node{ID: "me"}, Lease: leaseHere, Peers: peers}
		})
		peers[""] = b.engine
		defer b.close()
		time.Sleep(leaseHere)
		b.stop()
		b.done.Wait()
		for i := range 20 {
			b.endpoint(fmt.Sprint("ep", i), &receiver{}, nil)
		}
	})
}

// undocumented is a store that answers nothing about documents.
type undocumented struct{ store.Store }

func (undocumented) Document(ctx context.Context, _ store.Scope, _, _, _ string) (store.Document, error) {
	<-ctx.Done()
	return store.Document{}, ctx.Err()
}

// TestDuplicatesDelayAStopOnce: a store that does not answer delays a stop by one limit of time and
// not by one for each tenant, and is one line in the log.
func TestDuplicatesDelayAStopOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, log := newLoggedBench(t, undocumented{memory.New()})
		for _, tenant := range []string{"a", "b", "c"} {
			b.engine.repeated.add(&grapnel.Event{ID: "evt_1", Tenant: tenant, AcceptedAt: time.Now()}, "")
		}
		began := time.Now()
		b.close()
		if took, lines := time.Since(began), log.lines("duplicates not recorded"); took > b.engine.bounds.Duplicates.Every || len(lines) != 1 {
			t.Errorf("stopping took %v; logged %q", took, lines)
		}
	})
}
