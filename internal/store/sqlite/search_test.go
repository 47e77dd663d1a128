package sqlite

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
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
	search := func(within time.Duration) (pages []int) {
		t.Helper()
		q := store.DeliveryQuery{Endpoint: "ep", Within: within, Limit: 1000}
		for sum := 0; ; {
			list, resume, err := s.DeliverySearch(t.Context(), store.Everyone(), q, "")
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, len(list))
			sum += len(list)
			if q.Before = resume; resume == 0 {
				if sum != all {
					t.Errorf("within %v it found %d of %d", within, sum, all)
				}
				return pages
			}
		}
	}
	usual, hasty := search(0), search(time.Millisecond)
	if usual[0] < s.bounds.LeastSearched || hasty[0] == 0 || 3*hasty[0] > usual[0] {
		t.Errorf("the first page has %d deliveries, and %d with little time", usual[0], hasty[0])
	}
}
