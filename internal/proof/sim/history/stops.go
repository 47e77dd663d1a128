package history

import (
	"fmt"
	"slices"
	"time"
)

// stop is a time in which no request may be sent to an endpoint.
type stop struct {
	kind     Kind
	from, to time.Duration
}

// stops checks that no request starts after an operator's stop was acknowledged. Requests in flight
// may still arrive.
func (c *checker) stops() {
	quiet := map[string][]stop{}
	for name, actions := range c.stopping {
		quiet[name] = silences(actions)
	}
	for _, d := range c.deliveries {
		for _, r := range d.receipts {
			for _, s := range quiet[d.endpoint.ID] {
				if r.Start > s.from+c.Limits.Transit && r.Start < s.to && (s.kind == Delete || r.automatic()) && !c.resumed(r, s.from) {
					c.report(AfterDelete, d, r.Start, "sent although %s was acknowledged at %v", s.kind, s.from)
					break
				}
			}
			for _, a := range c.actions[d.id] {
				if a.Kind == Skip && a.Result == OK && r.Start > a.Return+c.Limits.Transit && !c.resumed(r, a.Return) {
					c.report(AfterDelete, d, r.Start, "sent although skipping it was acknowledged at %v", a.Return)
					break
				}
			}
		}
	}
	for _, a := range c.Actions {
		if a.Kind == Retry && a.Result == OK && a.Made != "" && !c.undone(a.Return, never) && c.byDelivery[a.Made] == nil {
			c.found = append(c.found, Violation{Rule: Lost, Endpoint: a.Endpoint, Delivery: a.Made, At: a.Return,
				Detail: "the new delivery of a retry is not there"})
		}
	}
}

// silences are the times in which an endpoint was certainly stopped. An enable that was called
// before the stop was acknowledged may have come after it.
func silences(actions []*Action) []stop {
	var out []stop
	for _, a := range actions {
		if a.Kind == Enable || a.Result != OK {
			continue
		}
		s := stop{a.Kind, a.Return, never}
		if a.Kind != Delete {
			for _, b := range actions {
				if b.Kind == Enable && (b.Result == Unknown || b.Return > a.Invoke) {
					s.to = min(s.to, b.Invoke)
				}
			}
		}
		out = append(out, s)
	}
	return out
}

// stopped says whether the endpoint may ever have been deleted or disabled.
func (c *checker) stopped(endpoint string) bool {
	return slices.ContainsFunc(c.stopping[endpoint], func(a *Action) bool { return a.Kind == Delete || a.Kind == Disable })
}

// heldAtEnd says whether the endpoint may be paused or disabled at the end.
func (c *checker) heldAtEnd(endpoint string) bool {
	return slices.ContainsFunc(c.stopping[endpoint], func(a *Action) bool {
		if a.Kind != Pause && a.Kind != Disable {
			return false
		}
		return !slices.ContainsFunc(c.stopping[endpoint], func(b *Action) bool {
			return b.Kind == Enable && b.Result == OK && a.Result == OK && b.Invoke > a.Return
		})
	})
}

// samples checks the books during the run: at any moment an endpoint has at least the deliveries of
// all events acknowledged before, and at most those of all events published so far and of all
// retries asked for.
func (c *checker) samples() {
	for _, s := range c.Samples {
		var have, least, most int64
		for _, n := range s.Counts {
			have += n
		}
		for _, e := range c.events {
			if e.ok && e.returned < s.At && !c.undone(e.returned, s.At) && slices.Contains(e.surely, s.Endpoint) {
				least++
			}
			if e.possible && e.invoke <= s.At && slices.Contains(e.perhaps, s.Endpoint) {
				most++
			}
		}
		for _, a := range c.Actions {
			if a.Kind == Retry && a.Endpoint == s.Endpoint && a.Result != Failed && a.Invoke <= s.At {
				most++
				if a.Made != "" && a.Return < s.At && !c.undone(a.Return, s.At) {
					least++
				}
			}
		}
		if have < least || have > most {
			c.found = append(c.found, Violation{Rule: Conserve, Endpoint: s.Endpoint, At: s.At,
				Detail: fmt.Sprintf("%d deliveries in all statuses together, not between %d and %d", have, least, most)})
		}
	}
}

// replays checks that every repeated delivery has an operator's order.
func (c *checker) replays() {
	made := map[string]int{}
	for _, d := range c.deliveries {
		if d.final == nil || d.final.ReplayOf == "" {
			continue
		}
		made[d.final.ReplayOf]++
		asked := 0
		for _, a := range c.actions[d.final.ReplayOf] {
			if a.Kind == Retry {
				asked++
			}
		}
		if made[d.final.ReplayOf] > asked {
			c.report(Conserve, d, 0, "replay number %d of %s, asked for %d times", made[d.final.ReplayOf], d.final.ReplayOf, asked)
		}
	}
}
