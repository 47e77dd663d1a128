package storetest

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func source(id, tenant, name string) grapnel.Source {
	return grapnel.Source{
		ID: id, Tenant: tenant, Name: name, Description: "né",
		Verify: grapnel.Verify{Scheme: "hmac", Header: "x-sig", Algorithm: "sha256", Encoding: "hex", Prefix: "v1=", Signed: "{timestamp}.{body}",
			TimestampHeader: "x-at", IDHeader: "x-id", TypeHeader: "x-type", Tolerance: time.Minute, Username: "u",
			Secrets: []grapnel.Secret{{Text: "whsec_bm90IGEgc2VjcmV0", CreatedAt: at(-10), ExpiresAt: at(1000)}, {Text: "old", CreatedAt: at(-20)}}},
		Dedupe: grapnel.Dedupe{By: []grapnel.DedupeBy{grapnel.ByEventID, grapnel.ByContent}, Window: time.Hour,
			Ignore: []string{"$.sent_at"}},
		OnUnverified: grapnel.Quarantine, Type: "body.type", Key: "body.id", PublicURL: "https://example.com/in",
		RateLimit: &grapnel.RateLimit{PerSecond: 2.5, Burst: 9}, MaxBody: 1 << 20, CreatedAt: at(-10), UpdatedAt: at(-9),
	}
}

func (d *driver) putSource(src grapnel.Source) store.Put {
	d.Helper()
	done, err := d.PutSource(d.ctx, store.Of(src.Tenant), src, store.With{})
	d.must(err, "PutSource")
	return done
}

func queue(id, tenant, name string) grapnel.Endpoint {
	ep := endpoint(id, tenant)
	ep.URL, ep.Queue = "", &grapnel.Queue{Name: name, Lease: 30 * time.Second, MaxLeased: 5}
	return ep
}

var sourceCases = []testCase{
	{"are created, replaced and returned whole", func(d *driver) {
		version := d.config().Version
		second, first := source("src_2", acme, "two"), source("src_1", bolt, "one")
		p := d.putSource(second)
		d.same(p, store.Put{Revision: 1, Version: d.grown(version, "create")}, "put")
		d.putSource(first)
		first.Revision, second.Revision = 1, 1
		d.same(d.config().Sources, []grapnel.Source{first, second}, "sources by id")

		second.Name, second.Paused, second.RateLimit, second.UpdatedAt = "second", true, nil, at(5)
		second.Verify = grapnel.Verify{Scheme: "none"}
		second.Dedupe = grapnel.Dedupe{}
		second.Outbox = &grapnel.Outbox{DSN: grapnel.Secret{Text: "postgres://db/orders?sslmode=require", CreatedAt: at(-3)}}
		second.Broker = &grapnel.Target{Kind: "nats", Address: "tls://n.example", Name: "S", Username: "me", Options: map[string]string{"consumer": "c"},
			Password: grapnel.Secret{Text: "canary", CreatedAt: at(-2)}}
		second.TLS = &grapnel.TLS{CA: "pem", ClientKey: grapnel.Secret{Text: "key", CreatedAt: at(-1)}}
		version = d.config().Version
		p = d.putSource(second)
		d.same(p, store.Put{Revision: 2, Version: d.grown(version, "replace")}, "put")
		second.Revision = 2
		d.same(d.config().Sources, []grapnel.Source{first, second}, "sources")
		d.same(d.config().Version, p.Version, "reading makes no version")
	}},
	{"that were changed meanwhile, or are absent, are refused", func(d *driver) {
		d.putSource(source("src_1", acme, "one"))
		before := d.config()
		for _, revision := range []int64{0, 2, 17, -1} {
			src := source("src_1", acme, "another")
			src.Revision = revision
			_, err := d.PutSource(d.ctx, store.Of(acme), src, store.With{})
			d.code(err, grapnel.CodeConflict, "another revision")
		}
		src := source("src_absent", acme, "absent")
		src.Revision = 1
		_, err := d.PutSource(d.ctx, everyone, src, store.With{})
		d.code(err, grapnel.CodeNotFound, "absent")
		d.same(d.config(), before, "configuration")
	}},
	{"have names that are a tenant's own", func(d *driver) {
		d.putSource(source("src_1", acme, "one"))
		d.putSource(source("src_2", acme, "two"))
		d.putSource(source("src_3", bolt, "one"))
		_, err := d.PutSource(d.ctx, everyone, source("src_4", acme, "one"), store.With{})
		d.code(err, grapnel.CodeConflict, "a name that is used")
		renamed := source("src_2", acme, "one")
		renamed.Revision = 1
		_, err = d.PutSource(d.ctx, everyone, renamed, store.With{})
		d.code(err, grapnel.CodeConflict, "renamed to a name that is used")
		renamed.Name = "three"
		d.putSource(renamed)
		d.putSource(source("src_4", acme, "two"))
		d.same(len(d.config().Sources), 4, "sources")
	}},
	{"are deleted, and their names are free", func(d *driver) {
		d.putSource(source("src_1", acme, "one"))
		for _, scope := range []store.Scope{{}, store.Of(bolt)} {
			_, err := d.DeleteSource(d.ctx, scope, "src_1", store.With{})
			d.code(err, grapnel.CodeNotFound, "out of scope")
		}
		version := d.config().Version
		p, err := d.DeleteSource(d.ctx, store.Of(acme), "src_1", store.With{})
		d.must(err, "DeleteSource")
		d.same(p, store.Put{Version: d.grown(version, "delete")}, "put")
		d.same(len(d.config().Sources), 0, "sources")
		_, err = d.DeleteSource(d.ctx, everyone, "src_1", store.With{})
		d.code(err, grapnel.CodeNotFound, "deleted")
		d.putSource(source("src_2", acme, "one"))
		d.same(d.putSource(source("src_1", acme, "again")).Revision, int64(1), "revision of one that is new again")
	}},
	{"are written by their tenant only, and move to no other tenant", func(d *driver) {
		d.putSource(source("src_1", acme, "one"))
		before := d.config()
		for _, scope := range []store.Scope{{}, store.Of(""), store.Of(bolt)} {
			_, err := d.PutSource(d.ctx, scope, source("src_new", acme, "new"), store.With{})
			d.code(err, grapnel.CodeNotFound, "new")
		}
		for _, tenant := range []string{acme, bolt} {
			src := source("src_1", tenant, "mine")
			src.Revision = 1
			_, err := d.PutSource(d.ctx, store.Of(bolt), src, store.With{})
			d.code(err, grapnel.CodeNotFound, "another one's")
		}
		moved := source("src_1", bolt, "moved")
		moved.Revision = 1
		_, err := d.PutSource(d.ctx, everyone, moved, store.With{})
		d.code(err, grapnel.CodeNotFound, "moved")
		d.same(d.config(), before, "configuration")
	}},
	{"are written once, with an entry and with news", func(d *driver) {
		with := func(key string, when float64) store.With {
			return store.With{Once: once(key, 1, when), Audit: entry(acme, "src_1", grapnel.VerbRetry, when), Operational: d.news("news "+key, when)}
		}
		writes := []struct {
			name string
			do   func(store.With) (store.Put, error)
		}{
			{"put", func(w store.With) (store.Put, error) {
				return d.PutSource(d.ctx, everyone, source("src_1", acme, "one"), w)
			}},
			{"delete", func(w store.With) (store.Put, error) { return d.DeleteSource(d.ctx, store.Of(acme), "src_1", w) }},
		}
		for i, write := range writes {
			when := float64(10 + i)
			stale := with("stale "+write.name, when)
			stale.Operational.Config--
			before := d.everything()
			_, err := write.do(stale)
			d.same(code(err), code(store.ErrStale), "stale news with "+write.name)
			d.same(d.everything(), before, "everything")

			done, err := write.do(with(write.name, when))
			d.must(err, write.name)
			d.same(len(done.Operational.Events), 1, "told")
			d.same(d.audit(store.AuditQuery{})[0].At, at(when), "entry")
			after := d.everything()
			again, err := write.do(with(write.name, when))
			d.must(err, write.name)
			d.same(string(again.Answer.Body), "store.Put at "+[]string{"10", "11"}[i], "the answer of then")
			other := with(write.name, when)
			other.Once.Fingerprint[0]++
			_, err = write.do(other)
			d.code(err, grapnel.CodeMismatch, "another request")
			d.same(d.everything(), after, "everything")
		}
	}},
	{"are the store's own, with times in microseconds, also after a restart", func(d *driver) {
		for round := range 2 {
			src := source("src_1", acme, "one")
			src.Revision = int64(round)
			src.CreatedAt = src.CreatedAt.In(time.FixedZone("elsewhere", -3600)).Add(999)
			src.Verify.Secrets[0].ExpiresAt = src.Verify.Secrets[0].ExpiresAt.Add(999)
			d.putSource(src)
			spoil := func(src *grapnel.Source) {
				src.Verify.Secrets[0].Text, src.Dedupe.By[0], src.Dedupe.Ignore[0], src.RateLimit.Burst = "x", "x", "x", 99
			}
			spoil(&src)
			for range 2 {
				want := source("src_1", acme, "one")
				want.Revision = int64(round + 1)
				got := d.config().Sources
				d.same(got, []grapnel.Source{want}, "sources")
				d.same(got[0].CreatedAt.Location().String(), "UTC", "location")
				spoil(&got[0])
			}
		}
		before := d.everything()
		d.reopen()
		d.same(d.everything(), before, "everything")
	}},
	{"a queue's name is its tenant's own, until it is marked as deleted", func(d *driver) {
		d.put(queue("que_1", acme, "work"))
		d.put(queue("que_2", bolt, "work"))
		_, err := d.PutEndpoint(d.ctx, everyone, queue("que_3", acme, "work"), store.With{})
		d.code(err, grapnel.CodeConflict, "a name that is used")
		d.put(queue("que_3", acme, "more"))
		renamed := queue("que_3", acme, "work")
		renamed.Revision = 1
		_, err = d.PutEndpoint(d.ctx, everyone, renamed, store.With{})
		d.code(err, grapnel.CodeConflict, "renamed to a name that is used")
		gone := queue("que_1", acme, "work")
		gone.Revision = 1
		d.put(gone) // again under its own name
		gone.Revision, gone.DeletedAt = 2, at(9)
		d.put(gone)
		d.put(renamed)
		gone.Revision = 3
		d.put(gone) // it is deleted, and its name is free
		d.must(d.RemoveEndpoint(d.ctx, "que_1"), "RemoveEndpoint")
		want := queue("que_3", acme, "work")
		want.Revision = 2
		d.same(d.config().Endpoints[len(d.config().Endpoints)-1], want, "queue")
	}},
}
