package policy

import (
	"testing"
	"time"
)

func TestParseWish(t *testing.T) {
	for value, want := range map[string]Wish{
		"stop": WishStop, "STOP": WishStop, " stop\t": WishStop, "disable": WishDisable, "Disable": WishDisable,
		"": WishNone, "stopp": WishNone, "stop, disable": WishNone, "stop;q=1": WishNone, "pause": WishNone, "410": WishNone,
	} {
		if got := ParseWish(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

// TestWishes: a wish is granted as far as the policy obeys a 410, and only in a whole answer of the
// receiver.
func TestWishes(t *testing.T) {
	obeys, _ := Preset("standard")
	retries, _ := Preset("paylera")
	ends := inline(t, `{"classify":{"410":"fail","503":"throttle"}}`)
	throttles := inline(t, `{"classify":{"410":"throttle"}}`)
	family := inline(t, `{"classify":{"4xx":"retry"}}`) // the 410 of the defaults beats a family
	narrow := inline(t, `{"success":["200"]}`)
	status := func(n int) Outcome { return Outcome{Status: n, Class: ClassOf(n)} }
	for _, c := range []struct {
		name    string
		policy  *Policy
		o       Outcome
		stop    Decision
		disable Decision
		effect  bool // disable disables
	}{
		{"500", &obeys, status(500), Fail, DisableEndpoint, true},
		{"404", &obeys, status(404), Fail, DisableEndpoint, true},
		{"301", &obeys, status(301), Fail, DisableEndpoint, true},
		{"429", &obeys, status(429), Fail, DisableEndpoint, true},
		{"410, which disables by itself", &obeys, status(410), DisableEndpoint, DisableEndpoint, true},
		{"a success", &obeys, status(204), Deliver, Deliver, true},
		{"a 2xx that is no success", &narrow, status(204), Fail, DisableEndpoint, true},
		{"a family that is retried", &family, status(500), Fail, DisableEndpoint, true},
		{"a body that never ends", &obeys, Outcome{Status: 200, Class: ClassTimeout}, Retry, Retry, false},
		{"an answer that breaks off", &obeys, Outcome{Status: 500, Class: ClassReset}, Retry, Retry, false},
		{"a proxy's answer", &obeys, Outcome{Status: 502, Class: ClassProxy}, Retry, Retry, false},
		{"a refused token", &obeys, Outcome{Status: 401, Class: ClassToken}, Retry, Retry, false},
		{"no answer", &obeys, Outcome{Class: ClassConnect}, Retry, Retry, false},
		{"500, where 410 is retried", &retries, status(500), Retry, Retry, false},
		{"410, where it is retried", &retries, status(410), Retry, Retry, false},
		{"a success, where 410 is retried", &retries, status(200), Deliver, Deliver, false},
		{"500, where 410 throttles", &throttles, status(500), Retry, Retry, false},
		{"500, where 410 only ends", &ends, status(500), Fail, Fail, false},
		{"a success, where 410 only ends", &ends, status(200), Deliver, Deliver, false},
	} {
		for wish, want := range map[Wish]Decision{WishStop: c.stop, WishDisable: c.disable} {
			o := c.o
			o.Wish = wish
			step := c.policy.After(Progress{Attempts: 1, Anchor: dawn}, o, dawn)
			if got := c.policy.Decide(o); got != want || step.Decision != want {
				t.Errorf("%s, %s: %s and %s, want %s", c.name, wish, got, step.Decision, want)
			}
			if disables := step.Decision == DisableEndpoint || wish == WishDisable && c.effect; step.Disables != disables {
				t.Errorf("%s, %s: disables: %v", c.name, wish, step.Disables)
			}
			if again := c.policy.Heed(c.policy.Heed(o)); again != c.policy.Heed(o) {
				t.Errorf("%s, %s: heeded twice it is %+v", c.name, wish, again)
			}
		}
	}
}

// TestAWishKeepsThePause: a receiver that asks for a pause and ends the delivery gets both.
func TestAWishKeepsThePause(t *testing.T) {
	p, _ := Preset("standard")
	step := p.After(Progress{Attempts: 1, Anchor: dawn},
		Outcome{Status: 429, Class: ClassStatus429, HasRetryAfter: true, RetryAfter: time.Minute, Wish: WishStop}, dawn)
	if step.Decision != Fail || !step.Hold.Equal(dawn.Add(time.Minute)) || !step.Next.IsZero() {
		t.Errorf("%+v", step)
	}
}

// TestAWishIsNoOutage: a granted wish neither opens a circuit nor lowers trust, whatever its status;
// one that the policy ignores leaves a 5xx a failure of the endpoint.
func TestAWishIsNoOutage(t *testing.T) {
	obeys, _ := Preset("standard")
	retries, _ := Preset("paylera")
	for _, p := range []*Policy{&obeys, &retries} {
		o := p.Heed(Outcome{Status: 500, Class: ClassStatus5xx, Wish: WishStop})
		if wide := p == &retries; o.EndpointWide() != wide || o.alive() == wide {
			t.Errorf("%s: wide %v, alive %v", p.Name, o.EndpointWide(), o.alive())
		}
	}
}

// TestAWishDisables: it sentences like a 410, even in a success.
func TestAWishDisables(t *testing.T) {
	for _, o := range []Outcome{{Status: 200, Class: ClassNone}, {Status: 500, Class: ClassStatus5xx}} {
		s := newSlate("standard")
		o.Wish = WishDisable
		v := s.see(0, o, func(s *Sighting) { s.Disables = true })
		if v.Disable == "" || v.Recovered || !s.st.SentencedByAnswer {
			t.Errorf("%d: %+v, %+v", o.Status, v, s.st)
		}
	}
}
