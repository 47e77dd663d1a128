package pass

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Records finds a key, or a record that is stored with the keys, by its id; nil: there is none.
type Records func(id string) *grapnel.Key

func (find Records) series(tenant string) string {
	if k := find(grapnel.SeriesID(tenant)); k != nil {
		return k.Series
	}
	return ""
}

// ended says whether sessions that began at a time have ended.
func (find Records) ended(tenant, whose string, began time.Time) bool {
	k := find(grapnel.EndedID(tenant, whose))
	return k != nil && k.Ended != nil && !began.After(k.Ended.Before)
}

// Holds says whether a pass is valid, as far as revocations are concerned.
func (p *Pass) Holds(find Records) bool {
	switch {
	case p.Era != find.series(""):
		return false
	case p.Portal && p.Tenant != "" && p.Series != find.series(p.Tenant):
		return false
	case p.Link != "" && find.ended(p.Tenant, p.Link, p.Begins):
		return false
	case !p.Portal && p.Tenant != "" && find.ended("", p.Subject, p.Begins): // by an admin of all tenants
		return false
	case find.ended(p.Tenant, p.ID, p.Begins): // signed out
		return false
	}
	return p.backed(find) && !find.ended(p.Tenant, p.Subject, p.Begins)
}

// backed says whether the maker of a pass still has the rights that it gave.
func (p *Pass) backed(find Records) bool {
	m := p.Maker
	if m == nil {
		return true
	}
	if m.Key == "" {
		return !find.ended("", m.ID, m.Begins) && !find.ended(m.Tenant, m.ID, m.Begins)
	}
	k, known := p.MakerKey(find)
	if !known || !p.Portal {
		return known
	}
	given := p.Scopes
	if p.Opens != nil {
		given = p.Opens.Scopes
	}
	return k.May(grapnel.ScopeManage) && !slices.ContainsFunc(given, func(s grapnel.Scope) bool { return !grapnel.Gives(k.Scopes, s) })
}

// MakerKey is the key that made a pass; false: there is none any more. A key that has replaced it
// under its id is another one.
func (p *Pass) MakerKey(find Records) (grapnel.Key, bool) {
	m := p.Maker
	k := find(m.ID)
	if k == nil || !k.Secret() || k.Tenant != m.Tenant || Mark(k.Hash) != m.Key {
		return grapnel.Key{}, false
	}
	return *k, true
}
