//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// beat publishes at a fixed rate, however long the answers take, so that a stall counts for every
// event that it delays.
type beat struct {
	t         *testing.T
	child     *child
	topics    []string // used in turn
	sites     []*site  // their latencies count; site i gets the events of topic i
	perSecond int
	keys      int

	published int
	zero      time.Time

	mu       sync.Mutex
	answered []time.Duration // time from an event's planned publication to its answer, in the last window
}

// newBeat creates endpoints on separate hosts that accept everything, and a beat for them.
func newBeat(t *testing.T, c *child, network string, endpoints, perSecond int) *beat {
	t.Helper()
	b := &beat{t: t, child: c, perSecond: perSecond, keys: 50, zero: time.Now()}
	for i := range endpoints {
		s := newSite()
		s.zero = b.zero
		d := newDoor(t, fmt.Sprintf("%s.%d", network, i+1), s)
		topic := fmt.Sprintf("beat%d", i)
		c.endpoint("http://"+d.addr+"/", map[string]any{"event_types": []string{topic + ".*"}})
		b.topics, b.sites = append(b.topics, topic), append(b.sites, s)
	}
	return b
}

// window publishes for a while and waits until the counted sites have every event. It returns their
// 99th percentile from acceptance to arrival, and that from the planned publication to arrival.
func (b *beat) window(d time.Duration, counting []*site) (travel, lag time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), d+30*time.Second)
	defer cancel()
	start := time.Now()
	from := start.Sub(b.zero)
	wanted := map[*site]int{}
	for _, s := range counting {
		wanted[s] = s.taken()
	}
	b.answered = b.answered[:0]
	var wg sync.WaitGroup
	n := int(d.Seconds() * float64(b.perSecond))
	for i := range n {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(b.perSecond))
		pause(ctx, time.Until(due))
		at := b.published % len(b.topics)
		wanted[b.sites[at]]++
		e := newEvent{ID: fmt.Sprintf("%s-k%d-%d", b.topics[at], b.published/len(b.topics)%b.keys, b.published/len(b.topics)/b.keys+1),
			Type: b.topics[at] + ".tick", Data: json.RawMessage(fmt.Sprintf(`{"sent":%d}`, due.Sub(b.zero)))}
		// The publisher does not wait for answers. Without a number per publish, two events of a key
		// could be accepted in either order.
		e.Key = fmt.Sprintf("%s-%d", b.topics[at], b.published/len(b.topics)%b.keys)
		b.published++
		wg.Go(func() {
			if status, answer, err := b.child.call(ctx, http.MethodPost, "/v1/events", e.encode()); err != nil || status != http.StatusAccepted {
				b.t.Errorf("publishing was answered %d, %v: %.300s", status, err, answer)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.answered = append(b.answered, time.Since(due))
		})
	}
	wg.Wait()
	for _, s := range counting {
		eventually(b.t, 20*time.Second, "every event has arrived where nothing is wrong",
			func() bool { return s.taken() >= wanted[s] || b.t.Failed() })
	}
	var travels, lags []time.Duration
	for _, s := range counting {
		for _, v := range s.seen(from) {
			travels, lags = append(travels, v.travel), append(lags, v.lag)
		}
	}
	return percentile(travels, 99), percentile(lags, 99)
}

// inTurn measures windows without and with a burden in turn. It compares the median with the burden
// to a quantile without it.
//
// Other work on the machine makes single windows differ by more than any useful bar. So inTurn adds
// windows, up to most, while the ratio is above the bar: noise evens out, a real burden does not.
// The quantile 75 instead of 50 also passes a difference that the windows without the burden show
// among themselves. On a shared machine no finer statement is possible.
func inTurn(least, most, quantile int, bar float64, measure func() (without, with time.Duration)) (ratio float64, without,
	with []time.Duration) {
	for n := 1; n <= most; n++ {
		a, z := measure()
		without, with = append(without, a), append(with, z)
		ratio = float64(median(with)) / float64(percentile(slices.Clone(without), quantile))
		if n >= least && ratio <= bar {
			break
		}
	}
	return ratio, without, with
}
