package torture

import (
	"fmt"
	"slices"
	"time"
)

// The invariants.
const (
	I1 = "I1" // a 2xx means one effect
	I2 = "I2" // never more than one effect
	I3 = "I3" // what must be refused is not accepted, and has no effect
	I4 = "I4" // the answers lead a sender that retries to one effect
	I5 = "I5" // the state at the end is that of the newest version
	I6 = "I6" // answers come within the budget
)

// Invariants says each of them in a sentence.
var Invariants = map[string]string{
	I1: "an event that was answered 2xx has its effect",
	I2: "an event never has more than one effect",
	I3: "a request that must be refused is not answered 2xx and has no effect",
	I4: "the answers lead a sender that retries to exactly one effect",
	I5: "the state at the end is that of the newest version",
	I6: "answers come within the budget, at the 99th percentile",
}

// violation is an invariant that a history breaks, with the event that shows it.
type violation struct {
	Invariant string
	Event     int // index in History.Events; -1: a state shows it
	Text      string
	status    int // of the answer that broke it; 0: none did
}

// judge returns how a history breaks the invariants, at most once per invariant and event. Events
// without readings are judged by their answers alone.
func judge(h *History, budget time.Duration) (all []violation) {
	add := func(v violation) {
		if !slices.ContainsFunc(all, func(o violation) bool { return o.Invariant == v.Invariant && o.Event == v.Event }) {
			all = append(all, v)
		}
	}
	for i, e := range h.Events {
		effects, read := e.effects()
		accepted, failed := h.accepted(i)
		switch {
		case !read:
		case effects > e.Most && e.Most == 0:
			add(violation{I3, i, fmt.Sprintf("%d effects of requests that must be refused", effects), 0})
		case effects > e.Most:
			add(violation{I2, i, fmt.Sprintf("%d effects", effects), 0})
		case accepted && effects < e.Least && failed:
			add(violation{I4, i, fmt.Sprintf("%d effects, although the retry was answered 2xx", effects), 0})
		case accepted && effects < e.Least:
			add(violation{I1, i, fmt.Sprintf("%d effects, although it was answered 2xx", effects), 0})
		}
	}
	for _, r := range h.Requests {
		got := classOf(r.Status)
		switch {
		case r.Killed || r.Allowed&got != 0:
		case got == Silent:
			add(violation{I6, r.Event, "no answer to \"" + r.Label + "\": " + r.Error, 0})
		case got == Accepted:
			add(violation{I3, r.Event, fmt.Sprintf("\"%s\" was answered %d", r.Label, r.Status), r.Status})
		default:
			add(violation{I4, r.Event, fmt.Sprintf("\"%s\" was answered %d; right: %v", r.Label, r.Status, r.Allowed), r.Status})
		}
	}
	for _, s := range h.States {
		if s.wrong() {
			add(violation{I5, -1, fmt.Sprintf("%s of %s is %q; right: %q", s.Field, s.Key, s.Got, s.Want), 0})
		}
	}
	if r := slowest(h); r != nil && r.Took > budget {
		add(violation{I6, r.Event, fmt.Sprintf("\"%s\" was answered after %v; the budget is %v", r.Label, round(r.Took), budget), 0})
	}
	return all
}

// slowest is the answered request at the 99th percentile of all that were not made slow on purpose.
func slowest(h *History) *Request {
	answered := slices.DeleteFunc(slices.Clone(h.Requests), func(r *Request) bool { return r.Status == 0 || r.Slow })
	if len(answered) == 0 {
		return nil
	}
	slices.SortFunc(answered, func(a, b *Request) int { return int(a.Took - b.Took) })
	return answered[(len(answered)*99+99)/100-1]
}

// round keeps three digits or so of a duration.
func round(d time.Duration) time.Duration {
	for unit := time.Microsecond * 10; unit < time.Second; unit *= 10 {
		if d < unit*1000 {
			return d.Round(unit)
		}
	}
	return d.Round(100 * time.Millisecond)
}
