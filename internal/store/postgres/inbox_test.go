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
	s := open(t, database(t), Options{})
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
