package storetest

import (
	"fmt"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// answered is a change after an attempt with this answer.
func answered(number int64, when float64, status grapnel.Status, code int, class policy.Class, reason grapnel.ReasonCode) store.Change {
	a := attempt(1, when)
	a.StatusCode, a.Class = code, class
	return store.Change{Delivery: number, Expect: store.AnyAttempts, Attempt: a, At: at(when), Status: status, ReasonCode: reason,
		Due: at(when + 9)}
}

var filterCases = []testCase{
	{"lists by the outcome of the last attempt", func(d *driver) {
		n := map[string]int64{}
		for _, id := range []string{"slow", "down", "full", "fine", "none", "later", "again", "own"} {
			d.publish(incoming(event(id, "", 1), to(epA)))
			n[id] = d.of(id)[0].Seq
		}
		d.change(answered(n["slow"], 10, grapnel.Failed, 0, policy.ClassTimeout, grapnel.ReasonExhausted))
		d.change(answered(n["down"], 10, grapnel.Failed, 503, policy.ClassStatus5xx, grapnel.ReasonExhausted))
		d.change(answered(n["full"], 10, grapnel.Failed, 507, policy.ClassStatus5xx, grapnel.ReasonPermanent))
		d.change(answered(n["fine"], 10, grapnel.Delivered, 204, policy.ClassNone, ""))
		d.change(by(n["none"], grapnel.Skipped, 10))
		d.change(answered(n["later"], 10, grapnel.Pending, 503, policy.ClassStatus5xx, ""))
		d.change(answered(n["again"], 10, grapnel.Pending, 0, policy.ClassTimeout, ""))
		expired := by(n["again"], grapnel.Failed, 20)
		expired.ReasonCode = grapnel.ReasonExpired
		d.change(expired)
		d.change(answered(n["own"], 10, grapnel.Failed, 299, "of its own", "of its own"))
		for _, c := range []struct {
			what string
			q    store.DeliveryQuery
			want []string
		}{
			{"class", store.DeliveryQuery{Class: policy.ClassStatus5xx}, []string{"later", "full", "down"}},
			{"class of the last attempt, which did not end it", store.DeliveryQuery{Class: policy.ClassTimeout}, []string{"again", "slow"}},
			{"class of its own", store.DeliveryQuery{Class: "of its own"}, []string{"own"}},
			{"class of nobody", store.DeliveryQuery{Class: "unheard of"}, nil},
			{"status code", store.DeliveryQuery{StatusCode: 503}, []string{"later", "down"}},
			{"status code of what was delivered", store.DeliveryQuery{StatusCode: 204, Endpoint: epA}, []string{"fine"}},
			{"status code of nobody", store.DeliveryQuery{StatusCode: 200}, nil},
			{"reason", store.DeliveryQuery{ReasonCode: grapnel.ReasonExhausted}, []string{"down", "slow"}},
			{"reason of its own", store.DeliveryQuery{ReasonCode: "of its own"}, []string{"own"}},
			{"dead letters", store.DeliveryQuery{DeadLetters: true}, []string{"own", "again", "full", "down", "slow"}},
			{"no dead letters are delivered", store.DeliveryQuery{DeadLetters: true, Status: []grapnel.Status{grapnel.Delivered}}, nil},
			{"all together", store.DeliveryQuery{DeadLetters: true, Class: policy.ClassStatus5xx, StatusCode: 507,
				ReasonCode: grapnel.ReasonPermanent,
				Status:     []grapnel.Status{grapnel.Failed, grapnel.Pending}, Type: "invoice.*", Endpoint: epA}, []string{"full"}},
		} {
			var got []string
			for _, x := range d.list(c.q) {
				got = append(got, x.EventID)
			}
			d.same(got, c.want, c.what)
		}
		for _, c := range []struct {
			what string
			sel  grapnel.Selection
			want []int64
		}{
			{"candidates of a class", grapnel.Selection{Class: policy.ClassTimeout}, []int64{n["slow"], n["again"]}},
			{"candidates of a class of its own", grapnel.Selection{Class: "of its own"}, []int64{n["own"]}},
			{"candidates of a status code", grapnel.Selection{StatusCode: 503}, []int64{n["down"]}},
			{"candidates of both", grapnel.Selection{Class: policy.ClassStatus5xx, StatusCode: 507}, []int64{n["full"]}},
			{"candidates of neither", grapnel.Selection{Class: policy.ClassTimeout, StatusCode: 503}, nil},
			{"named candidates of any class", grapnel.Selection{Class: policy.ClassTimeout, Deliveries: []int64{n["down"]}}, []int64{n["down"]}},
		} {
			d.same(seqs(d.candidates(everyone, store.CandidateQuery{Endpoint: epA, OverBy: at(100), Limit: 10, Selection: c.sel})), c.want, c.what)
		}
		last := attempt(1, 1).Last()
		last.StatusCode, last.Class = 0, policy.ClassTimeout
		d.same(d.delivery(n["again"]).Last, last, "last")
		d.same(d.delivery(n["none"]).Last, grapnel.Last{}, "no attempt")
		d.must(d.Annotate(d.ctx, everyone, store.Annotation{Delivery: n["down"], Discard: "seen", At: at(30)}), "Annotate")
		d.same(len(d.list(store.DeliveryQuery{DeadLetters: true})), 4, "dead letters after one was discarded")
		d.same(len(d.list(store.DeliveryQuery{ReasonCode: grapnel.ReasonExhausted, DeadLetters: true})), 1, "of a reason")
		again := d.redeliver(n["slow"], 40).Delivery
		d.same(len(d.list(store.DeliveryQuery{DeadLetters: true})), 4, "dead letters while one is repeated")
		d.change(by(again, grapnel.Delivered, 50))
		d.same(len(d.list(store.DeliveryQuery{DeadLetters: true})), 3, "dead letters after one was repeated with success")
		d.same(len(d.list(store.DeliveryQuery{DeadLetters: true, Type: "*"})), 3, "by type as well")
		d.same(len(d.list(store.DeliveryQuery{DeadLetters: true, Replayed: true})), 4, "that one included")
		d.same(len(d.list(store.DeliveryQuery{Replayed: true, Status: []grapnel.Status{grapnel.Failed}})), 5, "only dead letters are left out")
		again = d.redeliver(n["slow"], 60).Delivery
		d.same(len(d.list(store.DeliveryQuery{DeadLetters: true})), 4, "dead letters while it is repeated once more")
		d.change(by(again, grapnel.Failed, 70))
		d.same(len(d.list(store.DeliveryQuery{DeadLetters: true})), 5, "and after that failed, which is a dead letter itself")
	}},
	{"lists by a hundred of status codes", func(d *driver) {
		for i, c := range []struct {
			code  int
			class policy.Class
		}{{200, policy.ClassNone}, {399, policy.ClassRedirect}, {400, policy.ClassStatus4xx}, {429, policy.ClassStatus429},
			{499, policy.ClassStatus4xx}, {500, policy.ClassStatus5xx}, {0, policy.ClassTimeout}} {
			for j, status := range []grapnel.Status{grapnel.Delivered, grapnel.Failed, grapnel.Pending} {
				id := fmt.Sprint(c.code, "_", status)
				d.publish(incoming(event(id, "", float64(i*3+j)), to(epA)))
				d.change(answered(d.of(id)[0].Seq, 50, status, c.code, c.class, ""))
			}
		}
		var got []string
		for _, x := range d.list(store.DeliveryQuery{StatusCode: 4}) {
			got = append(got, x.EventID)
		}
		d.same(got, []string{"499_pending", "499_failed", "499_delivered", "429_pending", "429_failed", "429_delivered",
			"400_pending", "400_failed", "400_delivered"}, "status codes of 4xx")
		d.same(len(d.list(store.DeliveryQuery{StatusCode: 4, Class: policy.ClassStatus429, Status: []grapnel.Status{grapnel.Failed}})), 1, "with a class")
	}},
	{"searches in data, so far and no farther", func(d *driver) {
		for i := range 30 {
			e := event(fmt.Sprint("e", i), "", float64(i))
			if i%10 == 3 {
				e.Data = []byte(`{"note": "` + strings.Repeat("x", 5000) + ` Café 50%_"}`)
			}
			d.publish(incoming(e, to(epA), to(epB)))
		}
		search := func(scope store.Scope, q store.DeliveryQuery, text string) (found []string) {
			d.Helper()
			for {
				list, resume, err := d.DeliverySearch(d.ctx, scope, q, text)
				d.must(err, "DeliverySearch")
				found = append(found, labels(list)...)
				if len(list) > q.Limit || q.Before != 0 && resume >= q.Before {
					d.Fatalf("found %d below %d and goes on at %d", len(list), q.Before, resume)
				}
				if q.Before = resume; resume == 0 {
					return found
				}
			}
		}
		d.same(search(everyone, store.DeliveryQuery{Limit: 2}, "Café 50%_"),
			[]string{"e23>ep_b", "e23>ep_a", "e13>ep_b", "e13>ep_a", "e3>ep_b", "e3>ep_a"}, "all")
		d.same(search(everyone, store.DeliveryQuery{Limit: 9, Endpoint: epB, From: at(13)}, "Café"), []string{"e23>ep_b", "e13>ep_b"},
			"with filters")
		d.same(search(everyone, store.DeliveryQuery{Limit: 9}, "café"), []string(nil), "as it is written")
		d.same(search(store.Of(bolt), store.DeliveryQuery{Limit: 9}, "Café"), []string(nil), "another tenant's")
		none, resume, err := d.DeliverySearch(d.ctx, everyone, store.DeliveryQuery{}, "Café")
		d.must(err, "DeliverySearch")
		d.same([]any{len(none), resume}, []any{0, int64(0)}, "no limit is none")
	}},
}
