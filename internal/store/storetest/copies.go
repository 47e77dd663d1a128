package storetest

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

var copyCases = []testCase{
	{"of events are the store's own, and the caller's own", func(d *driver) {
		e := event("a", "k", 1)
		e.Metadata = map[string]string{"m": "1"}
		given := *e
		seq := d.publish(incoming(e, to(epA))).Events[0].Seq
		d.same(*e, given, "the caller's event is left alone")
		want := *event("a", "k", 1)
		want.Seq, want.Metadata = seq, map[string]string{"m": "1"}
		e.Data[0], e.Metadata["m"] = 'x', "2"
		spoil := func(e *grapnel.Event) {
			d.Helper()
			d.same(*e, want, "event")
			e.Data[0], e.Metadata["m"], e.Metadata["new"], e.Key = 'y', "3", "3", "z"
		}
		for range 2 {
			one, _, err := d.Event(d.ctx, everyone, acme, "a")
			d.must(err, "Event")
			spoil(one)
			list := d.eventList(store.EventQuery{})
			spoil(&list[0])
			some, err := d.Events(d.ctx, []int64{seq, seq})
			d.must(err, "Events")
			spoil(some[0])
			spoil(some[1])
		}
	}},
	{"of attempts and deliveries", func(d *driver) {
		n := d.lane("k", 1)
		c := retried(n[0], 0, 4, 9)
		d.change(c)
		c.Attempt.RequestHeaders[0].Value = "spoilt"
		c.Attempt.ResponseBody[0], c.Attempt.ResponseHeaders["retry-after"], c.Attempt.Error = 'x', "8", "spoilt"
		for range 2 {
			x := d.delivery(n[0])
			d.same(x.Attempts, []grapnel.Attempt{*attempt(1, 4)}, "attempts")
			x.Attempts[0].RequestHeaders[0].Value = "spoilt"
			x.Attempts[0].ResponseBody[0], x.Attempts[0].ResponseHeaders["retry-after"] = 'y', "9"
			x.Attempts[0].Number, x.Status = 7, grapnel.Failed
		}
		d.heads(epA)[0].Due = at(1000)
		h, _ := d.head(n[0])
		h.Due = at(1000)
		d.same(d.heads(epA)[0].Due, at(9), "due")
	}},
	{"of standings and entries", func(d *driver) {
		n := d.lane("k", 1)
		c := retried(n[0], 0, 4, 9)
		c.Standing, c.Audit = standing(epA, 1), entry(acme, epA, grapnel.VerbRetry, 4)
		d.change(c)
		c.Standing.Strikes, c.Standing.Cause, c.Audit.Reason = 99, "spoilt", "spoilt"
		for range 2 {
			standings, entries := d.standings(), d.audit(store.AuditQuery{})
			d.same(standings, []store.Standing{*standing(epA, 1)}, "standings")
			want := *entry(acme, epA, grapnel.VerbRetry, 4)
			want.Seq = entries[0].Seq
			d.same(entries, []grapnel.AuditEntry{want}, "entries")
			standings[0].Strikes, entries[0].Reason = 99, "spoilt"
		}
	}},
	{"of told events", func(d *driver) {
		n := d.lane("k", 1)
		e := event("news", "", 4)
		c := retried(n[0], 0, 4, 9)
		c.Operational = &store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(e, to(epB))}}
		given := *e
		d.change(c)
		d.same(*e, given, "the caller's event is left alone")
		e.Data[0] = 'x'
		kept, _, err := d.Event(d.ctx, everyone, acme, "news")
		d.must(err, "Event")
		d.same(string(kept.Data), string(event("news", "", 4).Data), "data")
	}},
	{"of configuration", func(d *driver) {
		// Each round gives fresh values and spoils them: the first creates, the second replaces.
		for round := range 2 {
			ep, p, k := endpoint("ep_0", acme), named("pol_0", acme, "n"), apiKey("key_0", acme)
			ep.Revision = int64(round)
			d.put(ep)
			_, err := d.PutPolicy(d.ctx, everyone, p, store.With{})
			d.must(err, "PutPolicy")
			_, err = d.PutKey(d.ctx, everyone, k, store.With{})
			d.must(err, "PutKey")
			a := accessRecord("record_0", acme)
			_, err = d.PutAccess(d.ctx, everyone, a, store.With{})
			d.must(err, "PutAccess")
			spoil := func(ep *grapnel.Endpoint, p *grapnel.NamedPolicy, k *grapnel.Key, a *grapnel.AccessRecord) {
				a.Ended.Before, a.Portal.FrameAncestors[0] = at(99), "x"
				a.Terms.PublishRate.Burst, a.Terms.MaxPending, a.Terms.Proxy.Text = 99, 99, "x"
				a.Sender.URL.Text, a.Sender.Scopes[0] = "x", grapnel.ScopeAdmin
				ep.OAuth2.Scopes[0], ep.OAuth2.ClientSecret.Text, ep.TLS.ClientKey.Text, ep.Proxy.Text = "x", "x", "x", "x"
				ep.Target.Password.Text, ep.Target.Options["sasl"], ep.Consent.Cause = "x", "x", "x"
				ep.EventTypes[0], ep.Headers["x-team"], ep.RateLimit.Burst, ep.Secrets[0].Text = "x", "x", 99, "x"
				k.Scopes[0], k.Name, ep.URL = grapnel.ScopeAdmin, "x", "x"
				spoilPolicy(&ep.Policy)
				spoilPolicy(&p.Policy)
			}
			spoil(&ep, &p, &k, &a)
			for range 2 {
				wantEp, wantP := endpoint("ep_0", acme), named("pol_0", acme, "n")
				wantEp.Revision, wantP.Revision = int64(round+1), int64(round+1)
				got := d.config()
				d.same(got.Endpoints[0], wantEp, "endpoint")
				d.same(got.Policies, []grapnel.NamedPolicy{wantP}, "policies")
				d.same(got.Keys, []grapnel.Key{apiKey("key_0", acme)}, "keys")
				d.same(got.Access, []grapnel.AccessRecord{accessRecord("record_0", acme)}, "access records")
				spoil(&got.Endpoints[0], &got.Policies[0], &got.Keys[0], &got.Access[0])
			}
		}
	}},
	{"of answers", func(d *driver) {
		body := []byte("made")
		o := once("key", 1, 0)
		o.Answer = func(any) store.Answer { return store.Answer{Status: 200, Body: body} }
		d.must(d.remember(o), "Remember")
		body[0] = 'x'
		for range 2 {
			a := d.recall("key", 1)
			d.same(string(a.Body), "made", "body")
			a.Body[0] = 'y'
		}
	}},
	{"of counts", func(d *driver) {
		d.lane("k", 1)
		for range 2 {
			counts, err := d.Counts(d.ctx, everyone)
			d.must(err, "Counts")
			d.same(counts[epA][grapnel.Pending], int64(1), "pending")
			counts[epA][grapnel.Pending] = 9
		}
	}},
}

// spoilPolicy changes the slices and pointers of a policy.
func spoilPolicy(p *policy.Policy) {
	p.Schedule.Delays[0] = 99
	p.Success[0] = "spoilt"
	for status := range p.Classify {
		p.Classify[status] = "spoilt"
	}
}
