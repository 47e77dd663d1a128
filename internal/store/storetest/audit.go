package storetest

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

func entry(tenant, endpoint string, verb grapnel.Verb, when float64) *grapnel.AuditEntry {
	return &grapnel.AuditEntry{
		At: at(when), Tenant: tenant, Actor: "key_1", Verb: verb, Endpoint: endpoint, Delivery: "dlv_" + endpoint, Reason: "because, né",
	}
}

// audit returns the entries that a query selects, without limit unless it has one.
func (d *driver) audit(q store.AuditQuery) []grapnel.AuditEntry {
	d.Helper()
	q.Limit = cmp.Or(q.Limit, math.MaxInt32)
	list, err := d.AuditList(d.ctx, everyone, q)
	d.must(err, "AuditList")
	for i := 1; i < len(list); i++ {
		if list[i].Seq >= list[i-1].Seq || list[i].Seq < 1 {
			d.Fatalf("the entries are not in order: %+v", list)
		}
	}
	return list
}

// reasons are the words of entries, which tell them apart.
func reasons(list []grapnel.AuditEntry) []string {
	return each(list, func(e *grapnel.AuditEntry) string { return e.Reason })
}

func (d *driver) note(e *grapnel.AuditEntry, reason string) {
	d.Helper()
	noted := *e
	noted.Reason = reason
	d.must(d.Note(d.ctx, noted), "Note")
}

var auditCases = []testCase{
	{"stores an entry whole, and gives it a row id", func(d *driver) {
		d.same(d.audit(store.AuditQuery{}), []grapnel.AuditEntry{}, "none yet")
		end, err := d.AuditEnd(d.ctx)
		d.must(err, "AuditEnd")
		d.same(end, int64(0), "the end of none")
		given := *entry(acme, epA, grapnel.VerbProbe, 5)
		given.Seq = 17
		bare := grapnel.AuditEntry{Verb: "a verb of tomorrow"}
		d.must(d.Note(d.ctx, given), "Note")
		d.must(d.Note(d.ctx, bare), "Note")
		list := d.audit(store.AuditQuery{})
		d.same(len(list), 2, "entries")
		bare.Seq, given.Seq = list[0].Seq, list[1].Seq
		d.same(list, []grapnel.AuditEntry{bare, given}, "entries, the newest first")
	}},
	{"stores an entry once", func(d *driver) {
		e := *entry(acme, epA, grapnel.VerbProbe, 5)
		for range 2 {
			d.must(d.Note(d.ctx, e), "Note")
			e.At = e.At.Add(1) // times are stored in microseconds
		}
		d.same(len(d.audit(store.AuditQuery{})), 1, "entries")
		for i, change := range []func(*grapnel.AuditEntry){
			func(e *grapnel.AuditEntry) { e.At = at(6) },
			func(e *grapnel.AuditEntry) { e.Tenant = bolt },
			func(e *grapnel.AuditEntry) { e.Actor = "key_2" },
			func(e *grapnel.AuditEntry) { e.Verb = grapnel.VerbRetry },
			func(e *grapnel.AuditEntry) { e.Endpoint = "" },
			func(e *grapnel.AuditEntry) { e.Delivery = "" },
			func(e *grapnel.AuditEntry) { e.Reason = "" },
		} {
			other := e
			change(&other)
			d.must(d.Note(d.ctx, other), "Note")
			d.same(len(d.audit(store.AuditQuery{})), i+2, "entries")
		}
	}},
	{"stores an entry with the change that it is about", func(d *driver) {
		n := d.lane("k", 2)
		for i, c := range []store.Change{retried(n[0], 0, 4, 9), by(n[0], grapnel.Skipped, 10), by(n[1], grapnel.Pending, 11)} {
			c.Due, c.Audit = at(20), entry(acme, epA, grapnel.VerbSkip, float64(i))
			d.change(c)
			d.same(d.record(c)[0].Applied, i == 2, "applied once more, because nothing about it shows that it was")
		}
		d.same(len(d.audit(store.AuditQuery{})), 3, "entries")
		late := delivered(n[0], 7, 12)
		late.Audit = entry(acme, epA, grapnel.VerbSkip, 12)
		absent := delivered(n[0]+1000, 0, 12)
		absent.Audit = late.Audit
		d.record(late, absent)
		d.same(len(d.audit(store.AuditQuery{})), 3, "entries about what did not happen")
	}},
	{"stores an entry with a change of a key, an access record or a policy", func(d *driver) {
		with := func(verb grapnel.Verb, id string) store.With { return store.With{Audit: entry(acme, id, verb, 5)} }
		k, r, p := apiKey("key_a", acme), accessRecord("record_a", acme), named("pol_a", acme, "fast")
		for _, write := range []func(store.With) error{
			func(w store.With) error { _, err := d.PutKey(d.ctx, everyone, k, w); return err },
			func(w store.With) error { _, err := d.PutPolicy(d.ctx, everyone, p, w); return err },
			func(w store.With) error { return d.DeleteKey(d.ctx, everyone, k.ID, w) },
			func(w store.With) error { _, err := d.PutAccess(d.ctx, everyone, r, w); return err },
			func(w store.With) error { return d.DeleteAccess(d.ctx, everyone, r.ID, w) },
			func(w store.With) error { return d.DeletePolicy(d.ctx, everyone, p.ID, w) },
		} {
			n := len(d.audit(store.AuditQuery{}))
			d.must(write(with(grapnel.VerbChange, fmt.Sprint("id_", n))), "a write")
			list := d.audit(store.AuditQuery{})
			d.same(len(list), n+1, "entries")
			d.same(list[0].Endpoint, fmt.Sprint("id_", n), "the newest entry's subject")
		}
		n := len(d.audit(store.AuditQuery{}))
		d.code(d.DeleteKey(d.ctx, everyone, k.ID, with(grapnel.VerbDelete, k.ID)), grapnel.CodeNotFound, "DeleteKey, absent")
		_, err := d.PutKey(d.ctx, store.Of(bolt), k, with(grapnel.VerbCreate, k.ID))
		d.code(err, grapnel.CodeNotFound, "PutKey, not in scope")
		d.same(len(d.audit(store.AuditQuery{})), n, "entries about what did not happen")
	}},
	{"stores an entry with a redelivery", func(d *driver) {
		n := d.lane("k", 1)
		again := func(scope store.Scope, at_ float64, once *store.Once) error {
			e := entry(acme, epA, grapnel.VerbRetry, at_)
			e.Reason = fmt.Sprint("at ", at_)
			_, err := d.Again(d.ctx, scope, store.Redelivery{Of: n[0], At: at(at_), Once: once, Audit: e})
			return err
		}
		d.must(again(everyone, 1, nil), "Again")
		d.must(again(everyone, 2, once("key", 1, 2)), "Again")
		d.must(again(everyone, 3, once("key", 1, 3)), "Again")
		d.code(again(everyone, 4, once("key", 2, 4)), grapnel.CodeMismatch, "Again")
		d.code(again(store.Of(bolt), 5, nil), grapnel.CodeNotFound, "Again")
		d.same(reasons(d.audit(store.AuditQuery{})), []string{"at 2", "at 1"}, "entries")
	}},
	{"lists by tenant, endpoint and delivery", func(d *driver) {
		for i, e := range []*grapnel.AuditEntry{
			entry(acme, epA, grapnel.VerbPause, 1), entry(acme, epB, grapnel.VerbPause, 2), entry(bolt, epX, grapnel.VerbPause, 3),
			entry(acme, epA, grapnel.VerbRetry, 4), entry(acme, "", grapnel.VerbCreate, 5), entry(acme, epA, grapnel.VerbResume, 6),
			entry("", "", grapnel.VerbCreate, 7),
		} {
			if e.Verb != grapnel.VerbRetry {
				e.Delivery = ""
			}
			d.note(e, fmt.Sprint("r", i+1))
		}
		fourth := d.audit(store.AuditQuery{})[3].Seq
		end, err := d.AuditEnd(d.ctx)
		d.must(err, "AuditEnd")
		d.same(end, d.audit(store.AuditQuery{})[0].Seq, "the end")
		for _, c := range []struct {
			what  string
			scope store.Scope
			q     store.AuditQuery
			want  []string
		}{
			{"all", everyone, store.AuditQuery{Limit: 100}, []string{"r7", "r6", "r5", "r4", "r3", "r2", "r1"}},
			{"limit", everyone, store.AuditQuery{Limit: 2}, []string{"r7", "r6"}},
			{"no limit is none", everyone, store.AuditQuery{}, nil},
			{"before", everyone, store.AuditQuery{Before: fourth, Limit: 2}, []string{"r3", "r2"}},
			{"after", everyone, store.AuditQuery{After: fourth, Limit: 2}, []string{"r7", "r6"}},
			{"the oldest first", everyone, store.AuditQuery{Oldest: true, Limit: 3}, []string{"r1", "r2", "r3"}},
			{"the oldest after", everyone, store.AuditQuery{Oldest: true, After: fourth, Limit: 2}, []string{"r5", "r6"}},
			{"the oldest between", store.Of(acme), store.AuditQuery{Oldest: true, After: fourth - 1, Before: fourth + 2, Endpoint: epA, Limit: 9},
				[]string{"r4"}},
			{"tenant", everyone, store.AuditQuery{Tenant: acme, Limit: 100}, []string{"r6", "r5", "r4", "r2", "r1"}},
			{"tenant that nobody is", everyone, store.AuditQuery{Tenant: "nobody", Limit: 100}, nil},
			{"endpoint", everyone, store.AuditQuery{Endpoint: epA, Limit: 100}, []string{"r6", "r4", "r1"}},
			{"endpoint, before and limit", everyone, store.AuditQuery{Endpoint: epA, Before: fourth, Limit: 5}, []string{"r1"}},
			{"endpoint of another tenant", everyone, store.AuditQuery{Endpoint: epA, Tenant: bolt, Limit: 100}, nil},
			{"delivery", everyone, store.AuditQuery{Delivery: "dlv_" + epA, Limit: 100}, []string{"r4"}},
			{"delivery of another endpoint", everyone, store.AuditQuery{Delivery: "dlv_" + epA, Endpoint: epB, Limit: 100}, nil},
			{"everything at once", everyone, store.AuditQuery{Delivery: "dlv_" + epA, Endpoint: epA, Tenant: acme, Before: fourth + 1,
				Limit: 1}, []string{"r4"}},
			{"scope", store.Of(bolt), store.AuditQuery{Limit: 100}, []string{"r3"}},
			{"scope and limit", store.Of(acme), store.AuditQuery{Before: fourth, Limit: 1}, []string{"r2"}},
			{"scope and its tenant", store.Of(acme), store.AuditQuery{Tenant: acme, Endpoint: epB, Limit: 100}, []string{"r2"}},
			{"scope and another tenant", store.Of(acme), store.AuditQuery{Tenant: bolt, Limit: 100}, nil},
			{"scope and another tenant's endpoint", store.Of(acme), store.AuditQuery{Endpoint: epX, Limit: 100}, nil},
			{"scope of nobody", store.Of(""), store.AuditQuery{Limit: 100}, nil},
			{"zero scope", store.Scope{}, store.AuditQuery{Limit: 100}, nil},
		} {
			list, err := d.AuditList(d.ctx, c.scope, c.q)
			d.must(err, "AuditList")
			d.same(reasons(list), c.want, c.what)
		}
	}},
	{"keeps times in microseconds and UTC", func(d *driver) {
		e := entry(acme, epA, grapnel.VerbTest, 0)
		e.At = at(1).In(time.FixedZone("elsewhere", 3600)).Add(1999)
		n := d.lane("k", 1)
		c := delivered(n[0], 0, 4)
		c.Audit = e
		d.change(c)
		kept := d.audit(store.AuditQuery{})[0].At
		d.same(kept, at(1).Add(time.Microsecond), "at")
		d.same(kept.Location().String(), "UTC", "location")
	}},
}
