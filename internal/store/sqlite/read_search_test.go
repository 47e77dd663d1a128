package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/policy"
)

// TestSearchWithLittleTime: a search whose caller has little time reads fewer rows than one that
// has the store's own time, if the clock runs fast, and its pages are together the whole list.
func TestSearchWithLittleTime(t *testing.T) {
	var clock atomic.Int64
	s, err := Open(t.Context(), filepath.Join(fast(t), "grapnel.db"), Options{Ballast: -1,
		Now: func() time.Time { return time.Unix(clock.Add(1), 0) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const all = 300
	var events []store.Incoming
	for i := range all {
		e := &grapnel.Event{ID: fmt.Sprint("e", i), Tenant: "acme", Type: "t", AcceptedAt: time.Unix(1, 0)}
		events = append(events, store.Incoming{Event: e, Targets: []store.Target{{Endpoint: "ep"}}})
	}
	if _, err := s.Append(t.Context(), store.Batch{Config: 1, Events: events}); err != nil {
		t.Fatal(err)
	}
	q := store.DeliveryQuery{Endpoint: "ep", Limit: 1000}
	usual := searchPages(t, s, q, all)
	q.Within = time.Millisecond
	hasty := searchPages(t, s, q, all)
	if usual[0] < s.bounds.LeastSearched || hasty[0] == 0 || 3*hasty[0] > usual[0] {
		t.Errorf("the first page has %d deliveries, and %d with little time", usual[0], hasty[0])
	}
}

// searchPages returns how many deliveries each page of a search has. All pages together have a
// number of them, and each page goes on below the page before it.
func searchPages(t *testing.T, s *Store, q store.DeliveryQuery, all int) (pages []int) {
	t.Helper()
	for sum := 0; ; {
		list, resume, err := s.DeliverySearch(t.Context(), store.Everyone(), q, "")
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, len(list))
		sum += len(list)
		if q.Before != 0 && resume >= q.Before {
			t.Fatalf("%+v goes on below %d", q, resume)
		}
		if q.Before = resume; resume == 0 {
			if sum != all {
				t.Errorf("%+v found %d deliveries of %d", q, sum, all)
			}
			return pages
		}
	}
}

// TestASearchThatGivesUpGoesOn: a search without time goes on with each page and finds everything,
// though the newest events have no delivery and fill more blocks than such a search looks into.
func TestASearchThatGivesUpGoesOn(t *testing.T) {
	s, _ := openWith(t, Bounds{LeastSearched: 1, LeastBlocks: 1})
	add := func(id string, kind string, to ...store.Target) {
		t.Helper()
		e := &grapnel.Event{ID: id, Tenant: "acme", Type: kind, Key: "k", AcceptedAt: time.Unix(1, 0)}
		if _, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e, Targets: to}}}); err != nil {
			t.Fatal(err)
		}
		if err := s.write(t.Context(), &change{do: func(t *tx) error { t.events.gave(3 << rows.BlockBits); return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	const all = 3
	for i := range all {
		add(fmt.Sprint("sent_", i), "t", store.Target{Endpoint: "ep"})
		add(fmt.Sprint("unsent_", i), "other")
	}
	for _, q := range []store.DeliveryQuery{{Type: "t"}, {Key: "k"}, {Type: "t", Key: "k"}} {
		q.Within, q.Limit = 1, 1000
		searchPages(t, s, q, all)
	}
}

// counting counts how often a read asks if its caller still waits: once for each block or row.
type counting struct {
	context.Context
	asked int
}

func (c *counting) Err() error {
	c.asked++
	return c.Context.Err()
}

// TestPurgedBlocksAreNotRead: a list ends at the oldest row, however many row ids belonged to rows
// that were purged.
func TestPurgedBlocksAreNotRead(t *testing.T) {
	s, _ := openNew(t)
	const blocks = 2000
	if err := s.write(t.Context(), &change{do: func(tx *tx) error {
		tx.events.skip(blocks << rows.BlockBits)
		tx.deliveries.skip(blocks << rows.BlockBits)
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	e := &grapnel.Event{ID: "e", Tenant: "acme", Type: "t", Key: "k", Source: "src_1", AcceptedAt: time.Unix(1, 0)}
	done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e, Targets: []store.Target{{Endpoint: "ep"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Record(t.Context(), []store.Change{{Delivery: done.Heads[0].Delivery, At: time.Unix(2, 0), Status: grapnel.Delivered,
		Attempt: &grapnel.Attempt{Number: 1, StatusCode: 200, Class: policy.ClassNone}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.write(t.Context(), &change{do: func(tx *tx) error { // what Purge leaves
		return tx.conn.Exec(fmt.Sprintf(`WITH RECURSIVE b(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM b WHERE n < %d)
			INSERT OR IGNORE INTO delivered_outcome SELECT outcome, n FROM b, finished;
			WITH RECURSIVE b(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM b WHERE n < %[1]d)
			INSERT OR IGNORE INTO source_block SELECT 'src_1', n FROM b`, blocks-1))
	}}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []store.EventQuery{{Type: "t"}, {Key: "k"}, {Source: "src_1"}, {Tenant: "acme"}} {
		q.Limit = 10
		c := &counting{Context: t.Context()}
		if list, err := s.EventList(c, store.Everyone(), q); err != nil || len(list) != 1 || c.asked > 50 {
			t.Errorf("%+v: %d events in %d steps: %v", q, len(list), c.asked, err)
		}
	}
	for _, q := range []store.DeliveryQuery{{Type: "t"}, {Key: "k"}, {Tenant: "acme"}, {Endpoint: "ep"}, {StatusCode: 200},
		{StatusCode: 200, Endpoint: "ep"}} {
		q.Limit = 10
		c := &counting{Context: t.Context()}
		if list, err := s.DeliveryList(c, store.Everyone(), q); err != nil || len(list) != 1 || c.asked > 50 {
			t.Errorf("%+v: %d deliveries in %d steps: %v", q, len(list), c.asked, err)
		}
	}
	c := &counting{Context: t.Context()}
	list, _, err := s.Candidates(c, store.Everyone(), store.CandidateQuery{Endpoint: "ep", OverBy: time.Unix(9, 0), Limit: 10,
		Selection: grapnel.Selection{Status: []grapnel.Status{grapnel.Delivered}}})
	if err != nil || len(list) != 1 || c.asked > 50 {
		t.Errorf("%d candidates in %d steps: %v", len(list), c.asked, err)
	}
}

// TestCandidatesOfAKeyGoOn: a call of Candidates with keys examines no delivery that an earlier
// call has examined.
func TestCandidatesOfAKeyGoOn(t *testing.T) {
	const events, looked = 400, 10
	s, _ := openWith(t, Bounds{Looked: looked})
	for n := range events {
		e := &grapnel.Event{ID: fmt.Sprint("e", n), Tenant: "acme", Type: "t", Key: "k", AcceptedAt: time.Unix(1, 0)}
		in := store.Incoming{Event: e, Targets: []store.Target{{Endpoint: "ep"}}}
		done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{in}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Record(t.Context(), []store.Change{{Delivery: done.Heads[0].Delivery, At: time.Unix(2, 0), Status: grapnel.Failed,
			Attempt: &grapnel.Attempt{Number: 1, StatusCode: 500, Class: policy.ClassStatus5xx}}}); err != nil {
			t.Fatal(err)
		}
	}
	c := &counting{Context: t.Context()}
	q := store.CandidateQuery{Endpoint: "ep", OverBy: time.Unix(9, 0), Limit: looked, Selection: grapnel.Selection{Keys: []string{"k"}}}
	for found := 0; ; {
		list, resume, err := s.Candidates(c, store.Everyone(), q)
		if err != nil {
			t.Fatal(err)
		}
		if found += len(list); resume == 0 {
			if found != events || c.asked > 3*events {
				t.Errorf("%d candidates in %d steps", found, c.asked)
			}
			return
		}
		q.After = resume
	}
}
