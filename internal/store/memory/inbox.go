package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// aside finds a request that was set aside, or where it belongs: they are sorted by id.
func (s *model) aside(id string) (int, bool) {
	return slices.BinarySearchFunc(s.asides, id, func(a grapnel.Aside, id string) int { return cmp.Compare(a.ID, id) })
}

// SetAside changes nothing if the id is stored already.
func (s *model) SetAside(_ context.Context, a grapnel.Aside) error {
	if a.Why != grapnel.AsideUnverified && a.Why != grapnel.AsideConflict && a.Why != grapnel.AsideRefused {
		return grapnel.Errorf(grapnel.CodeInvalid, "%q is not a reason to set a request aside", a.Why)
	}
	if at, there := s.aside(a.ID); !there {
		a.Size = len(a.Body)
		s.asides = slices.Insert(s.asides, at, deepCopy(a))
	}
	return nil
}

// Aside returns one with its body.
func (s *model) Aside(_ context.Context, scope store.Scope, id string) (grapnel.Aside, error) {
	at, there := s.aside(id)
	if !there || !scope.Allows(s.asides[at].Tenant) {
		return grapnel.Aside{}, store.ErrNotFound("request")
	}
	return deepCopy(s.asides[at]), nil
}

// AsideList returns at most Limit of them; no limit is none.
func (s *model) AsideList(_ context.Context, scope store.Scope, q store.AsideQuery) ([]grapnel.Aside, error) {
	return pick(backward(s.asides), q.Limit, func(a grapnel.Aside) bool {
		return scope.Allows(a.Tenant) && either(q.Tenant, a.Tenant) && either(q.Source, a.Source) && either(string(q.Why), string(a.Why)) &&
			(q.Before == "" || a.ID < q.Before)
	}, func(a grapnel.Aside) grapnel.Aside {
		a.Body = nil
		return deepCopy(a)
	}), nil
}

// Unlearn forgets and removes the oldest first.
func (s *model) Unlearn(_ context.Context, now, asideBefore time.Time, limit int) (int, error) {
	over := oldest(maps.Keys(s.known), limit, func(m knownBy) bool { return s.known[m].until.Before(micro(now)) }, func(a, b knownBy) int {
		return cmp.Or(s.known[a].until.Compare(s.known[b].until), cmp.Compare(s.known[a].first.Seq, s.known[b].first.Seq))
	})
	for _, m := range over {
		delete(s.known, m)
	}
	old := oldest(slices.Values(s.asides), limit, func(a grapnel.Aside) bool { return a.At.Before(micro(asideBefore)) },
		func(a, b grapnel.Aside) int { return a.At.Compare(b.At) })
	for _, a := range old {
		at, _ := s.aside(a.ID)
		s.asides = slices.Delete(s.asides, at, at+1)
	}
	return len(over) + len(old), nil
}
