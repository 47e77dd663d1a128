//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// trial is one server with receivers, publishers and a ledger, from the first event to the verdict.
type trial struct {
	t         testing.TB
	dice      *dice
	ledger    *ledger
	receivers *receivers
	child     *child
	targets   []*target
	load      *load
	limits    history.Limits
	kills     atomic.Int64
	quiet     time.Duration          // at the verdict, how long it took until no delivery was pending
	rename    func(*history.History) // nil, or replaces ids in the history by the final ones
	confess   func()                 // nil, or records the faults that only the servers' logs tell, once all is quiet
	watcher   *site                  // gets operational events about the other endpoints; nil: none
	watching  string                 // the id of its endpoint
}

// newTrial starts a server and creates the endpoints.
func newTrial(t testing.TB, p program, targets func(*dice) []*target) *trial {
	t.Helper()
	x := &trial{t: t, dice: newDice(t), ledger: newLedger(t),
		// The machine may be busy: an fsync waits behind others, a thread waits for a core.
		limits: history.Limits{Commit: time.Second, Transit: 500 * time.Millisecond}}
	if p.tiny {
		x.limits.Commit = 5 * time.Second // a commit takes few outcomes, so hundreds of them queue after a start
	}
	x.receivers = newReceivers(t, x.ledger)
	x.child = newChild(t, p.bounded(t, x.dice), t.TempDir())
	x.targets = targets(x.dice)
	x.child.start()
	x.child.ready(30 * time.Second)
	for _, target := range x.targets {
		var secret string
		target.rules.ID, secret = x.child.endpoint(x.receivers.url(target.name), target.create)
		x.receivers.add(target, secret)
	}
	x.load = &load{t: t, child: x.child, ledger: x.ledger, dice: x.dice, targets: x.targets, every: 40 * time.Millisecond, batch: true,
		resolve: 60 * time.Second}
	return x
}

// watch adds an endpoint that is notified of dead letters.
func (x *trial) watch() {
	x.t.Helper()
	x.watcher = newSite()
	x.watcher.keeps = true
	x.watching, _ = x.child.endpoint("http://"+newDoor(x.t, "127.0.13.1", x.watcher).addr+"/",
		map[string]any{"event_types": []string{"webhook_endpoint.*"}})
}

// heard checks that the watcher got exactly one event per dead letter, and nothing else.
func (x *trial) heard(finals []history.Final) {
	x.t.Helper()
	told := map[string]map[string]bool{} // the events about a delivery
	for _, v := range x.watcher.seen(0) {
		var e struct {
			ID, Type string
			Data     struct {
				DeliveryID string `json:"delivery_id"`
			}
		}
		if err := json.Unmarshal(v.body, &e); err != nil || e.Type != grapnel.EventDeliveryFailed {
			x.t.Errorf("the watcher was sent %s", v.body)
			continue
		}
		if told[e.Data.DeliveryID] == nil {
			told[e.Data.DeliveryID] = map[string]bool{}
		}
		told[e.Data.DeliveryID][e.ID] = true
	}
	dead := 0
	for _, f := range finals {
		if f.Status == grapnel.Failed {
			dead++
			if n := len(told[f.Delivery]); n != 1 {
				x.t.Errorf("of the dead letter %s the watcher was told by %d events", f.Delivery, n)
			}
		}
	}
	if len(told) != dead {
		x.t.Errorf("there are %d dead letters; the watcher was told of %d", dead, len(told))
	}
	x.t.Logf("the watcher was told of each of %d dead letters", dead)
}

// under runs the scenario while publishers work, and returns when the last of them has ended.
func (x *trial) under(publishers int, scenario func(ctx context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.load.run(ctx, publishers)
	}()
	scenario(ctx)
	stop()
	<-done
}

// killNow kills the server and records the fault: from just before the signal until the end of the
// process.
func (x *trial) killNow() {
	fault := history.Fault{Kind: history.Crash, Start: x.ledger.now()}
	x.child.kill()
	fault.End = x.ledger.now()
	x.ledger.write(entry{Fault: &fault})
	x.kills.Add(1)
}

// operate repeats an operator's call until the server has answered, and records each try.
func (x *trial) operate(ctx context.Context, kind history.Kind, target *target, want int, call func(context.Context) (int, []byte, error)) {
	poll(ctx, time.Minute, 50*time.Millisecond, func() bool {
		a := history.Action{Kind: kind, Endpoint: target.rules.ID, Invoke: x.ledger.now()}
		status, body, err := call(ctx)
		a.Return = x.ledger.now()
		switch {
		case err == nil && (status == want || kind == history.Delete && status == http.StatusNotFound):
		case neverSent(err):
			return false
		case err != nil || status >= 500:
			a.Result = history.Unknown
		default:
			x.t.Errorf("%s of endpoint %s: %d %s", kind, target.name, status, body)
		}
		x.ledger.write(entry{Action: &a})
		return a.Result == history.OK
	})
}

func (x *trial) set(ctx context.Context, kind history.Kind, target *target, status string) {
	x.operate(ctx, kind, target, http.StatusOK, func(ctx context.Context) (int, []byte, error) {
		return x.child.call(ctx, http.MethodPatch, "/v1/endpoints/"+target.rules.ID, map[string]any{"status": status})
	})
}

func (x *trial) remove(ctx context.Context, target *target) {
	x.operate(ctx, history.Delete, target, http.StatusNoContent, func(ctx context.Context) (int, []byte, error) {
		return x.child.call(ctx, http.MethodDelete, "/v1/endpoints/"+target.rules.ID, nil)
	})
}

// verdict heals all receivers, waits until no delivery is pending, and compares the ledger with the
// server's state.
func (x *trial) verdict(within time.Duration) []history.Violation {
	x.t.Helper()
	x.receivers.healed.Store(true)
	start := x.ledger.now()
	if !x.child.quiesce(within, x.ledger.lines) {
		x.t.Logf("some deliveries still wait although everything was healed %v ago", x.ledger.now()-start)
	}
	x.quiet = x.ledger.now() - start
	if x.confess != nil {
		x.confess()
	}
	h, err := x.ledger.read()
	if err != nil {
		x.t.Fatal(err)
	}
	for _, target := range x.targets {
		h.Endpoints = append(h.Endpoints, target.rules)
	}
	h.Finals, h.Limits = x.child.finals(), x.limits
	if x.watcher != nil {
		h.Finals = slices.DeleteFunc(h.Finals, func(f history.Final) bool { return f.Endpoint == x.watching })
		x.heard(h.Finals)
	}
	named(&h)
	leave(&h)
	if x.rename != nil {
		x.rename(&h)
	}
	h.Terms = terms(slices.DeleteFunc(slices.Clone(h.Receipts), h.Rewound)) // the epochs of a lost past come again
	found := history.Check(h)
	x.report(h)
	return found
}

// terms are when receivers first saw an epoch: every earlier epoch had ended by then.
func terms(receipts []history.Receipt) (all []history.Term) {
	type one struct {
		endpoint string
		epoch    int64
	}
	first := map[one]time.Duration{}
	for _, r := range receipts {
		of := one{r.Endpoint, r.Epoch}
		if began, ok := first[of]; r.Epoch > 0 && (!ok || r.Start < began) {
			first[of] = r.Start
		}
	}
	for of, began := range first {
		all = append(all, history.Term{Endpoint: of.endpoint, Epoch: of.epoch, Start: began})
	}
	return all
}

// convict fails the test for each violation, up to a number that a reader can take in.
func (x *trial) convict(found []history.Violation) {
	x.t.Helper()
	count := map[history.Rule]int{}
	for _, v := range found {
		count[v.Rule]++
	}
	if len(found) > 0 {
		x.t.Logf("violations: %v", count)
	}
	for i, v := range found {
		if i == 20 {
			x.t.Errorf("… and %d more violations", len(found)-i)
			break
		}
		x.t.Error(v)
	}
}

// leave removes deleted endpoints from the list of those that an event must reach, if it was
// published during or after the deletion.
func leave(h *history.History) {
	for _, a := range h.Actions {
		if a.Kind != history.Delete {
			continue
		}
		for i := range h.Publishes {
			p := &h.Publishes[i]
			at := slices.Index(p.Endpoints, a.Endpoint)
			if p.Result == history.Failed || p.Result == history.OK && p.Return < a.Invoke {
				continue
			}
			if at >= 0 {
				p.Endpoints = slices.Delete(p.Endpoints, at, at+1)
				p.Perhaps = append(p.Perhaps, a.Endpoint)
			}
			if a.Result == history.OK && p.Invoke > a.Return {
				p.Perhaps = slices.DeleteFunc(p.Perhaps, func(id string) bool { return id == a.Endpoint })
			}
		}
	}
}

// report logs the figures of the run: a run without faults and events proves nothing.
func (x *trial) report(h history.History) {
	x.t.Helper()
	statuses := map[string]int{}
	for _, f := range h.Finals {
		statuses[string(f.Status)]++
	}
	took := map[string]int{}
	repeated := 0
	for _, r := range h.Receipts {
		if r.Status/100 == 2 && !r.AnswerLost {
			if took[r.Delivery]++; took[r.Delivery] == 2 {
				repeated++
			}
		}
	}
	text := ""
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		text += fmt.Sprintf(", %d %s", statuses[status], status)
	}
	x.t.Logf("%d kills, %d events accepted, %d publishes unknown, %d requests received, %d deliveries repeated after a kill%s; quiet after %v",
		x.kills.Load(), x.load.accepted.Load(), x.load.unknown.Load(), len(h.Receipts), repeated, text, x.quiet.Round(time.Millisecond))
}
