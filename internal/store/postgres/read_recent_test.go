package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestRecentDays: lists that the newest days fill, and reads of one delivery or event, use no table
// of another day. A transaction has those locked. The same reads of all days at once return the
// same.
func TestRecentDays(t *testing.T) {
	s := open(t, blank(t), Options{CallersClock: true,
		Bounds: Bounds{ListDays: 2, Conns: Conns{Reading: 2 * time.Second, Idle: time.Minute}}})
	defer func() { _ = s.Close() }()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.PutEndpoint(t.Context(), store.Everyone(), endpoint(t, "ep"), store.With{})
	must(err)
	const days, old, page = 8, 5, 4
	first, random := s.days.known.Load().current, rand.NewChaCha8([32]byte{})
	var ids []string
	for day := first; day < first+days; day++ {
		must(s.begin(t.Context(), day))
		for n := range page {
			id := fmt.Sprint("chosen", day, n)
			if n == 0 {
				id = grapnel.NewID(grapnel.EventPrefix, midnight(day), random)
			}
			_, err := s.Append(t.Context(), store.Batch{Config: version(t, s), Events: []store.Incoming{incomingTo(id, "k", "ep")}})
			must(err)
			ids = append(ids, id)
		}
	}
	before, err := s.DeliveryList(t.Context(), store.Everyone(), store.DeliveryQuery{Limit: 1000})
	must(err)
	for i := len(before) - 1; i >= page; i-- { // the oldest first; those of the last day stay pending
		status := []grapnel.Status{grapnel.Delivered, grapnel.Failed}[i%2]
		_, err := s.Record(t.Context(), []store.Change{{Delivery: before[i].Seq, Expect: store.AnyAttempts, Status: status, At: at(i)}})
		must(err)
	}
	again, err := s.Again(t.Context(), store.Everyone(), store.Redelivery{Of: before[2*page+1].Seq, At: at(900)})
	must(err)

	type query struct {
		store.DeliveryQuery
		events, search bool
		id             string
		seq            int64
	}
	deliveries := func(q store.DeliveryQuery) query { return query{DeliveryQuery: q} }
	read := func(q query) (any, error) {
		ctx, all := context.Background(), store.Everyone()
		q.Limit = page
		switch {
		case q.id != "":
			_, list, err := s.Event(ctx, all, "", q.id)
			return list, err
		case q.seq != 0:
			return s.Delivery(ctx, all, q.seq)
		case q.events:
			return s.EventList(ctx, all, store.EventQuery{Key: q.Key, Tenant: q.Tenant, Before: q.Before, Limit: page})
		case q.search:
			list, _, err := s.DeliverySearch(ctx, all, q.DeliveryQuery, "")
			return list, err
		}
		return s.DeliveryList(ctx, all, q.DeliveryQuery)
	}
	over := []grapnel.Status{grapnel.Delivered, grapnel.Failed}
	tenant := before[0].Tenant
	queries := []query{
		deliveries(store.DeliveryQuery{}), deliveries(store.DeliveryQuery{Tenant: tenant}), deliveries(store.DeliveryQuery{Endpoint: "ep"}),
		deliveries(store.DeliveryQuery{Key: "k"}), deliveries(store.DeliveryQuery{Status: over}),
		deliveries(store.DeliveryQuery{Key: "k", Status: over}),
		deliveries(store.DeliveryQuery{To: at(800)}), {DeliveryQuery: store.DeliveryQuery{Type: "*.*"}, search: true},
		{events: true}, {DeliveryQuery: store.DeliveryQuery{Key: "k"}, events: true},
		{DeliveryQuery: store.DeliveryQuery{Tenant: tenant}, events: true},
		{seq: before[0].Seq}, {seq: before[page].Seq}, {seq: again.Delivery},
		{id: ids[len(ids)-1]}, {id: ids[len(ids)-page]}, {id: before[2*page+1].EventID},
	}
	locked, err := s.pool.Begin(t.Context())
	must(err)
	for day := first; day < first+old; day++ {
		for _, table := range dated {
			_, err := locked.Exec(t.Context(), "LOCK TABLE "+tableOf(table, day)+" IN ACCESS EXCLUSIVE MODE", pgx.QueryExecModeSimpleProtocol)
			must(err)
		}
	}
	var got []any
	for _, q := range queries {
		found, err := read(q)
		if err != nil {
			t.Errorf("%+v: %v", q, err)
		}
		got = append(got, found)
	}
	must(locked.Rollback(context.Background()))
	if t.Failed() {
		return
	}
	for _, q := range queries { // and pages of old days
		for _, one := range []int{page, 3 * page, 6*page + 1} {
			if q.Before = before[one].Seq; q.id == "" && q.seq == 0 {
				queries = append(queries, q)
				found, err := read(q)
				must(err)
				got = append(got, found)
			}
		}
	}
	s.bounds.ListDays = 1000
	for i, q := range queries {
		if found, err := read(q); err != nil || !reflect.DeepEqual(found, got[i]) {
			t.Errorf("%+v: %v\n%+v\nin days: %+v", q, err, found, got[i])
		}
	}
}
