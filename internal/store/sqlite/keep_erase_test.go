package sqlite

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestErasedBytesAreGone: before the erasure the files have what each event contains and what its
// attempts captured; afterwards none has any of it. In between the process is killed at random
// moments, and the next one does it again.
func TestErasedBytesAreGone(t *testing.T) {
	for name, b := range map[string]Bounds{"rows": {}, "file": apart} {
		t.Run(name, func(t *testing.T) { erasedBytesAreGone(t, b) })
	}
}

func erasedBytesAreGone(t *testing.T, b Bounds) {
	const n = 200
	kills := 3
	if os.Getenv("GRAPNEL_SOAK") != "" {
		kills = 20
	}
	b.Behind = n / 4
	s, path := openWith(t, b)
	random := rand.New(rand.NewPCG(3, 4))
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var events, deliveries []int64
	for i := range n {
		data := secret(i) + strings.Repeat(" .", []int{0, 100, 1000, 5000, 20000}[random.IntN(5)])
		e := &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a", Key: secret(i), ContentType: grapnel.JSONType,
			Data: []byte(data), Metadata: map[string]string{"about": secret(i)}, AcceptedAt: base.Add(time.Duration(i) * time.Second),
			Intake: &grapnel.Intake{Headers: []grapnel.Header{{Name: "x", Value: secret(i)}}}}
		done, err := s.Append(t.Context(), store.Batch{Config: 1, Events: []store.Incoming{{Event: e,
			Targets: []store.Target{{Endpoint: "ep", Ordered: true}}}}})
		if err != nil {
			t.Fatal(err)
		}
		events, deliveries = append(events, done.Events[0].Seq), append(deliveries, done.Heads[0].Delivery)
	}
	for _, i := range random.Perm(n) {
		at, note := base.Add(time.Duration(i)*time.Second), "note: "+secret(i)
		a := grapnel.Attempt{Number: 1, StatusCode: 500, Error: secret(i), ResponseBody: []byte("no: " + secret(i)),
			ResponseHeaders: map[string]string{"x": secret(i)}, RequestHeaders: []grapnel.Header{{Name: "x", Value: secret(i)}}}
		if _, err := s.Record(t.Context(), []store.Change{{Delivery: deliveries[i], At: at, Status: grapnel.Pending, Due: at, Attempt: &a},
			{Delivery: deliveries[i], Expect: 1, At: at, Status: grapnel.Failed, Reason: secret(i), Attempt: &a}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Annotate(t.Context(), store.Everyone(), store.Annotation{Delivery: deliveries[i], Note: &note, Discard: note, At: at}); err != nil {
			t.Fatal(err)
		}
	}
	found := map[int]bool{}
	for _, b := range files(t, path) {
		maps.Copy(found, secretsIn(b))
	}
	if len(found) != n {
		t.Fatalf("the files have %d of %d events before: this test shows nothing", len(found), n)
	}
	erase := func(s *Store) store.Erased {
		t.Helper()
		done, err := s.EraseEvents(t.Context(), store.Erasure{Tenant: "acme", Events: events, At: base.Add(time.Hour), Keys: true})
		if err != nil {
			t.Error(err)
		}
		return done
	}
	left := events
	for range kills {
		// The process is killed in the middle: some rows are emptied, and the files have old bytes.
		some := left[:random.IntN(2*len(left)/kills+1)]
		left = left[len(some):]
		if err := s.write(t.Context(), &change{shrinks: true, do: func(t *tx) error {
			for _, seq := range some {
				if err := eraseEvent(t, &store.Erasure{Tenant: "acme", At: base, Keys: true}, seq, new(store.Erased)); err != nil {
					return err
				}
			}
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		copied := snapshot(t, path)
		next, err := Open(t.Context(), copied, Options{Ballast: -1, Bounds: b})
		if err != nil {
			t.Fatal(err)
		}
		if done := erase(next); done.Events != len(left) {
			t.Errorf("erased %d of %d", done.Events, len(left))
		}
		for name, b := range files(t, copied) {
			if found := secretsIn(b); len(found) > 0 {
				t.Fatalf("%d events are in the file %q after they were erased", len(found), name)
			}
		}
		if off, err := next.Imbalance(t.Context()); off != 0 || err != nil {
			t.Errorf("imbalance %d, %v", off, err)
		}
		list, err := next.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: 2 * n})
		if err != nil || len(list) != n {
			t.Fatalf("%d events are left, %v", len(list), err)
		}
		if text := strings.Join(integrity(t, copied), "; "); text != "ok" {
			t.Errorf("the database is damaged: %s", text)
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
