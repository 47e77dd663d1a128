package postgres

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// However few of an endpoint's finished deliveries match, one call of Candidates examines a bounded
// number of them: otherwise the database would end the query, and every repetition of it.
func TestCandidatesAreReadInPages(t *testing.T) {
	s := open(t, blank(t), Options{Bounds: Bounds{Conns: Conns{Patience: time.Minute}}})
	defer func() { _ = s.Close() }()
	first := begins(s.days.known.Load().current)
	const rows = 40_000
	if _, err := s.pool.Exec(t.Context(), fmt.Sprintf(`
		INSERT INTO target (endpoint, shard) VALUES ('ep', 1);
		INSERT INTO tally (target, tenant, slot, made, pending, delivered, failed, dropped, discarded, skipped)
			VALUES (1, 'acme', 0, %[2]d, 0, %[2]d / 2, %[2]d / 2, 0, 0, 0);
		INSERT INTO kind (tenant, type, source) VALUES ('acme', 'a', '');
		INSERT INTO event SELECT %[1]d + n, 'evt_' || n, 'acme', 1, 'k' || n, n, n, %[1]d + n, %[1]d + n, 1, '', 0, 0, NULL, NULL, NULL
			FROM generate_series(1, %[2]d) n;
		INSERT INTO finished SELECT %[1]d + n, 1, %[1]d + n, 1, 0, 0, n, n, 0, 0, 1, 200,
			CASE WHEN n %% 2 = 0 THEN 'failed' ELSE 'delivered' END, 'none', '', '', NULL FROM generate_series(1, %[2]d) n`, first, rows),
		pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	last := time.UnixMicro(rows)
	searchesInPages(t, s, rows)
	for _, sel := range []grapnel.Selection{
		{From: last},
		{From: last, Status: []grapnel.Status{grapnel.Delivered, grapnel.Failed}},
		{From: last, Status: []grapnel.Status{grapnel.Discarded, grapnel.Failed}},
		{Keys: []string{fmt.Sprint("k", rows)}},
	} {
		calls, found := 0, 0
		for q := (store.CandidateQuery{Endpoint: "ep", Selection: sel, OverBy: last, Limit: 10}); calls == 0 || q.After != 0; calls++ {
			list, resume, err := s.Candidates(t.Context(), store.Everyone(), q)
			if err != nil {
				t.Fatal(err)
			}
			found, q.After = found+len(list), resume
		}
		if calls < 4 || found != 1 {
			t.Errorf("%+v: %d candidates found in %d calls", sel, found, calls)
		}
	}
}

// A search stops soon after it has read the bytes that one call may read, also if all events are
// large: a page of them is not read at once.
func TestSearchReadsFewLargeEvents(t *testing.T) {
	const events, size = 60, 1 << 20
	s := open(t, blank(t), Options{Bounds: Bounds{SearchBytes: size}})
	defer func() { _ = s.Close() }()
	for i := range events {
		in := incomingTo(fmt.Sprint("e", i), "", "ep")
		in.Event.Data = bytes.Repeat([]byte("x"), size)
		publish(t, s, in)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list, resume, err := s.DeliverySearch(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 10}, "absent")
	runtime.ReadMemStats(&after)
	if err != nil || len(list) > 0 || resume == 0 {
		t.Fatalf("%d found; goes on at %d: %v", len(list), resume, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 40*size {
		t.Errorf("it allocated %d MiB to search 1 MiB of 60", took/size)
	}
}

// searchesInPages: the same is true of a search, whatever its conditions are. Only the oldest
// delivery meets them.
func searchesInPages(t *testing.T, s *Store, rows int) {
	t.Helper()
	s.bounds.SearchRows = rows / 8
	defer func() { s.bounds.SearchRows = usual.SearchRows }()
	oldest := begins(s.days.known.Load().current) + 1
	if _, err := s.pool.Exec(t.Context(), "UPDATE finished SET status_code = 418, class = 'status_4xx', status = 'skipped' WHERE seq = $1",
		oldest); err != nil {
		t.Fatal(err)
	}
	for _, q := range []store.DeliveryQuery{{StatusCode: 418}, {StatusCode: 418, Endpoint: "ep"},
		{Class: policy.ClassStatus4xx, Tenant: "acme"}, {Type: "a", To: time.UnixMicro(2)},
		{Endpoint: "ep", StatusCode: 418, Status: []grapnel.Status{grapnel.Delivered, grapnel.Skipped}}} {
		calls, found := 0, 0
		for q.Limit = 10; calls == 0 || q.Before != 0; calls++ {
			list, resume, err := s.DeliverySearch(t.Context(), store.Everyone(), q, "")
			if err != nil || q.Before != 0 && resume >= q.Before {
				t.Fatalf("%+v goes on at %d: %v", q, resume, err)
			}
			found, q.Before = found+len(list), resume
		}
		if calls < 4 || found != 1 {
			t.Errorf("%+v: %d deliveries found in %d calls", q, found, calls)
		}
	}
}
