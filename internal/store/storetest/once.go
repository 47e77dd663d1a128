package storetest

import (
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// once is an idempotency key used at a time; answers expire after an hour. Its answer contains the
// fingerprint.
func once(key string, fingerprint byte, now float64) *store.Once {
	return &store.Once{
		Key: key, Fingerprint: [32]byte{fingerprint}, Now: at(now), Expires: at(now + 3600),
		Answer: func(done any) store.Answer {
			return store.Answer{Status: 202, Body: fmt.Appendf(nil, "%T at %v", done, now)}
		},
	}
}

// onceCall is a write that takes an idempotency key.
type onceCall struct {
	name   string
	done   string // type of the value that its answer is built from
	do     func(*driver, *store.Once) (*store.Answer, error)
	effect func(*driver) int // grows with every effect
}

func onceCalls() []onceCall {
	number := int64(0)
	return []onceCall{
		{"Append", "store.Accepted", func(d *driver, o *store.Once) (*store.Answer, error) {
			number++
			e := event(fmt.Sprint("e", number), "k", 1)
			done, err := d.Append(d.ctx, store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(e, to(epB))}, Once: o})
			if done.Answer != nil {
				d.same(done, store.Accepted{Answer: done.Answer}, "what comes with an answer of then")
			}
			return done.Answer, err
		}, func(d *driver) int { return d.waiting(epB) }},
		{"Again", "store.Redelivered", func(d *driver, o *store.Once) (*store.Answer, error) {
			list := d.list(store.DeliveryQuery{Endpoint: epA})
			done, err := d.Again(d.ctx, everyone, store.Redelivery{Of: list[0].Seq, Ordered: true, At: at(9), Once: o})
			if done.Answer != nil {
				d.same(done, store.Redelivered{Answer: done.Answer}, "what comes with an answer of then")
			}
			return done.Answer, err
		}, func(d *driver) int { return d.waiting(epA) }},
		{"PutEndpoint", "store.Put", func(d *driver, o *store.Once) (*store.Answer, error) {
			number++
			return putAnswer(d.PutEndpoint(d.ctx, everyone, endpoint(fmt.Sprint("ep_", number), acme), store.With{Once: o}))
		}, func(d *driver) int { return len(d.config().Endpoints) }},
		{"PutPolicy", "store.Put", func(d *driver, o *store.Once) (*store.Answer, error) {
			number++
			return putAnswer(d.PutPolicy(d.ctx, everyone, named(fmt.Sprint("pol_", number), acme, fmt.Sprint("name", number)), store.With{Once: o}))
		}, func(d *driver) int { return len(d.config().Policies) }},
		{"PutKey", "store.Put", func(d *driver, o *store.Once) (*store.Answer, error) {
			number++
			return putAnswer(d.PutKey(d.ctx, everyone, apiKey(fmt.Sprint("key_", number), acme), store.With{Once: o}))
		}, func(d *driver) int { return len(d.config().Keys) }},
		{"PutAccess", "store.Put", func(d *driver, o *store.Once) (*store.Answer, error) {
			number++
			return putAnswer(d.PutAccess(d.ctx, everyone, accessRecord(fmt.Sprint("record_", number), acme), store.With{Once: o}))
		}, func(d *driver) int { return len(d.config().Access) }},
		{"PutDocuments", "store.Put", func(d *driver, o *store.Once) (*store.Answer, error) {
			number++
			one := document(acme, "alert", fmt.Sprint(number), 0, 1)
			return putAnswer(d.PutDocuments(d.ctx, everyone, []store.DocumentWrite{one}, store.With{Once: o}))
		}, func(d *driver) int { return len(d.documents("alert")) }},
	}
}

func putAnswer(p store.Put, err error) (*store.Answer, error) { return p.Answer, err }

var onceCases = []testCase{
	{"makes every call happen once", func(d *driver) {
		d.lane("k", 1)
		for _, c := range onceCalls() {
			step := func(o *store.Once, wantCode grapnel.Code, wantAnswer *store.Answer, wantEffect int, what string) {
				d.Helper()
				before := c.effect(d)
				answer, err := c.do(d, o)
				d.code(err, wantCode, c.name+", "+what)
				d.same(answer, wantAnswer, c.name+", "+what)
				d.same(c.effect(d)-before, wantEffect, "effects of "+c.name+", "+what)
			}
			first := &store.Answer{Fingerprint: [32]byte{1}, Status: 202, Body: []byte(c.done + " at 0")}
			step(nil, "", nil, 1, "without a key")
			step(nil, "", nil, 1, "without a key again")
			step(once(c.name, 1, 0), "", nil, 1, "the first time")
			d.same(d.recall(c.name, 1), first, "recalled")
			step(once(c.name, 1, 10), "", first, 0, "the second time")
			step(once(c.name, 2, 20), grapnel.CodeMismatch, nil, 0, "another request")
			step(once(c.name+" too", 2, 20), "", nil, 1, "another key")
			step(once(c.name, 1, 3599), "", first, 0, "just before it expires")
			step(once(c.name, 2, 3600), "", nil, 1, "when it has expired")
			d.same(d.recall(c.name, 3601),
				&store.Answer{Fingerprint: [32]byte{2}, Status: 202, Body: []byte(c.done + " at 3600")}, "the answer that replaced it")
		}
	}},
	{"stores an answer with a change", func(d *driver) {
		n := d.lane("k", 2)
		now := func(number int64, key string, fingerprint byte) store.Change {
			c := by(number, grapnel.Pending, 10)
			c.Expect, c.Due, c.Trigger = store.OfHead, at(10), grapnel.TriggerManual
			c.Answer = once(key, fingerprint, 0).Known(nil)
			return c
		}
		d.same(d.record(now(n[0], "a", 1), now(n[1], "b", 1))[1].Applied, false, "behind its head")
		first := &store.Answer{Fingerprint: [32]byte{1}, Status: 202, Body: []byte("<nil> at 0")}
		d.same([]*store.Answer{d.recall("a", 1), d.recall("b", 1)}, []*store.Answer{first, nil}, "answers")
		d.same(d.record(now(n[0], "a", 2))[0].Applied, true, "with a key that has an answer")
		d.same(d.recall("a", 1), first, "the first answer stays")
		_, err := d.Append(d.ctx, store.Batch{Config: d.config().Version, Once: once("a", 2, 1)})
		d.code(err, grapnel.CodeMismatch, "another request with the key")
	}},
	{"gives the answer what the call returns", func(d *driver) {
		var seen any
		o := once("key", 1, 0)
		o.Answer = func(done any) store.Answer { seen = done; return store.Answer{Status: 200} }
		done, err := d.Append(d.ctx, store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(event("a", "k", 1),
			to(epA))}, Once: o})
		d.must(err, "Append")
		d.same(seen, done, "Append")
		o.Key = "again"
		again, err := d.Again(d.ctx, everyone, store.Redelivery{Of: d.of("a")[0].Seq, At: at(2), Once: o})
		d.must(err, "Again")
		d.same(seen, again, "Again")
		o.Key = "put"
		put, err := d.PutEndpoint(d.ctx, everyone, endpoint("ep_new", acme), store.With{Once: o})
		d.must(err, "PutEndpoint")
		d.same(seen, put, "PutEndpoint")
	}},
	{"stores no answer of a failed call", func(d *driver) {
		n := d.lane("k", 1)
		fail := once("key", 1, 0)
		fail.Answer = func(any) store.Answer { d.Error("an answer was made for a call that failed"); return store.Answer{} }
		old := d.config().Version
		d.put(endpoint("ep_new", acme))
		_, err := d.Append(d.ctx, store.Batch{Config: old, Events: []store.Incoming{incoming(event("a", "k", 1), to(epA))}, Once: fail})
		if err == nil {
			d.Fatal("a stale batch was taken")
		}
		_, err = d.Again(d.ctx, store.Of(bolt), store.Redelivery{Of: n[0], At: at(2), Once: fail})
		d.code(err, grapnel.CodeNotFound, "Again")
		_, err = d.PutEndpoint(d.ctx, everyone, endpoint(epA, acme), store.With{Once: fail})
		d.code(err, grapnel.CodeConflict, "PutEndpoint")
		_, err = d.PutPolicy(d.ctx, store.Scope{}, named("pol_1", acme, "n"), store.With{Once: fail})
		d.code(err, grapnel.CodeNotFound, "PutPolicy")
		_, err = d.PutKey(d.ctx, store.Of(bolt), apiKey("key_1", acme), store.With{Once: fail})
		d.code(err, grapnel.CodeNotFound, "PutKey")
		d.same(d.recall("key", 1), (*store.Answer)(nil), "recalled")
	}},
	{"answers before it looks at the configuration", func(d *driver) {
		batch := store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(event("a", "k", 1), to(epA))}, Once: once("key", 1, 0)}
		_, err := d.Append(d.ctx, batch)
		d.must(err, "Append")
		d.put(endpoint("ep_new", acme))
		done, err := d.Append(d.ctx, batch)
		d.must(err, "Append with an old version")
		d.same(done.Answer != nil, true, "answered")
	}},
	{"stores the answer of a batch of duplicates", func(d *driver) {
		d.publish(incoming(event("a", "k", 1), to(epA)))
		_, err := d.Append(d.ctx, store.Batch{Config: d.config().Version, Events: []store.Incoming{incoming(event("a", "k", 1),
			to(epA))}, Once: once("key", 1, 0)})
		d.must(err, "Append")
		d.same(d.recall("key", 1) != nil, true, "recalled")
	}},
	{"remembers an answer on its own", func(d *driver) {
		d.same(d.recall("key", 0), (*store.Answer)(nil), "before")
		d.must(d.remember(once("key", 1, 0)), "Remember")
		first := &store.Answer{Fingerprint: [32]byte{1}, Status: 202, Body: []byte("<nil> at 0")}
		d.same(d.recall("key", 1), first, "recalled")
		d.must(d.remember(once("key", 1, 5)), "Remember again")
		d.same(d.recall("key", 6), first, "the first answer stays")
		d.code(d.remember(once("key", 2, 7)), grapnel.CodeMismatch, "another request")
		d.same(d.recall("key", 3599.999), first, "just before it expires")
		d.same(d.recall("key", 3600), (*store.Answer)(nil), "when it expires")
		d.must(d.remember(once("key", 2, 3600)), "Remember after that")
		d.same(d.recall("key", 3601).Fingerprint, [32]byte{2}, "replaced")
		d.same(d.recall("other", 1), (*store.Answer)(nil), "another key")
		version := d.config().Version
		d.must(d.remember(once("third", 2, 0)), "Remember")
		d.same(d.config().Version, version, "answers are no configuration")
	}},
	{"deletes expired answers in the order of their expiry", func(d *driver) {
		for i := range 5 {
			d.must(d.remember(once(fmt.Sprint("key", i), 1, float64(4-i))), "Remember")
		}
		forget := func(now float64, limit, want int) {
			d.Helper()
			n, err := d.Forget(d.ctx, at(now), limit)
			d.must(err, "Forget")
			d.same(n, want, "forgotten")
		}
		forget(3599, 10, 0)
		forget(3602, 0, 0)
		forget(3602, 2, 2)
		d.same(d.recall("key4", 3), (*store.Answer)(nil), "the first to expire is gone, even for one who asks in its time")
		d.same(d.recall("key3", 3), (*store.Answer)(nil), "the second too")
		d.same(d.recall("key2", 3) != nil, true, "the third is not")
		forget(3602, 10, 1)
		forget(3602, 10, 0)
		forget(9000, 10, 2)
	}},
	{"keeps times in microseconds", func(d *driver) {
		o := once("key", 1, 0)
		o.Expires = at(100).Add(1999 * time.Nanosecond)
		d.must(d.remember(o), "Remember")
		a, err := d.Recall(d.ctx, "key", at(100).Add(999*time.Nanosecond))
		d.must(err, "Recall")
		d.same(a != nil, true, "before that microsecond")
		a, err = d.Recall(d.ctx, "key", at(100).Add(1001*time.Nanosecond))
		d.must(err, "Recall")
		d.same(a == nil, true, "within that microsecond")
	}},
}
