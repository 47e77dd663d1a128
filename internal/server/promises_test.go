package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/tell/statuspage"
	"github.com/grapnelhq/grapnel/wire"
)

// watched is a sampler on the model store, whose clock and faults a test sets.
type watched struct {
	*promises
	clock  time.Time
	fault  atomic.Pointer[memory.Fault]
	logged bytes.Buffer
}

func newWatched(t *testing.T, db store.Store, node string, clock time.Time) *watched {
	t.Helper()
	w := &watched{clock: clock}
	faulty := &memory.Faulty{Store: db, Injure: func(method string) memory.Fault {
		if f := w.fault.Load(); f != nil && strings.Contains(method, "Document") {
			return *f
		}
		return memory.Fault{}
	}}
	p := newPromises(PromiseBounds{}, slog.New(slog.NewTextHandler(&w.logged, nil)), node)
	p.now = func() time.Time { return w.clock }
	p.docs = func() store.Documents { return faulty }
	p.unable = func() error { return nil }
	p.balances = func() (int64, int64) { return 0, 0 }
	p.pages = statuspage.NewPages(func() error { return nil }, api.Plainly, "")
	p.dir = filepath.Join(t.TempDir(), "status")
	w.promises = p
	return w
}

func (w *watched) publishes(good, bad int) {
	for range good {
		w.count(promise.Accept, true, time.Millisecond)
	}
	for range bad {
		w.count(promise.Accept, false, time.Millisecond)
	}
}

func (w *watched) availability() promise.Count {
	r := w.latest()
	return r.Of(promise.Availability).Count
}

// soon waits until something is so.
func soon(t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it does not become so")
		}
	}
}

var slotTime = time.Date(2026, 11, 23, 16, 58, 0, 0, time.UTC)

// TestCountsSurviveARestart: a node that starts again goes on in the same slot, two nodes are
// summed, and a kill loses the counts since the last round and no others.
func TestCountsSurviveARestart(t *testing.T) {
	ctx, db := t.Context(), memory.New()
	first := newWatched(t, db, "node_a", slotTime)
	first.publishes(200, 1)
	first.round(ctx)
	first.publishes(7, 0) // lost with the kill
	second := newWatched(t, db, "node_b", slotTime.Add(time.Minute))
	second.publishes(100, 2)
	second.round(ctx)
	if got := second.availability(); got != (promise.Count{Good: 300, Bad: 3}) {
		t.Errorf("after a kill %+v are counted", got)
	}
	third := newWatched(t, db, "node_c", slotTime.Add(4*time.Minute)) // in the next hour
	third.publishes(50, 0)
	third.round(ctx)
	second.publishes(10, 0)
	second.round(ctx)
	third.round(ctx)
	if got := third.availability(); got != (promise.Count{Good: 360, Bad: 3}) {
		t.Errorf("two nodes have counted %+v", got)
	}
	docs, err := db.DocumentList(ctx, store.Everyone(), store.DocumentQuery{Kind: sliKind, Limit: 100})
	if err != nil || len(docs) != 3 || docs[0].ID != "2026-11-23T16/node_a" || docs[0].Tenant != "" || docs[2].ID != "2026-11-23T17/node_c" {
		t.Errorf("the documents are %v %v", docs, err)
	}
	// Hours that are settled leave the memory of the node and stay in the history.
	for range 5 {
		third.clock = third.clock.Add(time.Hour)
		third.publishes(1, 0)
		third.round(ctx)
	}
	if got := third.availability(); got != (promise.Count{Good: 365, Bad: 3}) || len(third.own) > 2 || len(third.others) > 2 {
		t.Errorf("hours later %+v are counted, with %d and %d hours in memory", got, len(third.own), len(third.others))
	}
	// What no window reaches any more is deleted.
	third.clock = slotTime.Add(keptHours + 3*time.Hour)
	third.round(ctx)
	if docs, err := db.DocumentList(ctx, store.Everyone(), store.DocumentQuery{Kind: sliKind, Limit: 100}); err != nil || len(docs) > 6 || docs[0].ID < "2026-11-23T18" {
		t.Errorf("after a month the documents are %v %v", docs, err)
	}
}

// TestANodeThatWasAway: once a node's store calls work again, it has the counts that other nodes
// have stored since they failed.
func TestANodeThatWasAway(t *testing.T) {
	ctx, db := t.Context(), memory.New()
	here, there := newWatched(t, db, "node_a", slotTime), newWatched(t, db, "node_b", slotTime)
	here.publishes(100, 0)
	here.round(ctx)
	here.fault.Store(&memory.Fault{Err: errors.New("the database is away")})
	for range 5 {
		there.clock = there.clock.Add(time.Hour)
		there.publishes(100, 0)
		there.round(ctx)
	}
	here.clock = there.clock
	here.round(ctx)
	here.fault.Store(nil)
	here.round(ctx)
	if got := here.availability(); got != (promise.Count{Good: 600}) {
		t.Errorf("after it was away it counts %+v", got)
	}
}

// TestCountsAfterAClockAhead: a node whose clock was ahead reads the counts of the whole window
// again once it is right, its own and those that other nodes have stored meanwhile.
func TestCountsAfterAClockAhead(t *testing.T) {
	ctx, db := t.Context(), memory.New()
	here, there := newWatched(t, db, "node_a", slotTime), newWatched(t, db, "node_b", slotTime)
	here.publishes(100, 0)
	for range 5 {
		there.publishes(100, 0)
		there.round(ctx)
		here.clock = there.clock
		here.round(ctx)
		there.clock = there.clock.Add(time.Hour)
	}
	here.clock = there.clock.AddDate(1, 0, 0)
	here.cleared = here.clock // no purge is due: the clock does not decide when the next one is
	here.round(ctx)
	for range 5 {
		there.publishes(100, 0)
		there.round(ctx)
		there.clock = there.clock.Add(time.Hour)
	}
	here.clock = there.clock
	here.round(ctx)
	if got := here.availability(); got != (promise.Count{Good: 1100}) {
		t.Errorf("after its clock was ahead it counts %+v", got)
	}
}

// TestAnHourThatComesAgain: counts of an hour that was stored and forgotten, because the clock was
// ahead for a moment, are part of the hour once it goes on.
func TestAnHourThatComesAgain(t *testing.T) {
	ctx, db := t.Context(), memory.New()
	w := newWatched(t, db, "node_a", slotTime)
	w.publishes(100, 0)
	w.round(ctx)
	w.clock = slotTime.Add(3 * time.Hour)
	w.round(ctx)
	w.clock = slotTime.Add(time.Minute)
	for range 2 {
		w.publishes(10, 0)
		w.round(ctx)
	}
	next := newWatched(t, db, "node_b", slotTime.Add(time.Minute))
	next.round(ctx)
	for _, is := range []*watched{w, next} {
		if got := is.availability(); got != (promise.Count{Good: 120}) {
			t.Errorf("%s counts %+v", is.node, got)
		}
	}
}

// TestPageWhileTheStoreFails: the last page is served, counts go on in memory and are stored later,
// and the log says once that the store fails.
func TestPageWhileTheStoreFails(t *testing.T) {
	ctx, db := t.Context(), memory.New()
	w := newWatched(t, db, "node_a", slotTime)
	in := wire.Incident{ID: "inc_1", Kind: "incident", Title: "Publishing is slow", Status: "identified",
		Impact: "degraded", StartsAt: slotTime}
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.PutDocuments(ctx, store.Everyone(),
		[]store.DocumentWrite{{Document: store.Document{Kind: incidentKind, ID: in.ID, At: slotTime,
			Body: body}}}, store.With{}); err != nil {
		t.Fatal(err)
	}
	w.publishes(150, 0)
	w.round(ctx)
	w.fault.Store(&memory.Fault{Err: errors.New("the database is away")})
	for range 3 {
		w.publishes(10, 10)
		w.round(ctx)
	}
	files, err := w.pages.Now()
	if err != nil || !bytes.Contains(files.HTML, []byte("We are working on an incident: Publishing is slow")) ||
		!bytes.Contains(files.HTML, []byte("Budget used up")) && !bytes.Contains(files.HTML, []byte("budget used up")) {
		t.Errorf("while the store fails the page is %s %v", files.HTML, err)
	}
	if got := w.availability(); got != (promise.Count{Good: 180, Bad: 30}) {
		t.Errorf("in memory are %+v", got)
	}
	// A commit whose answer is lost is found at the next round.
	w.fault.Store(&memory.Fault{Err: fmt.Errorf("reset: %w", store.ErrUnknown), Applied: true})
	w.round(ctx)
	w.fault.Store(nil)
	for range 2 {
		w.publishes(1, 0)
		w.round(ctx)
	}
	again := newWatched(t, db, "node_b", slotTime)
	again.round(ctx)
	if got := again.availability(); got != (promise.Count{Good: 182, Bad: 30}) {
		t.Errorf("stored are %+v", got)
	}
	if log := w.logged.String(); strings.Count(log, "failed") != 1 || strings.Count(log, "stored again") != 1 {
		t.Errorf("the log is %s", log)
	}
	// A process that starts while the database is away serves the page of the last one.
	w.fault.Store(nil)
	late := newWatched(t, db, "node_c", slotTime)
	late.dir = w.dir
	late.fault.Store(&memory.Fault{Err: errors.New("away")})
	late.restore()
	late.round(ctx)
	if files, err := late.pages.Now(); err != nil || !bytes.Contains(files.HTML, []byte("Publishing is slow")) {
		t.Errorf("the page of before is not served: %s %v", files.HTML, err)
	}
}

// TestAnOldOpenIncident: an open incident is on the page, however many newer ones there are.
func TestAnOldOpenIncident(t *testing.T) {
	db := memory.New()
	w := newWatched(t, db, "node_a", slotTime)
	var writes []store.DocumentWrite
	for i := range 600 {
		in := wire.Incident{ID: fmt.Sprintf("inc_%03d", i), Kind: "incident", Title: "Short", Status: "resolved", StartsAt: slotTime,
			EndsAt: &slotTime}
		if i == 0 {
			in.Title, in.Status, in.EndsAt = "Publishing is slow", "identified", nil
		}
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		writes = append(writes, store.DocumentWrite{Document: store.Document{Kind: incidentKind, ID: in.ID, At: slotTime, Body: body}})
	}
	if _, err := db.PutDocuments(t.Context(), store.Everyone(), writes, store.With{}); err != nil {
		t.Fatal(err)
	}
	w.round(t.Context())
	if files, err := w.pages.Now(); err != nil || !bytes.Contains(files.HTML, []byte("We are working on an incident: Publishing is slow")) {
		t.Errorf("the incident is not on the page: %v", err)
	}
}

// TestStatusPageOfAServer: publishes and incidents are on the page, nothing of a
// tenant is, and a restart keeps the counts.
func TestStatusPageOfAServer(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.Bounds.Promises.Every = 50 * time.Millisecond
	opened, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, opened)
	key, err := os.ReadFile(s.AdminKey().Path)
	if err != nil {
		t.Fatal(err)
	}
	c := s.client(t, strings.TrimSpace(string(key)))
	ctx := t.Context()
	const tenant, address = "tenant-of-nobodys-business", "https://receiver.of.nobodys.business/hooks"
	if _, err := c.CreateEndpoint(ctx, client.NewEndpoint{URL: address, Tenant: tenant,
		Description: "endpoint-of-nobodys-business"}); err != nil {
		t.Fatal(err)
	}
	for range 120 {
		if _, err := c.Publish(ctx, client.NewEvent{Type: "type.of.nobodys.business", Tenant: tenant, Data: json.RawMessage(`1`)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.OpenIncident(ctx, client.NewIncident{Title: "Publishing is slow", Text: "We look into it."}); err != nil {
		t.Fatal(err)
	}
	count := func(c *client.Client) (n int64) {
		t.Helper()
		slo, err := c.SLO(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(slo.Promises) > 0 {
			n = slo.Promises[0].Good
		}
		return n
	}
	soon(t, func() bool {
		page, err := c.StatusFile(ctx, "status")
		return err == nil && bytes.Contains(page, []byte("We are working on an incident: Publishing is slow")) && count(c) == 120
	})
	// Prometheus gets the same counts.
	m := member{running: s}
	soon(t, func() bool {
		report := s.promises.latest()
		return !slices.ContainsFunc(report.Promises, func(v promise.Verdict) bool {
			name := `grapnel_promise_events_total{promise="` + v.Name + `",result=`
			return m.measured(t, name+`"good"}`) != float64(v.Good) || m.measured(t, name+`"bad"}`) != float64(v.Bad)
		})
	})
	for _, name := range []string{"status", "status.json", "status.rss", "status.svg"} {
		text, err := c.StatusFile(ctx, name)
		if err != nil || bytes.Contains(text, []byte("nobodys")) || bytes.Contains(text, []byte("ep_")) || len(text) < 200 {
			t.Errorf("%s: %v %s", name, err, text)
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if opened, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s = run(t, opened)
	c = s.client(t, strings.TrimSpace(string(key)))
	soon(t, func() bool { return count(c) == 120 })
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	o.NoStatusPage = true
	if opened, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s = run(t, opened)
	if status, _ := page(t, s, "/status"); status != 404 {
		t.Errorf("a page that is switched off is answered %d", status)
	}
}
