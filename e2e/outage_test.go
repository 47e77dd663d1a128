//go:build linux && prove

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/policy"
)

// outage is one endpoint that fails while events are published for it, and recovers.
type outage struct {
	name string
	// These are the ways in which it fails. It changes between two publishes; in the last part it
	// always fails.
	away []func(*outage)
	for_ time.Duration
	// These are its settings: the policy, and limits that hold throughout.
	factor      int // by which the durations of the policy "standard" and its breaker are divided; 0: the default policy itself
	rate, burst int // 0: no limit
	concurrency int // 0: none
	keys        int
	within      time.Duration // the time after its recovery until everything is delivered

	door *door
	site *site
	id   string

	// These are the results.
	back, took time.Duration // when it recovered, and how long after that everything was delivered
	waiting    int           // pending events at its recovery
}

// These are the ways to fail.
func refuses(o *outage) { o.door.shut() }
func fails(o *outage)   { o.site.turn(way{status: http.StatusServiceUnavailable}) }
func hangs(o *outage)   { o.site.turn(way{hangs: true}) }
func works(o *outage)   { o.site.turn(way{after: 5 * time.Millisecond}) }

// compressed is the policy "standard" with the default circuit and all durations divided. Timeout
// and window keep a minimum, so that a busy machine does not decide the test.
func compressed(factor int) map[string]any {
	p, _ := policy.Preset("standard")
	b := policy.DefaultBreaker()
	short := func(d policy.Duration) string { return (d.Std() / time.Duration(factor)).String() }
	var delays []string
	for _, d := range p.Schedule.Delays {
		delays = append(delays, short(d))
	}
	return map[string]any{"timeout": patience(factor).String(), "jitter": p.Jitter.Fraction, "max_attempts": p.MaxAttempts,
		"schedule": map[string]any{"mode": "since_previous", "delays": delays, "tail": "stop"},
		"breaker": map[string]any{"failures": b.Failures, "ratio": b.Ratio,
			"window": max(time.Second, b.Window.Std()/time.Duration(factor)).String(), "probe": short(b.Probe),
			"probe_max": short(b.ProbeMax)}}
}

// patience is the timeout of an attempt.
func patience(factor int) time.Duration {
	p, _ := policy.Preset("standard")
	return max(2*time.Second, p.Timeout.Std()/time.Duration(max(factor, 1)))
}

// An endpoint fails for a while, in every way there is, and events of a thousand keys become
// pending for it. After its recovery all are delivered within half a minute: in order within each
// key, with fewer than two attempts per event, and never more at once or per second than the
// endpoint allows. With the default policy 500 events are delivered within 20 seconds.
//
// Durations of policy and outage are divided by a factor; the recovery's ramp is not. In the long
// form the factor is 20 (ten minutes become 30 s), and another run has the default policy and ten
// minutes without a factor.
func TestOutage(t *testing.T) {
	beside(t, busy)
	factor, long := 60, 10*time.Minute
	if soak() {
		factor = 20
	}
	kinds := func(factor int) []*outage {
		var all []*outage
		for _, o := range []outage{
			{name: "refuses", away: []func(*outage){refuses}},
			{name: "fails", away: []func(*outage){fails}},
			{name: "hangs", away: []func(*outage){hangs}},
			{name: "flaps", away: []func(*outage){fails, works, refuses, works, fails}},
		} {
			o.for_, o.factor, o.keys, o.within = long/time.Duration(factor), factor, 1000, 30*time.Second
			o.rate, o.burst, o.concurrency = 600, 10, 16
			all = append(all, &o)
		}
		return all
	}
	// This endpoint fails for 20 s and has no policy of its own.
	plain := &outage{name: "default", away: []func(*outage){fails}, for_: 20 * time.Second, keys: 250, within: 20 * time.Second}
	t.Run(fmt.Sprintf("factor %d", factor), func(t *testing.T) { endureAll(t, append(kinds(factor), plain)) })
	if !soak() {
		return
	}
	t.Run("without a factor", func(t *testing.T) {
		uncompressed := kinds(1)
		for _, o := range uncompressed {
			o.factor = 0
		}
		endureAll(t, uncompressed)
	})
}

// endureAll runs outages at the same time against one server.
func endureAll(t *testing.T, all []*outage) {
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	for i, o := range all {
		o.site = newSite()
		o.door = newDoor(t, fmt.Sprintf("127.0.2.%d", i+1), o.site)
		create := map[string]any{"event_types": []string{o.name + ".*"}}
		if o.factor > 0 {
			create["policy"] = compressed(o.factor)
		}
		if o.rate > 0 {
			create["rate_limit"] = map[string]any{"per_second": o.rate, "burst": o.burst}
		}
		if o.concurrency > 0 {
			create["max_concurrency"] = o.concurrency
		}
		o.id, _ = c.endpoint("http://"+o.door.addr+"/", create)
	}
	var wg sync.WaitGroup
	for _, o := range all {
		wg.Go(func() { o.endure(t, c) })
	}
	wg.Wait()
	for _, o := range all {
		o.judge(t, c)
	}
}

// endure runs the outage. It publishes two events of each key meanwhile.
func (o *outage) endure(t *testing.T, c *child) {
	ctx := context.Background()
	bad := func(format string, args ...any) { t.Errorf("%s: %s", o.name, fmt.Sprintf(format, args...)) }
	works(o)
	warm := o.events("warm", 20, 1, 1)
	if err := c.publishMany(ctx, warm); err != nil {
		bad("%v", err)
		return
	}
	if !poll(ctx, 20*time.Second, 10*time.Millisecond, func() bool { return o.site.taken() == len(warm) }) {
		bad("a healthy endpoint got %d of %d events", o.site.taken(), len(warm))
		return
	}
	total := len(warm)
	parts := max(len(o.away), 2)
	for i := range parts {
		if i < len(o.away) {
			works(o)
			o.door.open()
			o.away[i](o)
		}
		if i == 0 || i == parts-1 { // the endpoint fails when the last events are published
			events := o.events("k", o.keys, i/(parts-1)+1, 1)
			if err := c.publishMany(ctx, events); err != nil {
				bad("%v", err)
				return
			}
			total += len(events)
		}
		pause(ctx, o.for_/time.Duration(parts))
	}
	health := c.health(o.id)
	if health.State != "open" || health.Reason == "" || health.NextProbeAt == nil || health.Held == 0 {
		bad("while it is away its health is %+v", health)
	}
	o.back, o.waiting = o.site.now(), total-o.site.taken()
	works(o)
	o.door.open()
	drained := poll(ctx, 3*o.within, 10*time.Millisecond, func() bool { return o.site.taken() == total })
	o.took = o.site.now() - o.back
	if !drained || o.took > o.within {
		bad("%v after its return %d of %d events are there; within %v it should be all", o.took, o.site.taken(), total, o.within)
	}
	if o.waiting < o.keys {
		bad("only %d events were waiting: fewer than one for each key", o.waiting)
	}
	for i, wrong := range o.site.disorder(0) {
		if i == 5 {
			break
		}
		bad("%s", wrong)
	}
	if !poll(ctx, 10*time.Second, 200*time.Millisecond, func() bool { return c.health(o.id).works() }) {
		bad("its health is %+v although all is delivered", c.health(o.id))
	}
}

// judge checks limits and attempts at the end.
func (o *outage) judge(t *testing.T, c *child) {
	bad := func(format string, args ...any) { t.Errorf("%s: %s", o.name, fmt.Sprintf(format, args...)) }
	attempts, most, rows := 0, 0, c.rows(url.Values{"endpoint": {o.id}})
	for _, r := range rows {
		attempts += r.Attempts
		most = max(most, r.Attempts)
	}
	each := float64(attempts) / float64(max(len(rows), 1))
	if each >= 2 {
		bad("%d attempts for %d events", attempts, len(rows))
	}
	all, after := o.site.seen(0), o.site.seen(o.back)
	first, probes := time.Duration(0), 0
	for _, v := range all {
		if v.trigger == "probe" {
			probes++
		}
	}
	gentle := 0
	for _, v := range after {
		if v.status == http.StatusOK && first == 0 {
			first = v.start - o.back
		}
		if first > 0 && v.start < o.back+first+time.Second {
			gentle++
		}
	}
	if gentle > o.waiting/10 {
		bad("of %d events that waited %d came within a second of the first", o.waiting, gentle)
	}
	at, second := crowd(all, patience(o.factor)), busiest(all, time.Second)
	if o.concurrency > 0 && at > o.concurrency {
		bad("%d requests at once, %d are allowed", at, o.concurrency)
	}
	// Requests sent in different seconds may arrive in the same one: a request may be a tenth of a
	// second late.
	if o.rate > 0 && second > o.rate+o.burst+o.rate/10 {
		bad("%d requests in a second, %d and bursts of %d are allowed", second, o.rate, o.burst)
	}
	t.Logf("%s, away for %v: %d waited, first after %v, all after %v; %.3f attempts for each of %d events (most %d), %d probes arrived; "+
		"%d in the first second, at most %d at once and %d in a second", o.name, o.for_, o.waiting, first.Round(time.Millisecond),
		o.took.Round(time.Millisecond), each, len(rows), most, probes, gentle, at, second)
}

// events creates count events, one per key, with consecutive numbers beginning with first.
func (o *outage) events(key string, keys, first, count int) []newEvent {
	return numbered(o.name, key, keys, first, count)
}

// numbered creates events for a site: count for each of the keys, and the first event of every key
// before the second of any.
func numbered(topic, key string, keys, first, count int) []newEvent {
	var all []newEvent
	for n := first; n < first+count; n++ {
		for k := range keys {
			name := fmt.Sprintf("%s%d", key, k)
			all = append(all, newEvent{ID: fmt.Sprintf("%s-%s-%d", topic, name, n), Type: topic + ".happened", Key: topic + name,
				Data: json.RawMessage(fmt.Sprintf(`{"pad":"%s"}`, strings.Repeat("x", 200)))})
		}
	}
	return all
}

// publishMany publishes events in this order, in as few batches as possible.
func (c *child) publishMany(ctx context.Context, events []newEvent) error {
	for len(events) > 0 {
		n := min(len(events), 1000)
		results, refused := c.publishBatch(ctx, events[:n])
		for tries := 0; results[0] == history.Unknown && refused == "" && tries < 120; tries++ {
			// The server sheds load, batches before single events. A refused batch is repeated; the ids make
			// that harmless.
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
			results, refused = c.publishBatch(ctx, events[:n])
		}
		if results[0] != history.OK || refused != "" {
			return fmt.Errorf("a batch of %d was not accepted: %v %s", n, results[0], refused)
		}
		events = events[n:]
	}
	return nil
}

// healthOf is an endpoint's health as the API shows it.
type healthOf struct {
	InFlight    int     `json:"in_flight"`
	State       string  `json:"state"`
	Reason      string  `json:"reason"`
	Since       *string `json:"since"`
	Held        int     `json:"held"`
	NextProbeAt *string `json:"next_probe_at"`
}

// works says that deliveries arrive. An endpoint that works again is degraded until its failures have
// left the last hour.
func (h healthOf) works() bool { return h.State == "healthy" || h.State == "degraded" }

// health reads it. Any goroutine may call it; it returns an empty value on an error.
func (c *child) health(endpoint string) healthOf {
	var ep struct{ Health healthOf }
	status, body, err := c.call(context.Background(), http.MethodGet, "/v1/endpoints/"+endpoint, nil)
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &ep) != nil {
		c.t.Errorf("the health of %s: %d %v %s", endpoint, status, err, body)
	}
	return ep.Health
}
