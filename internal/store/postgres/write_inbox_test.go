package postgres

import (
	"fmt"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// A list leaves out a corrupt request and has the next one in its place: a list shorter than its
// limit would be the end for its reader.
func TestCorruptRequestsEndNoList(t *testing.T) {
	s := open(t, blank(t), Options{})
	defer func() { _ = s.Close() }()
	for i := range 4 {
		a := grapnel.Aside{ID: fmt.Sprint("asd_", i), Tenant: "acme", Why: grapnel.AsideUnverified}
		a.At = at(i)
		if err := s.SetAside(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.pool.Exec(t.Context(), `UPDATE aside SET intake = '\x00' WHERE id = 'asd_2'`); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{2, 3, 10} {
		list, err := s.AsideList(t.Context(), store.Everyone(), store.AsideQuery{Limit: limit})
		if err != nil || len(list) != min(limit, 3) || list[1].ID != "asd_1" {
			t.Errorf("a list of %d has %d: %+v, %v", limit, len(list), list, err)
		}
	}
}

// TestCorruptEvent: an event whose bytes do not match their checksum is marked in lists, read by
// itself it is an error of its own, and no attempt gets it.
func TestCorruptEvent(t *testing.T) {
	s := open(t, blank(t), Options{})
	defer func() { _ = s.Close() }()
	seqs := make([]int64, 2)
	for i := range seqs {
		in := store.Incoming{Event: &grapnel.Event{ID: fmt.Sprint("evt_", i), Tenant: "acme", Type: "a.b", Data: []byte(`{"n":1}`),
			ContentType: grapnel.JSONType, OccurredAt: at(i), AcceptedAt: at(i)}}
		seqs[i] = publish(t, s, in).Seq
	}
	if _, err := s.pool.Exec(t.Context(), `UPDATE event SET sum = sum + 1 WHERE id = 'evt_0'`); err != nil {
		t.Fatal(err)
	}
	list, err := s.EventList(t.Context(), store.Everyone(), store.EventQuery{Limit: 10})
	if err != nil || len(list) != 2 || list[0].Damaged || list[0].Data == nil || !list[1].Damaged || list[1].Data != nil {
		t.Errorf("a list: %+v, %v", list, err)
	}
	if _, _, err := s.Event(t.Context(), store.Everyone(), "", "evt_0"); grapnel.CodeOf(err) != grapnel.CodeDamaged {
		t.Errorf("the event itself: %v", err)
	}
	events, err := s.Events(t.Context(), seqs)
	if err != nil || events[0] != nil || events[1] == nil {
		t.Errorf("for an attempt: %v, %v", events, err)
	}
}
