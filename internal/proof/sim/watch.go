package sim

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// starts checks a beginning attempt against the watch.
func (r *receiver) starts(a core.Attempt) {
	h, w := &r.watch, r.w
	h.began[a.Head.Delivery] = h.era
	asked := a.Head.Trigger == grapnel.TriggerManual || a.Head.Trigger == grapnel.TriggerTest || a.Head.Trigger == grapnel.TriggerProbe
	if asked {
		return
	}
	if w.agenda.now < h.hold && w.plan.clockJump == 0 {
		w.excess("%s is attempted although it is to be spared until %v", r.config.ID, h.hold)
	}
	if a.Trigger != grapnel.TriggerProbe {
		if h.open {
			w.excess("%s is attempted although its breaker is open", r.config.ID)
		}
		if h.fresh++; h.back && h.fresh > 1 {
			w.excess("%s gets %d attempts at once right after its return", r.config.ID, h.fresh)
		}
		return
	}
	h.probing++
	defer func() { h.probeFrom = w.agenda.now }()
	switch {
	case !h.open:
		w.excess("%s is probed although its breaker is closed", r.config.ID)
	case h.probing > 1:
		w.excess("%s gets %d probes at once", r.config.ID, h.probing)
	case w.plan.clockJump == 0 && w.agenda.now < h.probedAt+h.rules.Probe.Std():
		w.excess("%s is probed %v after the last probe", r.config.ID, w.agenda.now-h.probedAt)
	}
}

// ends records an outcome, as the sender saw it.
func (r *receiver) ends(a core.Attempt, o policy.Outcome) {
	h, w := &r.watch, r.w
	current := h.began[a.Head.Delivery] == h.era
	delete(h.began, a.Head.Delivery)
	probe := a.Trigger == grapnel.TriggerProbe && a.Head.Trigger != grapnel.TriggerProbe
	if probe {
		h.probing--
	}
	if o.Class == policy.ClassInternal {
		h.fresh--
		return
	}
	throttled := o.Status == 429 || o.Status == 503 && o.HasRetryAfter
	if throttled && o.HasRetryAfter {
		h.hold = max(h.hold, w.agenda.now+o.RetryAfter)
	}
	h.back, h.steady = false, h.steady && !o.EndpointWide()
	if h.rules.Off {
		return
	}
	alive := o.Status > 0 && (o.Status < 500 || o.Wish != policy.WishNone)
	switch {
	case !current:
	case h.open && alive:
		r.returned()
	case h.open && (probe || a.Trigger == grapnel.TriggerProbe):
		h.probedAt = h.probeFrom
	case h.open:
	case alive:
		h.bad = 0
	case !throttled:
		if h.bad++; h.bad >= h.rules.Failures {
			w.trace("%s must be left alone now", r.config.ID)
			h.open, h.probedAt = true, w.agenda.now
			h.era++
		}
	}
}

// returned starts checking a recovered endpoint: if it continues to answer, the deliveries delayed
// by its outage must be due soon. Its trust, and with it the rate, grows with answers.
func (r *receiver) returned() {
	h, w := &r.watch, r.w
	h.open, h.bad, h.back, h.fresh, h.steady = false, 0, true, 0, true
	h.era++
	w.trace("%s is back", r.config.ID)
	back, n, era, soon := w.now(), w.node, h.era, 30*time.Second
	if w.plan.stall > 0 {
		soon = 2 * time.Minute // the store may take no call for most of half a minute
	}
	w.agenda.in(soon, func() {
		if w.node == n && n != nil && w.plan.clockJump == 0 && w.plan.receiverSlow == 0 && r.config.Status == grapnel.EndpointEnabled &&
			h.era == era && h.steady {
			r.madeDue(back)
		}
	})
}

// madeDue looks for deliveries whose due time is still that of the outage.
func (r *receiver) madeDue(back time.Time) {
	w := r.w
	// If nothing else delays attempts, a due delivery must have been attempted by now. Other
	// endpoints that hang can hold all slots.
	prompt := w.plan.stall == 0 && r.config.RateLimit == nil && w.agenda.now > r.watch.hold+5*time.Second && w.node.places(r.config.Tenant)
	for _, d := range w.deliveries() {
		if d.EndpointID != r.config.ID || d.Status.Final() || !d.Waiting.Head || d.Waiting.Blocked {
			continue
		}
		if prompt && d.Waiting.Due.Before(back) && !w.node.missed[d.Seq] {
			w.excess("%s has been due since %v and %s has been back for half a minute", d.PlainID(), d.Waiting.Due.Sub(w.base), r.config.ID)
		}
		if d.AttemptsMade == 0 || !d.Waiting.Due.After(w.now()) {
			continue
		}
		whole, err := w.model.Delivery(context.Background(), store.Everyone(), d.Seq)
		if err != nil {
			panic(err)
		}
		last := whole.Attempts[len(whole.Attempts)-1]
		if last.StartedAt.Before(back) && (policy.Outcome{Class: last.Class}).EndpointWide() {
			w.excess("%s waits until %v although %s has been back for %v", d.PlainID(), d.Waiting.Due.Sub(w.base), r.config.ID, w.now().Sub(back))
		}
	}
}

// stopped records a change of the endpoint's status.
func (r *receiver) stopped(before grapnel.EndpointStatus) {
	h, w := &r.watch, r.w
	switch now := r.config.Status; {
	case now == before:
	case now == grapnel.EndpointDisabled:
		h.stops++
		h.strikes, h.earned = 0, false
	case now == grapnel.EndpointPaused:
		h.paused, h.pauser = w.agenda.now, w.node
	case now == grapnel.EndpointEnabled:
		r.enabled = w.agenda.now
		if before == grapnel.EndpointDisabled {
			h.strikes, h.earned, h.hold, h.since = 0, false, 0, w.agenda.now
			r.returned()
			return
		}
		if h.pauser == w.node { // another life may not know when the pause began
			h.since = min(h.since+w.agenda.now-h.paused, w.agenda.now)
		}
		if !h.open {
			h.back, h.fresh = true, 0
		}
	}
}

// restarted passes the recorded standings to the watches, because a new life of the node must
// follow them.
func (w *world) restarted() {
	standings := w.standings()
	for _, r := range w.endpoints {
		h := &r.watch
		clear(h.began)
		h.probing, h.bad, h.back, h.fresh, h.probedAt, h.hold = 0, 0, false, 0, 0, 0
		h.era++
		st, known := standings[r.config.ID]
		if h.open = st.Open(); known {
			h.hold = st.HoldUntil.Sub(w.base) - w.skew
			r.mustCarryOut(&st)
		}
	}
}

// mustCarryOut checks that this life of the node carries out a disabling that an earlier life had
// decided.
func (r *receiver) mustCarryOut(st *store.Standing) {
	w := r.w
	if st.SentencedAt.IsZero() || r.config.Status != grapnel.EndpointEnabled || !r.config.DeletedAt.IsZero() ||
		r.config.UpdatedAt.After(st.SentencedAt) {
		return
	}
	stops, life := r.watch.stops, w.node
	w.agenda.in(10*time.Second, func() {
		if w.node == life && r.watch.stops == stops && r.config.DeletedAt.IsZero() {
			w.excess("%s is not disabled although that was decided before the restart", r.config.ID)
		}
	})
}

// remembered checks, after a clean stop, that every endpoint's standing is recorded.
func (w *world) remembered() {
	standings := w.standings()
	for _, r := range w.endpoints {
		st := standings[r.config.ID]
		if open := st.Open(); open != r.watch.open && !r.watch.rules.Off && r.config.DeletedAt.IsZero() {
			w.excess("the breaker of %s is open: %v; on record: %v", r.config.ID, r.watch.open, open)
		}
	}
}

// recorded adds an attempt that is now on record to the count towards disabling.
func (r *receiver) recorded(a *grapnel.Attempt) {
	h, w, rules := &r.watch, r.w, r.config.Policy.Disable
	wish := policy.Wish(a.ResponseHeaders[wishHeader])
	if a.Decision == policy.Deliver {
		h.strikes, h.earned, h.since = 0, false, max(h.since, a.StartedAt.Add(a.Duration).Sub(w.base))
	}
	if wish == policy.WishDisable && a.Trigger != grapnel.TriggerTest && r.config.Status == grapnel.EndpointEnabled &&
		w.plan.storeError+w.plan.storeUnknown == 0 {
		stops, n := h.stops, w.node
		w.agenda.in(40*time.Second, func() {
			if h.stops == stops && r.config.DeletedAt.IsZero() && w.node == n && n != nil {
				w.excess("%s is not disabled although its receiver asked for it", r.config.ID)
			}
		})
	}
	if a.Decision == policy.Deliver || wish != policy.WishNone {
		return
	}
	counts := a.Trigger == grapnel.TriggerSchedule || a.Trigger == grapnel.TriggerProbe
	if rules.Consecutive == 0 || a.Number != 1 || !counts || a.Class != policy.ClassStatus4xx || a.StatusCode == http.StatusGone ||
		r.config.Status == grapnel.EndpointDisabled {
		return
	}
	if h.strikes++; h.strikes < rules.Consecutive || h.earned || w.plan.storeError+w.plan.storeUnknown > 0 {
		return
	}
	h.earned = true
	stops := h.stops
	w.agenda.in(40*time.Second, func() {
		if h.stops == stops && r.config.DeletedAt.IsZero() && h.earned && w.node != nil {
			w.excess("%s is not disabled although %d deliveries in a row were refused", r.config.ID, rules.Consecutive)
		}
	})
}

// sentenced checks that the core has had a reason to disable an endpoint. An attempt that was in
// flight when it decided may have succeeded since.
func (r *receiver) sentenced(why string) {
	h, w, n := &r.watch, r.w, r.w.node
	if w.plan.storeError+w.plan.storeUnknown > 0 || w.plan.clockJump > 0 {
		return
	}
	if after := r.config.Policy.Disable.After.Std(); strings.HasPrefix(why, "no attempt has succeeded") &&
		h.since <= h.judged && h.judged-h.since < after {
		w.excess("%s is disabled %v after its last success", r.config.ID, h.judged-h.since)
	}
	if !strings.Contains(why, "deliveries in a row") {
		return
	}
	strikes, earned := &h.strikes, &h.earned
	w.agenda.in(20*time.Second, func() {
		if w.node == n && !*earned && *strikes > 0 && *strikes < r.config.Policy.Disable.Consecutive {
			w.excess("%s is disabled after %d refused deliveries in a row", r.config.ID, *strikes)
		}
	})
}

// aged looks for pending deliveries older than max_age of an endpoint whose circuit is open. One
// that is not in the window may be late by max_age once more: those in the window end first.
func (w *world) aged() {
	n := w.node
	if n != nil && w.agenda.now-n.born > 30*time.Second && w.plan.clockJump == 0 {
		for _, d := range w.deliveries() {
			r := w.receiver(d.EndpointID)
			longest := r.config.Policy.MaxAge.Std()
			late := w.now().Sub(d.Waiting.Anchor.Add(longest))
			if longest > 0 && r.watch.open && r.config.Status == grapnel.EndpointEnabled && !d.Status.Final() && d.Waiting.Head &&
				!d.Waiting.Blocked && late > longest+30*time.Second && w.agenda.now-r.enabled > 30*time.Second {
				w.excess("%s still waits for %s, %v too long", d.PlainID(), r.config.ID, late)
			}
		}
	}
	w.agenda.in(10*time.Second, w.aged)
}

// places says whether a retry of a tenant could start.
func (n *node) places(tenant string) bool {
	for _, at := range n.hosts {
		if at >= n.perHost {
			return false
		}
	}
	return n.flying < n.core.Slots() && n.again < max(1, n.core.Slots()/2) && n.againOf[tenant] < n.mostAgain()
}

// act changes an endpoint, as package engine does: durable first, then in the core, then answered.
func (r *receiver) act(kind history.Kind, change func(*grapnel.Endpoint)) {
	w := r.w
	if w.node == nil || w.node.leaving || !r.config.DeletedAt.IsZero() {
		return
	}
	invoke := w.agenda.now
	before := r.config.Status
	change(&r.config)
	r.config.UpdatedAt = w.now()
	r.stopped(before)
	put, err := w.model.PutEndpoint(context.Background(), store.Everyone(), r.config, store.With{})
	if err != nil {
		panic(err)
	}
	r.config.Revision = put.Revision
	current := r.config
	w.trace("%s %s", kind, r.config.ID)
	w.node.step(core.Configured{Endpoint: &current, Newest: w.configuration().Newest})
	w.history.Actions = append(w.history.Actions, history.Action{Kind: kind, Endpoint: r.config.ID, Invoke: invoke,
		Return: w.agenda.now + time.Millisecond, Result: history.OK})
}
