//go:build linux

package e2e

import (
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// inline is a policy as sent with an endpoint, with the figures that the judge needs.
func inline(timeout time.Duration, most int, waits ...time.Duration) (policy map[string]any, rules history.Endpoint) {
	delays := []string{"0s"}
	for _, w := range waits {
		delays = append(delays, w.String())
	}
	policy = map[string]any{"timeout": timeout.String(), "jitter": 0.1, "max_attempts": most, "max_age": "24h", "breaker": false,
		"schedule": map[string]any{"mode": "since_previous", "delays": delays, "tail": "repeat"},
		"classify": map[string]string{"400": "fail"}}
	return policy, history.Endpoint{Timeout: timeout, MaxAttempts: most, Delays: waits, Permanent: []int{http.StatusBadRequest},
		MaxAge: 24 * time.Hour}
}

// everything are the types that publishers publish. Operational events are not among them.
func everything() []string { return []string{"note.added", "order.placed"} }

// healthy accepts everything at once.
func healthy(*dice) *target {
	policy, rules := inline(10*time.Second, 50, time.Second)
	return &target{name: "healthy", create: map[string]any{"policy": policy, "event_types": everything()}, rules: rules,
		behave: func() reply { return reply{status: http.StatusOK} }}
}

// slow accepts everything after a while.
func slow(d *dice) *target {
	policy, rules := inline(10*time.Second, 50, time.Second)
	return &target{name: "slow", create: map[string]any{"policy": policy, "event_types": everything()}, rules: rules,
		behave: func() reply {
			return reply{after: d.between(5*time.Millisecond, 150*time.Millisecond), status: http.StatusNoContent}
		}}
}

// flaky fails in every way there is, and accepts everything in the end.
func flaky(d *dice) *target {
	policy, rules := inline(2*time.Second, 1000, time.Second, time.Second, 2*time.Second)
	return &target{name: "flaky", create: map[string]any{"policy": policy, "event_types": []string{"order.placed"}}, rules: rules,
		behave: func() reply {
			switch n := d.n(100); {
			case n < 15:
				return reply{status: http.StatusServiceUnavailable}
			case n < 20:
				return reply{status: http.StatusFound}
			case n < 23:
				return reply{reset: true}
			case n < 26:
				return reply{reset: true, status: http.StatusOK}
			case n < 27:
				return reply{hang: true}
			}
			return reply{status: http.StatusOK}
		}}
}

// brittle has few attempts: its deliveries end as exhausted or as refused for good.
func brittle(d *dice) *target {
	policy, rules := inline(5*time.Second, 3, time.Second)
	return &target{name: "brittle", create: map[string]any{"policy": policy, "event_types": []string{"order.placed"}}, rules: rules,
		behave: func() reply {
			switch n := d.n(100); {
			case n < 30:
				return reply{status: http.StatusInternalServerError}
			case n < 40:
				return reply{status: http.StatusBadRequest}
			}
			return reply{status: http.StatusAccepted}
		}}
}

// loose has no order.
func loose(d *dice) *target {
	policy, rules := inline(5*time.Second, 1000, time.Second)
	rules.Unordered = true
	return &target{name: "loose", create: map[string]any{"policy": policy, "ordering": "none", "event_types": everything()}, rules: rules,
		behave: func() reply {
			if d.percent(10) {
				return reply{status: http.StatusBadGateway}
			}
			return reply{status: http.StatusOK}
		}}
}

// moody fails for more than a second in every three, in several ways, and has a circuit.
func moody(d *dice) *target {
	policy, rules := inline(3*time.Second, 1000, 2*time.Second, 10*time.Second) // a busy machine may stand still for a second
	policy["breaker"] = map[string]any{"failures": 3, "ratio": 0.5, "window": "2s", "probe": "200ms", "probe_max": "1s"}
	rules.Breaker = true
	began := time.Now()
	return &target{name: "moody", create: map[string]any{"policy": policy, "max_concurrency": 8, "event_types": everything()}, rules: rules,
		behave: func() reply {
			if time.Since(began)%(3*time.Second) < 1800*time.Millisecond {
				return reply{after: 3 * time.Millisecond, status: http.StatusOK}
			}
			switch n := d.n(10); {
			case n < 7:
				return reply{status: http.StatusServiceUnavailable}
			case n < 9:
				return reply{reset: true}
			}
			return reply{hang: true}
		}}
}

// batched gets several events in one request. Now and then it refuses one, or its answer is lost;
// it never hangs, because the events then come alone before it can notice that the sender has left.
func batched(d *dice) *target {
	policy, rules := inline(5*time.Second, 1000, time.Second)
	return &target{name: "batched", create: map[string]any{"policy": policy, "format": "batch", "event_types": everything()}, rules: rules,
		behave: func() reply {
			after := d.between(0, 20*time.Millisecond)
			switch n := d.n(100); {
			case n < 10:
				return reply{after: after, status: http.StatusServiceUnavailable}
			case n < 15:
				return reply{after: after, reset: true}
			case n < 20:
				return reply{after: after, reset: true, status: http.StatusOK}
			}
			return reply{after: after, status: http.StatusOK}
		}}
}

// leaver is like healthy; the test deletes it.
func leaver(d *dice) *target {
	x := healthy(d)
	x.name = "leaver"
	return x
}

// all is every kind.
func all(d *dice) []*target {
	return []*target{healthy(d), slow(d), flaky(d), brittle(d), loose(d), moody(d), batched(d), leaver(d)}
}

// twoTenants are the endpoints of two tenants. Neither may ever get an event of the other.
func twoTenants(d *dice) (both []*target) {
	for _, tenant := range []string{"red", "blue"} {
		for _, x := range []*target{healthy(d), slow(d), loose(d)} {
			x.name = tenant + "-" + x.name
			x.create["tenant"], x.create["event_types"] = tenant, append(everything(), "fresh.*")
			both = append(both, x)
		}
	}
	return both
}
