package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// incomingFrom is an event that came in through a source.
func incomingFrom(source, id, key string, accepted float64, targets ...store.Target) store.Incoming {
	in := incoming(event(id, key, accepted), targets...)
	in.Event.Source, in.Event.Intake = source, intake(source, accepted)
	return in
}

func intake(source string, when float64) *grapnel.Intake {
	return &grapnel.Intake{
		Source: source, At: at(when), Method: "POST", Path: "/in/" + source + "?a=b", Remote: "192.0.2.1:4711",
		Headers: []grapnel.Header{{Name: "X-Sig", Value: "v1=né"}, {Name: "Authorization", Value: "[redacted]"}, {Name: "X-Sig", Value: ""}},
		Checks:  []grapnel.Check{{Passed: true, Text: "timestamp 4 s old"}, {Text: "signature matches no secret"}},
		By:      grapnel.ByEventID, Known: "evt_of_theirs",
	}
}

func aside(id, tenant, source string, why grapnel.AsideReason, when float64) grapnel.Aside {
	a := grapnel.Aside{ID: id, Tenant: tenant, Why: why, ContentType: "text/plain", Body: []byte("body of " + id),
		Intake: *intake(source, when)}
	a.Size = len(a.Body)
	return a
}

func (d *driver) setAside(all ...grapnel.Aside) {
	d.Helper()
	for _, a := range all {
		d.must(d.SetAside(d.ctx, a), "SetAside")
	}
}

// asides returns the ids of a list in the scope Everyone.
func (d *driver) asides(q store.AsideQuery) []string {
	d.Helper()
	return d.asidesOf(everyone, q)
}

func (d *driver) asidesOf(scope store.Scope, q store.AsideQuery) []string {
	d.Helper()
	q.Limit = cmp.Or(q.Limit, math.MaxInt32)
	list, err := d.AsideList(d.ctx, scope, q)
	d.must(err, "AsideList")
	return each(list, func(a *grapnel.Aside) string { return a.ID })
}

var inboxCases = []testCase{
	{"stores an event's intake, and shows its source", func(d *driver) {
		in := incomingFrom("src_1", "a", "k", 5, to(epA))
		seq := d.publish(in, incoming(event("b", "k", 5), to(epA))).Events[0].Seq
		want := *event("a", "k", 5)
		want.Seq, want.Source = seq, "src_1"
		some, err := d.Events(d.ctx, []int64{seq})
		d.must(err, "Events")
		d.same(*some[0], want, "on its way")
		d.same(d.eventList(store.EventQuery{})[1], want, "in a list")
		d.same(in.Event.Intake, intake("src_1", 5), "the caller's own is left alone")
		in.Event.Intake.Headers[0].Value, in.Event.Intake.Checks[0].Text = "spoilt", "spoilt"
		want.Intake = intake("src_1", 5)
		for range 2 {
			one, _, err := d.Event(d.ctx, store.Of(acme), "", "a")
			d.must(err, "Event")
			d.same(*one, want, "by itself")
			one.Intake.Headers[0].Value, one.Intake.Checks[0].Text, one.Intake.Path = "spoilt", "spoilt", "spoilt"
		}
		d.reopen()
		one, _, err := d.Event(d.ctx, everyone, acme, "a")
		d.must(err, "Event")
		d.same(*one, want, "after a restart")
		bare, _, err := d.Event(d.ctx, everyone, acme, "b")
		d.must(err, "Event")
		d.same([]any{bare.Source, bare.Intake}, []any{"", (*grapnel.Intake)(nil)}, "of one that did not come in")
	}},
	{"stores a source without intake, an intake without source, and empty ones", func(d *driver) {
		only, how, empty := incoming(event("only", "", 1)), incoming(event("how", "", 1)), incoming(event("empty", "", 1))
		only.Event.Source = "src_1"
		how.Event.Intake = intake("src_1", 1)
		how.Event.Intake.At = at(1).In(time.FixedZone("elsewhere", 3600)).Add(999)
		empty.Event.Intake = &grapnel.Intake{By: "of its own"}
		d.publish(only, how, empty)
		for id, want := range map[string]struct {
			source string
			intake *grapnel.Intake
		}{"only": {"src_1", nil}, "how": {"", intake("src_1", 1)}, "empty": {"", &grapnel.Intake{By: "of its own"}}} {
			e, _, err := d.Event(d.ctx, everyone, "", id)
			d.must(err, "Event")
			d.same(e.Source, want.source, "source of "+id)
			d.same(e.Intake, want.intake, "intake of "+id)
		}
	}},
	{"lists deliveries of a source's events, also those made again", func(d *driver) {
		for i := range 9 {
			d.publish(incomingFrom([]string{"src_1", "src_2", ""}[i%3], fmt.Sprint("e", i), []string{"", "k"}[i/3%2], float64(i), to(epA), to(epB)))
		}
		d.redeliver(d.of("e0")[0].Seq, 100)
		for _, c := range []struct {
			what string
			q    store.DeliveryQuery
			want []string
		}{
			{"a source", store.DeliveryQuery{Source: "src_1", Endpoint: epA}, []string{"e0>ep_a", "e6>ep_a", "e3>ep_a", "e0>ep_a"}},
			{"limit", store.DeliveryQuery{Source: "src_2", Limit: 3}, []string{"e7>ep_b", "e7>ep_a", "e4>ep_b"}},
			{"key", store.DeliveryQuery{Source: "src_2", Key: "k", Endpoint: epB}, []string{"e4>ep_b"}},
			{"none that there is", store.DeliveryQuery{Source: "src_"}, nil},
		} {
			d.same(labels(d.list(c.q)), c.want, c.what)
		}
	}},
	{"lists events of a source, with other filters too", func(d *driver) {
		for i := range 12 {
			in := incomingFrom([]string{"src_1", "src_2", ""}[i%3], fmt.Sprint("e", i), []string{"", "k"}[i/3%2], float64(i))
			if i%4 == 3 {
				in.Event.Type = "user.made"
			}
			if i == 6 {
				in.Event.Tenant = bolt
			}
			d.publish(in)
		}
		for _, c := range []struct {
			what  string
			scope store.Scope
			q     store.EventQuery
			want  []string
		}{
			{"a source", everyone, store.EventQuery{Source: "src_1"}, []string{"e9", "e6", "e3", "e0"}},
			{"none that there is", everyone, store.EventQuery{Source: "src_"}, nil},
			{"type", everyone, store.EventQuery{Source: "src_1", Type: "user.*"}, []string{"e3"}},
			{"key", everyone, store.EventQuery{Source: "src_2", Key: "k"}, []string{"e10", "e4"}},
			{"tenant", everyone, store.EventQuery{Source: "src_1", Tenant: bolt}, []string{"e6"}},
			{"scope", store.Of(acme), store.EventQuery{Source: "src_1"}, []string{"e9", "e3", "e0"}},
			{"another's scope", store.Of(bolt), store.EventQuery{Source: "src_2"}, nil},
			{"nobody's scope", store.Scope{}, store.EventQuery{Source: "src_1"}, nil},
			{"time", everyone, store.EventQuery{Source: "src_1", From: at(3), To: at(9)}, []string{"e6", "e3"}},
			{"limit", everyone, store.EventQuery{Source: "src_1", Limit: 2}, []string{"e9", "e6"}},
		} {
			if c.q.Limit == 0 {
				c.q.Limit = 100
			}
			list, err := d.EventList(d.ctx, c.scope, c.q)
			d.must(err, "EventList")
			d.same(eventIDs(list), c.want, c.what)
		}
		nine := d.eventList(store.EventQuery{Source: "src_1"})[0]
		d.same(len(d.eventList(store.EventQuery{Source: "src_1", Before: nine.Seq})), 3, "the next page")
		d.same(len(d.eventList(store.EventQuery{Type: "user.*"})), 3, "a type, from whatever source")
	}},
	{"sets a request aside whole", func(d *driver) {
		long := aside("asd_1", acme, "src_1", grapnel.AsideConflict, 5)
		long.Event, long.Body, long.Size = "evt_1", bytes.Repeat([]byte("same \x00\xff"), 5000), 17
		at1 := long.At
		long.At = at1.In(time.FixedZone("elsewhere", 3600)).Add(999)
		bare := grapnel.Aside{ID: "asd_2", Tenant: bolt, Why: grapnel.AsideRefused}
		d.setAside(long, bare)
		want := long
		want.At, want.Size, want.Body = at1, len(long.Body), bytes.Clone(long.Body)
		want.Headers, want.Checks = intake("", 0).Headers, intake("", 0).Checks
		long.Body[0], long.Headers[0].Value, long.Checks[0].Text = 'x', "spoilt", "spoilt"
		spoil := func(a grapnel.Aside) {
			a.Body[0], a.Headers[0].Value, a.Checks[0].Text = 'y', "spoilt", "spoilt"
		}
		look := func() {
			d.Helper()
			got, err := d.Aside(d.ctx, store.Of(acme), "asd_1")
			d.must(err, "Aside")
			d.same(got, want, "set aside")
			spoil(got)
			got, err = d.Aside(d.ctx, everyone, "asd_2")
			d.must(err, "Aside")
			d.same(got, bare, "with nothing in it")
			list, err := d.AsideList(d.ctx, everyone, store.AsideQuery{Limit: 10})
			d.must(err, "AsideList")
			listed := want
			listed.Body = nil
			d.same(list, []grapnel.Aside{bare, listed}, "list")
			list[1].Headers[0].Value = "spoilt"
		}
		look()
		again := aside("asd_1", bolt, "src_2", grapnel.AsideUnverified, 9)
		d.setAside(again)
		look()
		d.reopen()
		look()
		d.same(len(d.eventList(store.EventQuery{})), 0, "events")
	}},
	{"sets nothing aside for no reason", func(d *driver) {
		for _, why := range []grapnel.AsideReason{"", "unheard of"} {
			d.code(d.SetAside(d.ctx, aside("asd_1", acme, "src_1", why, 5)), grapnel.CodeInvalid, "SetAside")
		}
		d.same(len(d.asides(store.AsideQuery{})), 0, "set aside")
	}},
	{"changes a request set aside, and deletes it", func(d *driver) {
		one, other := aside("asd_1", acme, "src_1", grapnel.AsideUnverified, 5), aside("asd_2", acme, "src_1", grapnel.AsideUnverified, 6)
		d.setAside(one, other)
		changed := one
		changed.Why, changed.Event, changed.By, changed.Known = grapnel.AsideConflict, "evt_1", grapnel.ByContent, "abc"
		changed.Checks = []grapnel.Check{{Passed: true, Text: "signature matches secret 1 of 1"}}
		change := func(a grapnel.Aside, drop bool) {
			d.Helper()
			d.must(d.ChangeAside(d.ctx, a, drop), "ChangeAside")
		}
		foreign, absent := changed, changed
		foreign.Tenant, absent.ID = bolt, "asd_9"
		for _, drop := range []bool{true, false} {
			change(foreign, drop)
			change(absent, drop)
		}
		look := func(want grapnel.Aside) {
			d.Helper()
			got, err := d.Aside(d.ctx, everyone, want.ID)
			d.must(err, "Aside")
			d.same(got, want, "request "+want.ID)
		}
		look(one)
		change(changed, false)
		look(changed)
		d.reopen()
		look(changed)
		look(other)
		d.same(d.asides(store.AsideQuery{Why: grapnel.AsideConflict}), []string{"asd_1"}, "in conflict")
		d.same(d.asides(store.AsideQuery{Why: grapnel.AsideUnverified}), []string{"asd_2"}, "unverified")
		one.Why = "unheard of"
		d.code(d.ChangeAside(d.ctx, one, false), grapnel.CodeInvalid, "ChangeAside")
		for range 2 {
			change(changed, true)
			d.same(d.asides(store.AsideQuery{}), []string{"asd_2"}, "left")
		}
	}},
	{"lists requests set aside, the newest first", func(d *driver) {
		d.setAside(
			aside("asd_1", acme, "src_1", grapnel.AsideUnverified, 5), aside("asd_2", acme, "src_1", grapnel.AsideConflict, 4),
			aside("asd_4", bolt, "src_3", grapnel.AsideUnverified, 3), aside("asd_3", acme, "src_2", grapnel.AsideUnverified, 2),
			aside("asd_5", acme, "src_1", grapnel.AsideUnverified, 1))
		for _, c := range []struct {
			what string
			q    store.AsideQuery
			want []string
		}{
			{"all", store.AsideQuery{}, []string{"asd_5", "asd_4", "asd_3", "asd_2", "asd_1"}},
			{"tenant", store.AsideQuery{Tenant: acme}, []string{"asd_5", "asd_3", "asd_2", "asd_1"}},
			{"source", store.AsideQuery{Source: "src_1"}, []string{"asd_5", "asd_2", "asd_1"}},
			{"why", store.AsideQuery{Why: grapnel.AsideUnverified}, []string{"asd_5", "asd_4", "asd_3", "asd_1"}},
			{"all of them", store.AsideQuery{Why: grapnel.AsideConflict, Tenant: acme, Source: "src_1", Before: "asd_9"}, []string{"asd_2"}},
			{"of another tenant's source", store.AsideQuery{Tenant: bolt, Source: "src_1"}, nil},
			{"why not", store.AsideQuery{Why: "unheard of"}, nil},
			{"before", store.AsideQuery{Before: "asd_3"}, []string{"asd_2", "asd_1"}},
			{"before, of a tenant", store.AsideQuery{Before: "asd_3", Tenant: acme, Why: grapnel.AsideUnverified}, []string{"asd_1"}},
			{"limit", store.AsideQuery{Limit: 2, Source: "src_1"}, []string{"asd_5", "asd_2"}},
			{"after", store.AsideQuery{After: "asd_2"}, []string{"asd_3", "asd_4", "asd_5"}},
			{"after, of a source", store.AsideQuery{After: "asd", Source: "src_1", Why: grapnel.AsideUnverified}, []string{"asd_1", "asd_5"}},
			{"after, with a limit", store.AsideQuery{After: "asd", Tenant: acme, Limit: 2}, []string{"asd_1", "asd_2"}},
			{"between", store.AsideQuery{After: "asd_1", Before: "asd_4"}, []string{"asd_2", "asd_3"}},
		} {
			d.same(d.asides(c.q), c.want, c.what)
		}
		none, err := d.AsideList(d.ctx, everyone, store.AsideQuery{})
		d.must(err, "AsideList")
		d.same(len(none), 0, "no limit is none")
	}},
	{"shows requests set aside to their tenant only", func(d *driver) {
		d.setAside(aside("asd_1", acme, "src_1", grapnel.AsideUnverified, 5))
		for what, scope := range map[string]store.Scope{"zero scope": {}, "nobody": store.Of(""), "another": store.Of(bolt)} {
			_, err := d.Aside(d.ctx, scope, "asd_1")
			d.code(err, grapnel.CodeNotFound, what)
			for _, q := range []store.AsideQuery{{}, {Tenant: acme}, {Source: "src_1"}, {Why: grapnel.AsideUnverified}} {
				d.same(len(d.asidesOf(scope, q)), 0, what)
			}
		}
		d.same(d.asidesOf(store.Of(acme), store.AsideQuery{}), []string{"asd_1"}, "its own")
		_, err := d.Aside(d.ctx, everyone, "asd_2")
		d.code(err, grapnel.CodeNotFound, "absent")
	}},
	{"removes requests set aside long ago, the oldest first", func(d *driver) {
		for i, when := range []float64{30, 10, 20, 50} {
			d.setAside(aside(fmt.Sprint("asd_", i), acme, "src_1", grapnel.AsideUnverified, when))
		}
		n, err := d.Unlearn(d.ctx, at(1e6), time.Time{}, 10)
		d.must(err, "Unlearn")
		d.same(n, 0, "removed, where no time was said")
		d.unlearn(1e6, 10, 10, 0) // excluding that instant
		d.unlearn(1e6, 40, 0, 0)
		d.unlearn(1e6, 40, 1, 1)
		d.same(d.asides(store.AsideQuery{}), []string{"asd_3", "asd_2", "asd_0"}, "left")
		d.reopen()
		d.receive("a", 1, known("x", 1, 2))
		d.unlearn(1e6, 40, 10, 3) // of both kinds
		d.same(d.asides(store.AsideQuery{}), []string{"asd_3"}, "left")
		_, err = d.Aside(d.ctx, everyone, "asd_0")
		d.code(err, grapnel.CodeNotFound, "removed")
		d.setAside(aside("asd_0", acme, "src_1", grapnel.AsideUnverified, 60))
		d.same(d.asides(store.AsideQuery{}), []string{"asd_3", "asd_0"}, "set aside once more")
	}},
}
