package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// TestRetryAll: after a receiver is repaired, one order attempts the first delivery of each stuck
// key, and those behind follow in order. It takes only what the selection wants, counts towards
// nothing, and a repetition changes nothing.
func TestRetryAll(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		ctx, all := context.Background(), store.Everyone()
		r := &receiver{}
		r.answer(status(422))
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.Policy.Breaker = nil })
		const keys, each = 5, 4
		for k := range keys {
			b.publish(fmt.Sprint("k", k), each)
		}
		time.Sleep(2 * time.Second)
		standing := b.engine.Healths([]string{"ep"})[0].Strikes
		order := func(s grapnel.Selection) int {
			n, _, err := b.engine.RetryAll(ctx, all, "ep", &s, grapnel.By{Actor: "key_1"})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return n
		}
		if n := order(grapnel.Selection{StatusCode: 503}); n != 0 {
			t.Errorf("%d with another result were retried", n)
		}
		if n := order(grapnel.Selection{Keys: []string{"k0"}, Class: policy.ClassStatus4xx}); n != 1 {
			t.Errorf("%d of one key were retried", n)
		}
		r.answer(status(200))
		tried := len(r.log())
		// The first success may release the others before their own orders come.
		if n := order(grapnel.Selection{}); n == 0 || n > keys {
			t.Errorf("%d were retried, not the first of each of %d keys", n, keys)
		}
		if n := order(grapnel.Selection{}); n != 0 {
			t.Errorf("a repetition retried %d", n)
		}
		time.Sleep(time.Second)
		if n := len(r.log()) - tried; n != keys*each {
			t.Errorf("%d requests delivered %d", n, keys*each)
		}
		for _, d := range b.deliveries("ep") {
			if d.Status != grapnel.Delivered {
				t.Errorf("%s is %s", d.EventID, d.Status)
			}
		}
		if is := b.engine.Healths([]string{"ep"})[0].Strikes; is > standing {
			t.Errorf("strikes were %d and are %d", standing, is)
		}
	})
}
