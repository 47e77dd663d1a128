package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// aside finds a request that was set aside, or where it belongs: they are sorted by id.
func (s *model) aside(id string) (int, bool) {
	return slices.BinarySearchFunc(s.asides, id, func(a grapnel.Aside, id string) int { return cmp.Compare(a.ID, id) })
}

// copyAside copies a request with its slices and maps.
func copyAside(a grapnel.Aside) grapnel.Aside {
	a.Body = slices.Clone(a.Body)
	a.Intake = *copyIntake(&a.Intake)
	return a
}

// SetAside changes nothing if the id is stored already.
func (s *model) SetAside(_ context.Context, a grapnel.Aside) error {
	if a.Why != grapnel.AsideUnverified && a.Why != grapnel.AsideConflict && a.Why != grapnel.AsideRefused {
		return grapnel.Errorf(grapnel.CodeInvalid, "%q is not a reason to set a request aside", a.Why)
	}
	if at, there := s.aside(a.ID); !there {
		a.Size = len(a.Body)
		s.asides = slices.Insert(s.asides, at, copyAside(a))
	}
	return nil
}

// Aside returns one with its body.
func (s *model) Aside(_ context.Context, scope store.Scope, id string) (grapnel.Aside, error) {
	at, there := s.aside(id)
	if !there || !scope.Allows(s.asides[at].Tenant) {
		return grapnel.Aside{}, store.ErrNotFound("request")
	}
	return copyAside(s.asides[at]), nil
}

// AsideList returns at most Limit of them; no limit is none.
func (s *model) AsideList(_ context.Context, scope store.Scope, q store.AsideQuery) ([]grapnel.Aside, error) {
	var list []grapnel.Aside
	for _, a := range slices.Backward(s.asides) {
		if len(list) >= q.Limit {
			break
		}
		if scope.Allows(a.Tenant) && either(q.Tenant, a.Tenant) && either(q.Source, a.Source) && either(string(q.Why), string(a.Why)) &&
			(q.Before == "" || a.ID < q.Before) {
			a.Body = nil
			list = append(list, copyAside(a))
		}
	}
	return list, nil
}

// Unlearn forgets and removes the oldest first.
func (s *model) Unlearn(_ context.Context, now, asideBefore time.Time, limit int) (int, error) {
	limit = max(limit, 0)
	var over []knownBy
	for m, k := range s.known {
		if k.until.Before(micro(now)) {
			over = append(over, m)
		}
	}
	slices.SortFunc(over, func(a, b knownBy) int {
		return cmp.Or(s.known[a].until.Compare(s.known[b].until), cmp.Compare(s.known[a].first.Seq, s.known[b].first.Seq))
	})
	over = over[:min(len(over), limit)]
	for _, m := range over {
		delete(s.known, m)
	}
	var old []grapnel.Aside
	for _, a := range s.asides {
		if a.At.Before(micro(asideBefore)) {
			old = append(old, a)
		}
	}
	slices.SortStableFunc(old, func(a, b grapnel.Aside) int { return a.At.Compare(b.At) })
	old = old[:min(len(old), limit)]
	for _, a := range old {
		at, _ := s.aside(a.ID)
		s.asides = slices.Delete(s.asides, at, at+1)
	}
	return len(over) + len(old), nil
}
