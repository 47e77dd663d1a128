package storetest

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// standing is a Standing with every field set. Its values contain its number, so that two differ.
func standing(endpoint string, number int64) *store.Standing {
	return &store.Standing{Endpoint: endpoint, Number: number, Standing: policy.Standing{
		OpenedAt: at(1), Cause: "connection refused \x00é", ProbeAt: at(2).Add(3 * time.Microsecond), Probes: int(number), RecoveredAt: at(-5),
		Strikes: 40, FailingSince: at(-1), Warned: 50,
	}}
}

func (d *driver) standings() []store.Standing {
	d.Helper()
	all, err := d.Standings(d.ctx)
	d.must(err, "Standings")
	return all
}

var standingCases = []testCase{
	{"is stored with its change, the one with the highest number", func(d *driver) {
		n := d.lane("k", 1)
		d.same(d.standings(), []store.Standing{}, "none yet")
		for attempt, number := range []int64{2, 1, 2, 7} {
			c := retried(n[0], attempt, 4, 9)
			c.Standing = standing(epA, number)
			if number == 2 && attempt == 2 {
				c.Standing.Strikes = 1 // the same number: it is the same standing
			}
			d.change(c)
			d.same(d.standings(), []store.Standing{*standing(epA, []int64{2, 2, 2, 7}[attempt])}, "standings")
		}
		last := delivered(n[0], 4, 10)
		last.Standing = &store.Standing{Endpoint: epA, Number: 8}
		d.change(last)
		d.same(d.standings(), []store.Standing{{Endpoint: epA, Number: 8}}, "an empty one replaces")
	}},
	{"is stored whether the change applies or not", func(d *driver) {
		n := d.lane("k", 1)
		late := delivered(n[0], 7, 10)
		late.Standing = standing(epA, 1)
		d.same(d.record(late)[0].Applied, false, "applied")
		d.same(d.standings(), []store.Standing{*standing(epA, 1)}, "with a change that came too late")
		absent := delivered(n[0]+1000, 0, 10)
		absent.Standing = standing(epA, 2)
		d.same(d.record(absent)[0], store.Changed{}, "changed")
		d.same(d.standings(), []store.Standing{*standing(epA, 2)}, "with a change of nothing")
		d.change(delivered(n[0], 0, 11))
		d.same(d.standings(), []store.Standing{*standing(epA, 2)}, "a change without leaves it")
	}},
	{"is each endpoint's own", func(d *driver) {
		n := d.lane("k", 1)
		var changes []store.Change
		for i, endpoint := range []string{epX, epA, epB, epA} {
			c := retried(n[0], i, 4, 9)
			c.Standing = standing(endpoint, int64(5-i))
			changes = append(changes, c)
		}
		d.record(changes...)
		d.same(d.standings(), []store.Standing{*standing(epA, 4), *standing(epB, 3), *standing(epX, 5)}, "standings by endpoint")
	}},
	{"may have any number", func(d *driver) {
		n := d.lane("k", 1)
		for i, number := range []int64{-3, 0, 1 << 60} {
			c := retried(n[0], i, 4, 9)
			c.Standing = standing(epA, number)
			d.change(c)
			d.same(d.standings()[0].Number, number, "number")
		}
	}},
	{"keeps times in microseconds and UTC", func(d *driver) {
		n := d.lane("k", 1)
		c := retried(n[0], 0, 4, 9)
		c.Standing = &store.Standing{Endpoint: epA, Number: 1}
		c.Standing.OpenedAt = at(1).In(time.FixedZone("elsewhere", 5*3600)).Add(1999)
		c.Standing.FailingSince = at(2).Add(999)
		d.change(c)
		kept := d.standings()[0]
		d.same(kept.OpenedAt, at(1).Add(time.Microsecond), "opened")
		d.same(kept.FailingSince, at(2), "failing since")
		d.same(kept.RecoveredAt.IsZero() && kept.ProbeAt.IsZero(), true, "a zero time stays zero")
	}},
	{"is forgotten with its endpoint, for good", func(d *driver) {
		n := d.lane("k", 1)
		c := delivered(n[0], 0, 4)
		c.Standing = standing(epA, 3)
		d.change(c)
		ep := endpoint(epA, acme)
		ep.Revision, ep.DeletedAt = 1, at(9)
		d.put(ep)
		d.same(len(d.standings()), 1, "standings while it is only marked as deleted")
		d.must(d.RemoveEndpoint(d.ctx, epA), "RemoveEndpoint")
		d.same(d.standings(), []store.Standing{}, "standings")
		c.Standing.Number = 4 // a repeated call whose answer was lost
		d.same(d.record(c)[0].Status, grapnel.Delivered, "status")
		d.same(d.standings(), []store.Standing{}, "standings of what is gone")
		d.put(endpoint(epA, acme))
		c.Standing = standing(epA, 1)
		d.record(c)
		d.same(d.standings(), []store.Standing{*standing(epA, 1)}, "a new endpoint begins anew")
	}},
}
