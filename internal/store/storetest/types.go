package storetest

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func eventType(id, tenant, name string) grapnel.EventType {
	return grapnel.EventType{
		ID: id, Tenant: tenant, Name: name, Description: "né", Check: grapnel.CheckRefuse, CreatedAt: at(1), UpdatedAt: at(2),
		Versions: []grapnel.TypeVersion{
			{Schema: ` {"type":"object", "maximum":1e400} `, Example: `{"a":"<&>"}`, Note: "the first", CreatedAt: at(1), DeprecatedAt: at(2)},
			{Schema: `true`, CreatedAt: at(2)},
		},
	}
}

var eventTypeCases = []testCase{
	{"are stored whole under names that are a tenant's own", func(d *driver) {
		put := func(t grapnel.EventType) store.Put {
			d.Helper()
			done, err := d.PutEventType(d.ctx, store.Of(t.Tenant), t, store.With{})
			d.must(err, "PutEventType")
			return done
		}
		version := d.config().Version
		second, first := eventType("typ_2", acme, "invoice.paid"), eventType("typ_1", acme, "invoice.sent")
		d.same(put(second), store.Put{Revision: 1, Version: d.grown(version, "create")}, "put")
		version = d.config().Version
		put(first)
		d.grown(version, "create")
		put(eventType("typ_3", bolt, "invoice.paid"))
		taken := eventType("typ_4", acme, "invoice.paid")
		_, err := d.PutEventType(d.ctx, everyone, taken, store.With{})
		d.code(err, grapnel.CodeConflict, "a name that is used")
		first.Revision, second.Revision = 1, 1
		d.same(d.config().Types[:2], []grapnel.EventType{first, second}, "event types by id")

		version = d.config().Version
		d.must(d.DeleteEventType(d.ctx, store.Of(acme), "typ_2", store.With{}), "DeleteEventType")
		d.grown(version, "delete")
		d.code(d.DeleteEventType(d.ctx, everyone, "typ_2", store.With{}), grapnel.CodeNotFound, "deleted")
		put(taken)
		d.same(len(d.config().Types), 3, "event types")
	}},
	{"are refused if they were changed meanwhile", func(d *driver) {
		et := eventType("typ_1", acme, "a")
		_, err := d.PutEventType(d.ctx, everyone, et, store.With{})
		d.must(err, "PutEventType")
		before := d.config()
		for _, revision := range []int64{0, 2, -1} {
			et.Revision = revision
			_, err := d.PutEventType(d.ctx, store.Of(acme), et, store.With{})
			d.code(err, grapnel.CodeConflict, "another revision")
		}
		absent := eventType("typ_absent", acme, "b")
		absent.Revision = 1
		_, err = d.PutEventType(d.ctx, everyone, absent, store.With{})
		d.code(err, grapnel.CodeNotFound, "absent")
		d.same(d.config(), before, "configuration")

		et.Revision = 1
		et.Versions = append(et.Versions, grapnel.TypeVersion{Schema: `{}`, CreatedAt: at(3).Add(time.Nanosecond)})
		done, err := d.PutEventType(d.ctx, everyone, et, store.With{})
		d.must(err, "PutEventType")
		d.same(done.Revision, int64(2), "revision")
		is := d.config().Types[0]
		d.same(is.Versions[2], grapnel.TypeVersion{Schema: `{}`, CreatedAt: at(3)}, "appended version, its time in microseconds")
	}},
	{"are of one tenant", func(d *driver) {
		_, err := d.PutEventType(d.ctx, everyone, eventType("typ_a", acme, "a"), store.With{})
		d.must(err, "PutEventType")
		before := d.config()
		for _, scope := range []store.Scope{{}, store.Of(""), store.Of(bolt)} {
			_, err := d.PutEventType(d.ctx, scope, eventType("typ_new", acme, "new"), store.With{})
			d.code(err, grapnel.CodeNotFound, "PutEventType, new")
			for _, tenant := range []string{acme, bolt} { // bolt: writing acme's
				et := eventType("typ_a", tenant, "a")
				et.Revision = 1
				_, err := d.PutEventType(d.ctx, scope, et, store.With{})
				d.code(err, grapnel.CodeNotFound, "PutEventType")
			}
			d.code(d.DeleteEventType(d.ctx, scope, "typ_a", store.With{}), grapnel.CodeNotFound, "DeleteEventType")
		}
		moved := eventType("typ_a", bolt, "a")
		moved.Revision = 1
		_, err = d.PutEventType(d.ctx, everyone, moved, store.With{})
		d.code(err, grapnel.CodeNotFound, "PutEventType, of another tenant")
		d.same(d.config(), before, "configuration")
	}},
	{"are written once, and with their audit entries", func(d *driver) {
		calls := 0
		with := store.With{Once: &store.Once{Key: "key_1/a", Now: at(1), Expires: at(100), Answer: func(any) store.Answer {
			calls++
			return store.Answer{Status: 201, Body: []byte("made")}
		}}, Audit: entry(acme, "typ_1", grapnel.VerbCreate, 3)}
		for range 2 {
			done, err := d.PutEventType(d.ctx, everyone, eventType("typ_1", acme, "a"), with)
			d.must(err, "PutEventType")
			d.same(done.Answer != nil, calls == 1 && done.Revision == 0, "answered before")
		}
		d.must(d.DeleteEventType(d.ctx, everyone, "typ_1", store.With{Audit: entry(acme, "typ_1", grapnel.VerbDelete, 4)}), "DeleteEventType")
		verbs := []grapnel.Verb{}
		for _, e := range d.audit(store.AuditQuery{}) {
			verbs = append(verbs, e.Verb)
		}
		d.same(verbs, []grapnel.Verb{grapnel.VerbDelete, grapnel.VerbCreate}, "entries")
	}},
	{"are the store's own, and the caller's own", func(d *driver) {
		et := eventType("typ_1", acme, "a")
		_, err := d.PutEventType(d.ctx, everyone, et, store.With{})
		d.must(err, "PutEventType")
		et.Versions[0].Note = "spoilt"
		for range 2 {
			is := d.config().Types[0]
			d.same(is.Versions[0].Note, "the first", "note")
			is.Versions[0].Note = "spoilt"
		}
	}},
	{"survive a restart", func(d *driver) {
		_, err := d.PutEventType(d.ctx, everyone, eventType("typ_1", acme, "a"), store.With{})
		d.must(err, "PutEventType")
		before := d.config()
		d.reopen()
		d.same(d.config(), before, "configuration")
	}},
}
