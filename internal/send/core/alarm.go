package core

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

func (a *alarm) place() *int { return &a.pos }

func (a *alarm) before(b *alarm) bool {
	if c := a.at.Compare(b.at); c != 0 {
		return c < 0
	}
	return a.ep.number < b.ep.number
}

// next is the earliest alarm, zero if no endpoint has one.
func (a *alarms) next() time.Time {
	if first, ok := a.line.first(); ok {
		return first.at
	}
	return time.Time{}
}

// due removes and returns an endpoint whose alarm time has come, or returns nil.
func (a *alarms) due(now time.Time) *endpoint {
	first, ok := a.line.first()
	if !ok || first.at.After(now) {
		return nil
	}
	a.line.leave(first)
	return first.ep
}

// setBack is the smallest backward jump of the clock that counts as set back and not as corrected.
const setBack = time.Second

// rewind moves the core's own waiting times back with the clock, so that a wait of one second stays
// a wait of one second, and nothing that has happened is in the future. The due times of deliveries
// stay: they are promises about the clock. Those that are far away now are read again, because
// their clock may have been wrong (ahead). Attempts that operators asked for are due.
func (c *Core) rewind(now time.Time, by time.Duration) {
	byNumber := func(a, b *endpoint) int { return cmp.Compare(a.number, b.number) }
	for _, ep := range slices.SortedFunc(maps.Values(c.endpoints), byNumber) {
		st := &ep.gate.standing
		for _, at := range []*time.Time{&ep.pollAt, &ep.makeDueAt, &ep.endAt, &ep.window.retryAt, &st.HoldUntil, &st.ProbeAt,
			&ep.since, &ep.refusedAt, &ep.heard} {
			if at.After(now) {
				*at = latest(at.Add(-by), now)
			}
		}
		far := now.Add(c.bounds.Horizon)
		if slices.ContainsFunc(ep.window.waiting, func(h *head) bool { return h.misfires > 0 || h.due.After(far) }) {
			ep.window.forgetPlans(now) // their due times are in the store
		}
		ep.window.obey(now)
		c.refresh(now, ep)
	}
	c.late.prompt = earliest(c.late.prompt, now)
	for i := range c.late.begun {
		if at := &c.late.begun[i].at; at.After(now) {
			*at = now
		}
	}
}
