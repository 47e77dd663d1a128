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

// reason refuses a value that is no reason to set a request aside.
func reason(why grapnel.AsideReason) error {
	if why == grapnel.AsideUnverified || why == grapnel.AsideConflict || why == grapnel.AsideRefused {
		return nil
	}
	return grapnel.Errorf(grapnel.CodeInvalid, "%q is not a reason to set a request aside", why)
}

// SetAside changes nothing if the id is stored already.
func (s *model) SetAside(_ context.Context, a grapnel.Aside) error {
	if err := reason(a.Why); err != nil {
		return err
	}
	if at, there := s.aside(a.ID); !there {
		a.Size = len(a.Body)
		s.asides = slices.Insert(s.asides, at, deepCopy(a))
	}
	return nil
}

// ChangeAside changes nothing else, and nothing of another tenant.
func (s *model) ChangeAside(_ context.Context, a grapnel.Aside, drop bool) error {
	if !drop {
		if err := reason(a.Why); err != nil {
			return err
		}
	}
	at, there := s.aside(a.ID)
	switch {
	case !there || s.asides[at].Tenant != a.Tenant:
	case drop:
		s.asides = slices.Delete(s.asides, at, at+1)
	default:
		is := &s.asides[at]
		is.Why, is.Event, is.Intake = a.Why, a.Event, deepCopy(a).Intake
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
	items := backward(s.asides)
	if q.After != "" {
		items = slices.Values(s.asides)
	}
	return pick(items, q.Limit, func(a grapnel.Aside) bool {
		return scope.Allows(a.Tenant) && either(q.Tenant, a.Tenant) && either(q.Source, a.Source) && either(string(q.Why), string(a.Why)) &&
			(q.Before == "" || a.ID < q.Before) && a.ID > q.After
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
