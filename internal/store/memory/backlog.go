package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// Backlogs reads all deliveries.
func (s *model) Backlogs(_ context.Context, scope store.Scope, tenant string, now time.Time, limit int64) ([]store.Backlog, error) {
	type found struct{ heads, dead []*delivery }
	by, all := make(map[string]*found), make(map[string]*store.Backlog)
	letters := store.DeliveryQuery{DeadLetters: true}
	for _, d := range s.deliveries {
		pending, dead := d.status == grapnel.Pending, letters.Dead(d.status, &d.mark)
		if !pending && !dead || !scope.Allows(d.event.Tenant) || !either(tenant, d.event.Tenant) {
			continue
		}
		if by[d.Endpoint] == nil {
			by[d.Endpoint], all[d.Endpoint] = new(found), &store.Backlog{Endpoint: d.Endpoint}
		}
		f, b := by[d.Endpoint], all[d.Endpoint]
		switch {
		case dead:
			f.dead = append(f.dead, d)
		case d.Head:
			f.heads = append(f.heads, d)
			fallthrough
		default:
			b.Pending++
		}
	}
	names := slices.Sorted(maps.Keys(by))
	shares := func(of func(name string) int64) []int64 {
		rows := make([]int64, len(names))
		for i, name := range names {
			rows[i] = of(name)
		}
		return store.Shares(rows, limit)
	}
	heads := shares(func(name string) int64 { return all[name].Pending })
	letter := shares(func(name string) int64 { return int64(len(by[name].dead)) })
	var list []store.Backlog
	for i, name := range names {
		b, f := all[name], by[name]
		count(b, f.heads[:min(int64(len(f.heads)), heads[i])], micro(now))
		b.Settle(min(int64(len(f.heads)), heads[i]), heads[i])
		b.Dead, b.DeadMore = letter[i], letter[i] < int64(len(f.dead))
		list = append(list, *b)
	}
	return list, nil
}

// count counts heads.
func count(b *store.Backlog, heads []*delivery, now time.Time) {
	for i, d := range heads {
		switch {
		case d.Blocked:
			b.Blocked++
		case d.Token != "":
			b.Leased++
		default:
			b.AddPart(store.PartOf(decide.Moment(d.Due), now), 1)
		}
		if i == 0 {
			b.Oldest = codec.Moment(d.Created)
		}
	}
}

// TenantCounts reads all deliveries and totals.
func (s *model) TenantCounts(_ context.Context, tenants []string, limit int64) (map[string]store.TenantCount, error) {
	type owned struct{ tenant, endpoint string }
	pending, dead := map[owned]int64{}, map[owned]int64{}
	letters := store.DeliveryQuery{DeadLetters: true}
	for _, d := range s.deliveries {
		of := owned{d.event.Tenant, d.Endpoint}
		if d.status == grapnel.Pending {
			pending[of]++
		} else if letters.Dead(d.status, &d.mark) {
			dead[of]++
		}
	}
	c := store.NewTenantCounter(tenants)
	for of, n := range pending {
		if c.Wants(of.tenant) {
			c.Add(of.tenant, n, 0, time.Time{})
		}
	}
	for of, n := range dead {
		if c.Wants(of.tenant) {
			c.Add(of.tenant, 0, n, time.Time{})
		}
	}
	for p := range s.totals {
		if c.Wants(p.tenant) {
			c.Add(p.tenant, 0, 0, p.at)
		}
	}
	return c.Letters(limit, func(shares []int64) ([]int64, error) { return shares, nil })
}
