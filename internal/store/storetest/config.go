package storetest

import (
	"crypto/sha256"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

func named(id, tenant, name string) grapnel.NamedPolicy {
	p, _ := policy.Preset("standard")
	return grapnel.NamedPolicy{ID: id, Tenant: tenant, Name: name, Policy: p, CreatedAt: at(1), UpdatedAt: at(2)}
}

func apiKey(id, tenant string) grapnel.Key {
	return grapnel.Key{ID: id, Name: "ci", Tenant: tenant, Scopes: []grapnel.Scope{grapnel.ScopePublish, grapnel.ScopeRead},
		Hash: sha256.Sum256([]byte(id)), CreatedAt: at(1)}
}

// accessRecord is one with an id of its own and content of each kind.
func accessRecord(id, tenant string) grapnel.AccessRecord {
	return grapnel.AccessRecord{ID: id, Tenant: tenant, Series: "s", Ended: &grapnel.EndedSessions{Before: at(3), Until: at(4)},
		Portal: &grapnel.Portal{Name: "né", FrameAncestors: []string{"https://a.example"}, UpdatedAt: at(5)},
		Terms: &grapnel.Terms{PublishRate: &grapnel.RateLimit{PerSecond: 0.5, Burst: 9}, EventsPerDay: 1 << 40, MaxPending: 7,
			Consent: grapnel.ConsentRequired,
			Proxy:   grapnel.Secret{Text: "http://me:p@10.0.0.7:3128", CreatedAt: at(6)}, UpdatedAt: at(7)},
		Sender: &grapnel.Sender{URL: grapnel.Secret{Text: "smtp://me:p@mail.example", CreatedAt: at(8)}, Subject: "né", Text: "x", PerDay: 3,
			Scopes: []grapnel.Scope{grapnel.ScopeRead}, UpdatedAt: at(9)}}
}

// grown fails unless the configuration has a later version than before, and returns it.
func (d *driver) grown(before int64, what string) int64 {
	d.Helper()
	now := d.config().Version
	if now <= before {
		d.Fatalf("%s: the version was %d and is %d", what, before, now)
	}
	return now
}

var configCases = []testCase{
	{"is empty at first, with a version", func(d *driver) {
		s := d.harness.Open(d.test)
		defer func() { d.must(s.Close(), "Close") }()
		c, err := s.Config(d.ctx)
		d.must(err, "Config")
		if c.Version < 1 {
			d.Fatalf("version %d: a batch that forgets its version would not be stale", c.Version)
		}
		c.Version = 0
		d.same(c, store.Config{}, "configuration")
	}},
	{"creates, replaces and returns endpoints whole", func(d *driver) {
		version := d.config().Version
		ep := endpoint("ep_0", acme)
		ep.Filter, ep.Description = `event.data.amount > 5`, "né"
		p := d.put(ep)
		d.same(p, store.Put{Revision: 1, Version: d.grown(version, "create")}, "put")
		ep.Revision = 1
		c := d.config()
		d.same(len(c.Endpoints), 4, "endpoints")
		d.same(c.Endpoints[0], ep, "endpoint, and the first by id")

		ep.Status, ep.DisabledReason, ep.DisabledAt, ep.RateLimit = grapnel.EndpointDisabled, "410", at(50), nil
		ep.Secrets = append(ep.Secrets, grapnel.Secret{Text: "whsk_x", CreatedAt: at(3)})
		ep.EventTypes, ep.Headers, ep.DeletedAt = nil, nil, at(51)
		p2 := d.put(ep)
		d.same(p2, store.Put{Revision: 2, Version: d.grown(p.Version, "replace")}, "put")
		ep.Revision = 2
		d.same(d.config().Endpoints[0], ep, "replaced")
		d.same(d.config().Version, p2.Version, "reading makes no version")
	}},
	{"refuses an endpoint that was changed meanwhile", func(d *driver) {
		ep := endpoint(epA, acme)
		before := d.config()
		for _, revision := range []int64{0, 2, 17, -1} {
			ep.Revision = revision
			_, err := d.PutEndpoint(d.ctx, store.Of(acme), ep, store.With{})
			d.code(err, grapnel.CodeConflict, "another revision")
		}
		ep = endpoint("ep_absent", acme)
		ep.Revision = 1
		_, err := d.PutEndpoint(d.ctx, everyone, ep, store.With{})
		d.code(err, grapnel.CodeNotFound, "absent")
		d.same(d.config(), before, "configuration")
	}},
	{"removes a deleted endpoint for which nothing waits", func(d *driver) {
		n := d.lane("k", 1)
		d.code(d.RemoveEndpoint(d.ctx, "ep_absent"), grapnel.CodeNotFound, "absent")
		for _, id := range []string{epA, epB} {
			d.code(d.RemoveEndpoint(d.ctx, id), grapnel.CodeConflict, "not deleted, whether something waits or not")
		}
		ep := endpoint(epA, acme)
		ep.Revision, ep.DeletedAt = 1, at(9)
		d.put(ep)
		d.code(d.RemoveEndpoint(d.ctx, epA), grapnel.CodeConflict, "something waits")
		d.end(epA, ending(10), 10, 1)
		version := d.config().Version
		d.must(d.RemoveEndpoint(d.ctx, epA), "RemoveEndpoint")
		d.grown(version, "remove")
		d.same(len(d.config().Endpoints), 2, "endpoints left")
		d.same(d.delivery(n[0]).EndpointID, epA, "its deliveries stay")
		d.code(d.RemoveEndpoint(d.ctx, epA), grapnel.CodeNotFound, "removed")
	}},
	{"stores policies under names of each tenant", func(d *driver) {
		put := func(p grapnel.NamedPolicy) store.Put {
			d.Helper()
			done, err := d.PutPolicy(d.ctx, store.Of(p.Tenant), p, store.With{})
			d.must(err, "PutPolicy")
			return done
		}
		version := d.config().Version
		second, first := named("pol_2", acme, "fast"), named("pol_1", acme, "slow")
		d.same(put(second).Revision, int64(1), "revision")
		d.same(put(first).Version, d.grown(version, "create"), "version")
		put(named("pol_3", bolt, "fast"))
		taken := named("pol_4", acme, "fast")
		_, err := d.PutPolicy(d.ctx, everyone, taken, store.With{})
		d.code(err, grapnel.CodeConflict, "a name that is used")
		taken.ID = "pol_1"
		_, err = d.PutPolicy(d.ctx, everyone, taken, store.With{})
		d.code(err, grapnel.CodeConflict, "renamed to a name that is used")

		second.UpdatedAt, second.Revision = at(8), 17
		d.same(put(second).Revision, int64(2), "revision of what was replaced, whatever was given")
		second.Name, second.UpdatedAt = "faster", at(9)
		d.same(put(second).Revision, int64(3), "revision of what was renamed")
		put(named("pol_4", acme, "fast"))
		first.Revision, second.Revision = 1, 3
		d.same(d.config().Policies[:2], []grapnel.NamedPolicy{first, second}, "policies by id")

		version = d.config().Version
		d.must(d.DeletePolicy(d.ctx, store.Of(acme), "pol_2", store.With{}), "DeletePolicy")
		d.grown(version, "delete")
		d.code(d.DeletePolicy(d.ctx, everyone, "pol_2", store.With{}), grapnel.CodeNotFound, "deleted")
		put(named("pol_5", acme, "faster"))
		d.same(len(d.config().Policies), 4, "policies")
	}},
	{"keeps keys", func(d *driver) {
		put := func(k grapnel.Key) store.Put {
			d.Helper()
			done, err := d.PutKey(d.ctx, everyone, k, store.With{})
			d.must(err, "PutKey")
			return done
		}
		version := d.config().Version
		all, one := apiKey("key_2", ""), apiKey("key_1", acme)
		d.same(put(all).Version, d.grown(version, "create"), "version")
		version = d.config().Version
		put(one)
		d.same(d.config().Keys, []grapnel.Key{one, all}, "keys by id")
		version = d.grown(version, "create")
		one.Name, one.Scopes, one.Hash = "renamed", nil, [32]byte{31: 9}
		put(one)
		d.same(d.config().Keys[0], one, "replaced")
		version = d.grown(version, "replace")
		d.must(d.DeleteKey(d.ctx, store.Of(acme), "key_1", store.With{}), "DeleteKey")
		d.grown(version, "delete")
		d.code(d.DeleteKey(d.ctx, everyone, "key_1", store.With{}), grapnel.CodeNotFound, "deleted")
		d.same(d.config().Keys, []grapnel.Key{all}, "keys")
	}},
	{"keeps access records", func(d *driver) {
		put := func(r grapnel.AccessRecord) store.Put {
			d.Helper()
			done, err := d.PutAccess(d.ctx, store.Everyone(), r, store.With{})
			d.must(err, "PutAccess")
			return done
		}
		version := d.config().Version
		all, one := accessRecord("b", ""), accessRecord("a", acme)
		d.same(put(all), store.Put{Version: d.grown(version, "create")}, "put")
		version = d.config().Version
		put(one)
		d.same(d.config().Access, []grapnel.AccessRecord{one, all}, "access records by id")
		version = d.grown(version, "create")
		one.Series, one.Ended, one.Portal = "t", nil, nil
		put(one)
		d.same(d.config().Access[0], one, "replaced")
		version = d.grown(version, "replace")
		d.must(d.DeleteAccess(d.ctx, store.Of(acme), "a", store.With{}), "DeleteAccess")
		d.grown(version, "delete")
		d.code(d.DeleteAccess(d.ctx, everyone, "a", store.With{}), grapnel.CodeNotFound, "deleted")
		d.same(d.config().Access, []grapnel.AccessRecord{all}, "access records")
	}},
	{"says the highest number of any delivery", func(d *driver) {
		d.same(d.config().Newest, int64(0), "none yet")
		n := d.lane("k", 2)
		d.same(d.config().Newest, n[1], "one that waits")
		version := d.config().Version
		d.change(delivered(n[0], 0, 5))
		d.same(d.config().Newest, n[1], "recording makes none")
		gone := to(epB)
		gone.Drop = "disabled"
		d.publish(incoming(event("dropped", "k", 6), gone))
		dropped := d.of("dropped")[0].Seq
		d.same(d.config().Newest, dropped, "one that was dropped at once")
		again := d.redeliver(dropped, 7).Delivery
		d.end(epB, ending(8), 10, 1)
		d.same(d.config().Newest, again, "one that is over")
		d.same(d.config().Version, version, "deliveries make no version")
	}},
	{"keeps times in microseconds", func(d *driver) {
		ep := endpoint("ep_0", acme)
		ep.CreatedAt = at(1).In(time.FixedZone("elsewhere", -3600)).Add(1999)
		ep.Secrets[0].ExpiresAt = at(2).Add(1999)
		d.put(ep)
		kept := d.config().Endpoints[0]
		d.same(kept.CreatedAt, at(1).Add(time.Microsecond), "created")
		d.same(kept.CreatedAt.Location().String(), "UTC", "location")
		d.same(kept.Secrets[0].ExpiresAt, at(2).Add(time.Microsecond), "expires")
		d.same(kept.DeletedAt.IsZero() && kept.DisabledAt.IsZero(), true, "a zero time stays zero")
	}},
}
