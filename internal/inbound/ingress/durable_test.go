package ingress

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
)

// station is a receiver on a running engine with a real store.
type station struct {
	receiver *Receiver
	engine   *engine.Engine
	store    store.Store
	close    func()
}

// openStation opens a station. Stopping it closes the store.
func openStation(t testing.TB, kept store.Store) *station {
	t.Helper()
	sender := egress.New(egress.Options{})
	patient := engine.Bounds{Admission: engine.AdmissionBounds{LongCommit: time.Minute}} // a commit may wait for a processor
	e, err := engine.New(t.Context(), engine.Options{Bounds: patient, Store: kept, Sender: sender})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	done.Go(func() { e.Run(running) })
	s := &station{receiver: New(Options{Bounds: under, Engine: e, Store: kept}), engine: e, store: kept}
	s.close = sync.OnceFunc(func() {
		stop()
		done.Wait()
		sender.Close()
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.close)
	return s
}

func openSQLite(t testing.TB, path string) store.Store {
	t.Helper()
	kept, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// put creates a source.
func (s *station) put(t testing.TB, src grapnel.Source) {
	t.Helper()
	if faults := CheckSource(&src); len(faults) > 0 {
		t.Fatal(faults)
	}
	if _, err := s.engine.PutSource(t.Context(), store.Everyone(), src, store.With{}); err != nil {
		t.Fatal(err)
	}
}

func numbered(id string) grapnel.Source {
	return grapnel.Source{ID: id, Tenant: "acme", Name: id, Verify: grapnel.Verify{Scheme: "none", IDHeader: "X-Id"},
		Dedupe: grapnel.Dedupe{By: everyKind, Window: time.Hour}}
}

func (s *station) send(t testing.TB, source, body string, headers ...string) answered {
	t.Helper()
	rec := httptest.NewRecorder()
	s.receiver.Take(rec, request(http.MethodPost, "/in/"+source, body, headers...), source)
	a := answered{status: rec.Code, body: rec.Body.String()}
	if err := json.Unmarshal(rec.Body.Bytes(), &a); err != nil {
		t.Errorf("%q: %v", a.body, err)
	}
	return a
}

func (s *station) event(t testing.TB, id string) *grapnel.Event {
	t.Helper()
	ev, _, err := s.store.Event(t.Context(), store.Of("acme"), "acme", id)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestOnRealStores(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New() },
		"sqlite": func(t *testing.T) store.Store { return openSQLite(t, filepath.Join(t.TempDir(), "grapnel.db")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := openStation(t, open(t))
			s.put(t, numbered("src_1"))
			s.put(t, numbered("src_2"))
			first := s.send(t, "src_1", `{"type":"order.paid","n":1}`, "X-Id", "1", "Content-Type", "application/json")
			if first.status != http.StatusAccepted {
				t.Fatalf("answered %d %s", first.status, first.body)
			}
			ev := s.event(t, first.ID)
			if ev.Intake == nil || ev.Intake.Known != "1" || len(ev.Intake.Checks) == 0 || len(ev.Intake.Headers) < 2 {
				t.Errorf("it came in as %+v", ev.Intake)
			}
			if string(ev.Data) != `{"type":"order.paid","n":1}` || ev.Type != "order.paid" || ev.Source != "src_1" {
				t.Errorf("kept as %+v", ev)
			}
			if again := s.send(t, "src_1", `{"n":1, "type":"order.paid"}`, "X-Id", "1"); !again.Duplicate || again.ID != first.ID || again.Conflict {
				t.Errorf("again: %s", again.body)
			}
			if other := s.send(t, "src_2", `{"type":"order.paid","n":1}`, "X-Id", "1"); other.Duplicate {
				t.Errorf("the same id at another source: %s", other.body)
			}
			if differs := s.send(t, "src_1", `{"type":"order.paid","n":2}`, "X-Id", "1"); !differs.Conflict || differs.ID != first.ID {
				t.Errorf("another body: %s", differs.body)
			}
			asides, err := s.store.AsideList(t.Context(), store.Of("acme"), store.AsideQuery{Source: "src_1", Limit: 10})
			if err != nil || len(asides) != 1 {
				t.Fatalf("%v, %v", asides, err)
			}
			full, err := s.store.Aside(t.Context(), store.Of("acme"), asides[0].ID)
			if err != nil || string(full.Body) != `{"type":"order.paid","n":2}` || full.Event != first.ID || full.Why != grapnel.AsideConflict ||
				full.Known != "1" {
				t.Errorf("kept as %+v, %v", full, err)
			}
		})
	}
}

// If the answer of a commit is lost, the provider gets a 503 and sends the request again: one event
// results.
func TestLostAnswer(t *testing.T) {
	lost := 0
	kept := &memory.Faulty{Store: memory.New(), Injure: func(method string) memory.Fault {
		if method != "Append" || lost > 0 {
			return memory.Fault{}
		}
		lost++
		return memory.Fault{Err: fmt.Errorf("postgres: %w", store.ErrUnknown), Applied: true}
	}}
	s := openStation(t, kept)
	s.put(t, numbered("src_1"))
	if first := s.send(t, "src_1", `{"n":1}`, "X-Id", "1"); first.status != http.StatusServiceUnavailable || lost != 1 {
		t.Errorf("the lost one is answered %d %s", first.status, first.body)
	}
	again := s.send(t, "src_1", `{"n":1}`, "X-Id", "1")
	all, err := s.store.EventList(t.Context(), store.Of("acme"), store.EventQuery{Limit: 10})
	if err != nil || again.status != http.StatusOK || !again.Duplicate || len(all) != 1 || all[0].ID != again.ID {
		t.Errorf("then it is answered %d %s, and there are %d events: %v", again.status, again.body, len(all), err)
	}
}

// Twenty copies of each request arrive at once. Meanwhile everything is closed and opened again,
// and then the copies are sent again. Each request becomes one event, and every 2xx has its id.
func TestCopiesAcrossARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grapnel.db")
	s := openStation(t, openSQLite(t, path))
	s.put(t, numbered("src_1"))
	const requests, copies = 20, 20
	var mu sync.Mutex
	ids := map[string]map[string]bool{} // of events, by body
	fresh := map[string]int{}
	sendAll := func(s *station, stop func()) {
		var wg sync.WaitGroup
		for n := range requests {
			for c := range copies {
				wg.Go(func() {
					if stop != nil && n == requests/2 && c == 0 {
						go stop()
					}
					key := fmt.Sprint(n)
					got := s.send(t, "src_1", `{"n":`+key+`}`, "X-Id", key)
					if got.status/100 != 2 {
						return // a provider would send it again, and so does the test
					}
					mu.Lock()
					defer mu.Unlock()
					if ids[key] == nil {
						ids[key] = map[string]bool{}
					}
					ids[key][got.ID] = true
					if !got.Duplicate {
						fresh[key]++
					}
				})
			}
		}
		wg.Wait()
	}
	sendAll(s, s.close)
	s.close()
	s = openStation(t, openSQLite(t, path))
	sendAll(s, nil)
	for n := range requests {
		key := fmt.Sprint(n)
		if len(ids[key]) != 1 || fresh[key] > 1 {
			t.Errorf("request %s: ids %v, %d times new", key, ids[key], fresh[key])
		}
	}
	all, err := s.store.EventList(t.Context(), store.Of("acme"), store.EventQuery{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != requests {
		var sent []string
		for _, ev := range all {
			sent = append(sent, string(ev.Data))
		}
		t.Errorf("%d events: %s", len(all), strings.Join(sent, " "))
	}
}
