package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// feed reads one page.
func (d *driver) feed(endpoint string, after *store.FeedMark, limit int) store.FeedPage {
	d.Helper()
	page, err := d.Feed(d.ctx, everyone, store.FeedQuery{Endpoint: endpoint, After: after, Limit: limit})
	d.must(err, "Feed")
	if len(page.Deliveries) > limit {
		d.Fatalf("Feed returned %d deliveries, and %d were wanted", len(page.Deliveries), limit)
	}
	return page
}

// follow reads pages from a mark to the end.
func (d *driver) follow(endpoint string, after *store.FeedMark, limit int) (all []grapnel.Delivery, last store.FeedMark, gap bool) {
	d.Helper()
	for {
		page := d.feed(endpoint, after, limit)
		all, last, gap = append(all, page.Deliveries...), page.Next, gap || page.Gap
		if after = &last; !page.More {
			return all, last, gap
		}
	}
}

// fed checks that the feeds have what lists have.
func (d *driver) fed(endpoints ...string) {
	d.Helper()
	for _, endpoint := range endpoints {
		want := d.list(store.DeliveryQuery{Endpoint: endpoint})
		slices.Reverse(want)
		got, _, _ := d.follow(endpoint, nil, max(3, len(want)/4))
		d.same(got, want, "the feed of "+endpoint)
	}
}

var feedCases = []testCase{
	{"has every delivery of an endpoint once, the oldest first", func(d *driver) {
		d.stock()
		n := d.lane("k", 4)
		d.change(by(n[0], grapnel.Failed, 10))
		d.change(delivered(n[1], 0, 11))
		dropped := incoming(event("dropped", "k", 12), to(epA))
		dropped.Targets[0].Drop = "the endpoint is disabled"
		d.publish(dropped)
		again := d.redeliver(n[0], 13)
		d.fed(epA, epB, epX)
		all, _, gap := d.follow(epA, nil, 2)
		d.same(gap, false, "a gap")
		d.same(labels(all), []string{"e1>ep_a", "e2>ep_a", "e3>ep_a", "e4>ep_a", "e6>ep_a", "k_1>ep_a", "k_2>ep_a", "k_3>ep_a", "k_4>ep_a",
			"dropped>ep_a", "k_1>ep_a"}, "deliveries")
		d.same(all[10].Seq, again.Delivery, "the redelivery")
	}},
	{"goes on behind the last delivery of a page", func(d *driver) {
		none, mark, _ := d.follow(epA, nil, 10)
		d.same(len(none), 0, "an empty feed")
		var seen []string
		for i := range 4 {
			d.lane(fmt.Sprint("k", i), 3)
			if i == 2 {
				d.reopen()
			}
			some, next, gap := d.follow(epA, &mark, 2)
			d.same(gap, false, "a gap")
			seen, mark = append(seen, labels(some)...), next
			idle := d.feed(epA, &mark, 2)
			d.same(idle, store.FeedPage{Next: mark}, "the end of the feed")
		}
		d.same(len(seen), 12, "deliveries")
		d.same(seen[11], "k3_3>ep_a", "the last one")
	}},
	{"shows that deliveries behind a mark were purged", func(d *driver) {
		n := d.lane("k", 4)
		_, empty, _ := d.follow(epB, nil, 2)
		first := d.feed(epA, nil, 1)
		second := d.feed(epA, &first.Next, 1)
		d.change(delivered(n[0], 0, 5))
		d.change(delivered(n[1], 0, 6))
		d.purge(100, 10, 100, 2)
		for range 2 {
			page := d.feed(epA, &second.Next, 9)
			d.same(seqs(page.Deliveries), n[2:], "behind the purged ones")
			d.same(page.Gap, false, "a gap behind the purged ones")
			page = d.feed(epA, &first.Next, 9)
			d.same(seqs(page.Deliveries), n[2:], "what is left")
			d.same(page.Gap, true, "a gap")
			page = d.feed(epA, &page.Next, 9)
			d.same(page.Gap, false, "a gap after it was told")
			d.same(d.feed(epA, nil, 9).Gap, false, "a gap for a new reader")
			d.same(d.feed(epB, &empty, 9).Gap, false, "a gap at another endpoint")
			d.reopen()
		}
		d.change(delivered(n[2], 0, 7))
		d.change(delivered(n[3], 0, 8))
		d.purge(200, 10, 100, 2)
		page := d.feed(epA, &second.Next, 9)
		d.same(len(page.Deliveries), 0, "what is left")
		d.same(page.Gap, true, "a gap at the end")
		fresh := d.feed(epA, nil, 9)
		for _, mark := range []store.FeedMark{page.Next, fresh.Next} {
			d.same(d.feed(epA, &mark, 9), store.FeedPage{Next: mark}, "after the gap was told")
		}
		d.lane("l", 1)
		d.same(len(d.feed(epA, &page.Next, 9).Deliveries), 1, "a new delivery")
		d.same(d.feed(epA, &fresh.Next, 9).Gap, false, "a gap before the new delivery")
	}},
	{"shows that deliveries were purged before the first one was read", func(d *driver) {
		_, mark, _ := d.follow(epA, nil, 2)
		d.change(delivered(d.lane("k", 1)[0], 0, 5))
		d.purge(100, 10, 100, 1)
		page := d.feed(epA, &mark, 2)
		d.same(page.Gap, true, "a gap")
		d.same(d.feed(epA, &page.Next, 2), store.FeedPage{Next: page.Next}, "after the gap was told")
	}},
	{"keeps an early delivery that outlives later ones", func(d *driver) {
		n := d.lane("k", 1)
		late := []int64{d.lane("l", 1)[0], d.lane("m", 1)[0]}
		first := d.feed(epA, nil, 1)
		d.change(delivered(late[0], 0, 5))
		d.purge(100, 10, 100, 1)
		page := d.feed(epA, &first.Next, 9)
		d.same(seqs(page.Deliveries), late[1:], "behind the first")
		d.same(page.Gap, true, "a gap")
		d.same(seqs(d.feed(epA, nil, 9).Deliveries), []int64{n[0], late[1]}, "all")
	}},
	{"begins anew for a mark of deliveries that the database lost", func(d *driver) {
		n := d.lane("k", 3)
		last := d.feed(epA, nil, 9).Next
		other, absent, elsewhere := last, last, last
		other.Of.CreatedAt = other.Of.CreatedAt.Add(time.Second)
		absent.Seq += 1000
		elsewhere.Of.Endpoint = epB
		for _, mark := range []store.FeedMark{other, absent, elsewhere} {
			page := d.feed(epA, &mark, 2)
			d.same(seqs(page.Deliveries), n[:2], "from the oldest")
			d.same(page.Gap, true, "a gap")
			d.same(d.feed(epA, &page.Next, 2).Gap, false, "a gap afterwards")
		}
	}},
	{"has nothing for others", func(d *driver) {
		d.lane("k", 3)
		mark := d.feed(epA, nil, 1).Next
		for _, scope := range []store.Scope{{}, store.Of(bolt), store.Of("")} {
			for _, after := range []*store.FeedMark{nil, &mark} {
				page, err := d.Feed(d.ctx, scope, store.FeedQuery{Endpoint: epA, After: after, Limit: 9})
				d.must(err, "Feed")
				d.same(len(page.Deliveries), 0, "deliveries of another tenant")
			}
		}
		page, err := d.Feed(d.ctx, store.Of(acme), store.FeedQuery{Endpoint: epA, Limit: 9})
		d.must(err, "Feed")
		d.same(len(page.Deliveries), 3, "deliveries of the tenant")
		d.same(len(d.feed("ep_unknown", nil, 9).Deliveries)+len(d.feed(epA, nil, 0).Deliveries), 0, "without an endpoint, or a limit")
	}},
}
