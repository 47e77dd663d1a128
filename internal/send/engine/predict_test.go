package engine

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// TestSimulatePredictsTheEngine lives through the same outages twice: by policy.Simulate, and by
// the engine with its real HTTP stack in fake time. People choose policies by what the first says,
// so the second has to do it.
func TestSimulatePredictsTheEngine(t *testing.T) {
	const down = `"outage":{"kind":"down","after":"1m","duration":"10m"},"rate":"20/min","duration":"15m"`
	for name, raw := range map[string]string{
		"down":                  `{"policy":{"jitter":0},` + down + `}`,
		"down, 60 keys":         `{"policy":{"jitter":0},` + down + `,"keys":60}`,
		"down, 3 keys":          `{"policy":{"jitter":0},` + down + `,"keys":3}`,
		"down, paylera":         `{"policy":"paylera",` + down + `,"keys":60}`,
		"down, sent":            `{"policy":"sent",` + down + `,"keys":60}`,
		"down, without breaker": `{"policy":{"jitter":0,"breaker":false},` + down + `,"keys":60}`,
		"down, given up": `{"policy":{"jitter":0,"schedule":{"delays":["0s","20s"],"tail":"repeat"},"max_age":"4m"},` +
			down + `,"keys":60}`,
		"down, used up":   `{"policy":{"jitter":0,"schedule":{"delays":["0s","20s","40s"]},"then":"block"},` + down + `,"keys":60}`,
		"down, disabled":  `{"policy":{"jitter":0,"disable":{"after":"5m","pending":"hold"}},` + down + `,"keys":60}`,
		"down, throttled": `{"policy":{"jitter":0,"classify":{"connect":"throttle"},"schedule":{"delays":["0s","30s"],"tail":"repeat"}},` + down + `,"keys":60}`,
		"flaky":           `{"policy":{"jitter":0},"outage":{"kind":"flaky","error_rate":0.3,"after":"1m","duration":"10m"},"rate":"60/min","duration":"12m"}`,
		"flaky, 20 keys":  `{"policy":{"jitter":0},"outage":{"kind":"flaky","error_rate":0.3,"after":"1m","duration":"10m"},"rate":"60/min","duration":"12m","keys":20}`,
		"flapping":        `{"policy":{"jitter":0},"outage":{"kind":"flaky","error_rate":0.7,"after":"1m","duration":"10m"},"rate":"60/min","duration":"12m","keys":100}`,
		"hanging":         `{"policy":"paylera","outage":{"kind":"slow","latency":"12s","after":"1m","duration":"10m"},"rate":"20/min","duration":"15m","keys":60}`,
		"hanging, many":   `{"policy":"paylera","outage":{"kind":"slow","latency":"12s","after":"1m","duration":"5m"},"rate":"120/min","duration":"7m"}`,
		"slow":            `{"policy":"paylera","outage":{"kind":"slow","latency":"8s","after":"1m","duration":"4m"},"rate":"180/min","duration":"5m"}`,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				s, err := policy.ParseScenario([]byte(raw), nil)
				if err != nil {
					t.Fatal(err)
				}
				predicted := policy.Simulate(s)
				lived := live(b, &s, predicted.DrainedAfter.Std()+time.Hour)
				compare(t, &s, &predicted, lived)
			})
		})
	}
}

// TestSimulateHasTheUsualConcurrency: package policy stands below the word for it, so it has a
// number of its own.
func TestSimulateHasTheUsualConcurrency(t *testing.T) {
	backlog := func(perTenSeconds int) int {
		s, err := policy.ParseScenario(
			fmt.Appendf(nil, `{"outage":{"kind":"slow","latency":"10s","duration":"1h"},"rate":"%d/min"}`, 6*perTenSeconds),
			nil,
		)
		if err != nil {
			t.Fatal(err)
		}
		return policy.Simulate(s).PeakBacklog
	}
	// one comes as another ends
	if n := backlog(grapnel.DefaultMaxConcurrency); n > grapnel.DefaultMaxConcurrency+1 {
		t.Errorf("%d wait or are on their way although all have room", n)
	}
	// one each ten seconds, for an hour
	if n := backlog(grapnel.DefaultMaxConcurrency + 1); n < 350 {
		t.Errorf("only %d wait although there is no room for one in %d", n, grapnel.DefaultMaxConcurrency+1)
	}
}

// lived is what happened, in the words of policy.Report.
type lived struct {
	delivered, dead, discarded, waiting int
	attempts                            int
	probes                              int
	drainedAfter                        time.Duration
}

// live lets the engine have the outage, and some time after it.
func live(b *bench, s *policy.Scenario, after time.Duration) lived {
	start := time.Now()
	ends := start.Add(s.Outage.After.Std() + s.Outage.Duration.Std())
	out := func() bool { return !time.Now().Before(start.Add(s.Outage.After.Std())) && time.Now().Before(ends) }
	b.endpoint("ep", &receiver{then: func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // so that each attempt meets the outage by itself
		switch {
		case !out():
		case s.Outage.Kind == policy.OutageFlaky && unlucky(s, r):
			w.WriteHeader(http.StatusInternalServerError)
		case s.Outage.Kind == policy.OutageSlow:
			select {
			case <-time.After(s.Outage.Latency.Std()):
			case <-r.Context().Done():
			}
		}
	}}, func(ep *grapnel.Endpoint) { ep.PolicyName, ep.Policy = "", s.Policy })
	b.net.Fail("ep.test", func() error {
		if s.Outage.Kind == policy.OutageDown && out() {
			return syscall.ECONNREFUSED
		}
		return nil
	})
	count := int(float64(s.Rate) * s.Duration.Std().Minutes())
	for i := range count {
		time.Sleep(time.Until(start.Add(time.Duration((float64(i) + 0.5) / float64(s.Rate) * float64(time.Minute)))))
		key := ""
		if s.Keys > 0 {
			key = strconv.Itoa(i % s.Keys)
		}
		b.publish(key, 1)
	}
	time.Sleep(time.Until(ends) + after)

	var all lived
	for _, d := range b.deliveries("ep") {
		for _, a := range d.Attempts {
			if a.Trigger == grapnel.TriggerProbe {
				all.probes++
			}
		}
		all.attempts += d.AttemptsMade
		switch {
		case d.Status == grapnel.Delivered:
			all.delivered++
		case d.Status == grapnel.Failed, d.Waiting.Blocked:
			all.dead++
		case d.Status == grapnel.Discarded:
			all.discarded++
		case !d.Status.Final():
			all.waiting++
		}
		arrivedIn := !d.CreatedAt.Before(start.Add(s.Outage.After.Std())) && d.CreatedAt.Before(ends)
		n := len(d.Attempts)
		if d.Status.Final() && (arrivedIn || n > 1 || n == 1 && d.Attempts[0].StartedAt.After(d.CreatedAt)) {
			all.drainedAfter = max(all.drainedAfter, d.FinishedAt.Sub(ends))
		}
	}
	return all
}

// unlucky draws for an attempt what the simulation draws for it: SplitMix64, seeded by the event's
// number.
func unlucky(s *policy.Scenario, r *http.Request) bool {
	mix := func(seed, n uint64) uint64 {
		z := seed + (n+1)*0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	event, _ := strconv.ParseUint(strings.TrimPrefix(r.Header.Get("webhook-id"), "evt_"), 10, 64)
	attempt, _ := strconv.ParseUint(r.Header.Get("grapnel-attempt"), 10, 64)
	return math.Ldexp(float64(mix(^mix(s.Seed, event-1), attempt)>>11), -53) < s.Outage.ErrorRate
}

// compare allows for randomness: probes come up to a twentieth later, and not at the same times
// in both.
func compare(t *testing.T, s *policy.Scenario, p *policy.Report, l lived) {
	t.Helper()
	rules := s.Policy.BreakerRules()
	interval := max(rules.Probe.Std()*5/2, s.Outage.Duration.Std()/30) * 21 / 20
	// deliveries whose age ends them or not by when the probe comes that finds the endpoint back
	aged := 0.0
	if s.Policy.MaxAge > 0 {
		aged = math.Ceil(float64(s.Rate) * (interval / 20).Minutes())
	}
	differ := func(a, b int) bool { return math.Abs(float64(a-b)) > aged }
	if differ(l.delivered, p.Delivered) || differ(l.dead, p.DeadLetters) || l.delivered+l.dead != p.Delivered+p.DeadLetters ||
		l.discarded != p.Discarded ||
		l.waiting != p.Blocked+p.Held {
		t.Errorf("delivered %d, dead %d, discarded %d, waiting %d; predicted were %d, %d, %d, %d",
			l.delivered, l.dead, l.discarded, l.waiting, p.Delivered, p.DeadLetters, p.Discarded, p.Blocked+p.Held)
	}
	if diff := math.Abs(float64(l.attempts-p.Attempts)) / float64(p.Events); diff > 0.05 {
		t.Errorf("%d attempts for %d events, predicted were %d", l.attempts, p.Events, p.Attempts)
	}
	if diff := math.Abs(float64(l.probes - p.Probes)); diff > 2+float64(p.Probes)/20 {
		t.Errorf("%d probes, predicted were %d", l.probes, p.Probes)
	}
	if diff := (l.drainedAfter - p.DrainedAfter.Std()).Abs(); diff > interval {
		t.Errorf(
			"drained %v after the outage, predicted was %v; an interval between probes is up to %v",
			l.drainedAfter,
			p.DrainedAfter,
			interval,
		)
	}
}
