package pass

import (
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Records are the keys and access records as of one moment, by their ids.
type Records interface {
	Key(id string) *grapnel.Key             // nil: there is none
	Access(id string) *grapnel.AccessRecord // one without content if there is none
}

// ended says whether sessions that began at a time have ended.
func ended(in Records, tenant, whose string, began time.Time) bool {
	is := in.Access(grapnel.EndedID(tenant, whose)).Ended
	return is != nil && !began.After(is.Before)
}

// Holds says whether a pass is valid, as far as revocations are concerned.
func (p *Pass) Holds(in Records) bool {
	switch {
	case p.Era != in.Access(grapnel.SeriesID("")).Series:
		return false
	case p.Portal && p.Tenant != "" && p.Series != in.Access(grapnel.SeriesID(p.Tenant)).Series:
		return false
	case p.Tenant != "" && ended(in, "", grapnel.PassesOfTenant(p.Tenant), p.Begins): // the tenant was deleted
		return false
	case p.Link != "" && ended(in, p.Tenant, p.Link, p.Begins):
		return false
	case !p.Portal && p.Tenant != "" && ended(in, "", p.Subject, p.Begins): // by an admin of all tenants
		return false
	case ended(in, p.Tenant, p.ID, p.Begins): // signed out
		return false
	}
	return p.backed(in) && !ended(in, p.Tenant, p.Subject, p.Begins)
}

// backed says whether the maker of a pass still has the rights that it gave.
func (p *Pass) backed(in Records) bool {
	m := p.Maker
	if m == nil {
		return true
	}
	if m.Key == "" {
		return !ended(in, "", m.ID, m.Begins) && !ended(in, m.Tenant, m.ID, m.Begins)
	}
	k, known := p.MakerKey(in)
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
func (p *Pass) MakerKey(in Records) (grapnel.Key, bool) {
	m := p.Maker
	k := in.Key(m.ID)
	if k == nil || k.Tenant != m.Tenant || Mark(k.Hash) != m.Key {
		return grapnel.Key{}, false
	}
	return *k, true
}
