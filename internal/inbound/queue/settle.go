package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Answer is a consumer's answer to a lease.
type Answer struct {
	Verdict  Verdict
	Reason   string
	Delay    time.Duration // of a nack, instead of the policy's; valid if HasDelay
	HasDelay bool
}

// Settlement is an answer to the lease that a token names.
type Settlement struct {
	Token string
	Answer
	Reply *store.Answered // the answer to its request, stored with the settlement; nil: none
}

// errOver answers for leases that have expired, are settled, were never granted, or belong to
// another tenant.
var errOver = grapnel.Errorf(grapnel.CodeConflict, "the lease has expired or is settled: another consumer may have the message")

// SettleAll records answers, and returns an error or nil for each: grapnel.CodeConflict if the
// lease has expired or is settled.
func (r *Broker) SettleAll(ctx context.Context, scope store.Scope, list []Settlement) []error {
	errs := make([]error, len(list))
	now := r.now()
	var changes []core.Change
	var leases []grapnel.Lease
	var of []int // the index in list of each change
	for i := range list {
		lease, ep, err := r.find(ctx, scope, list[i].Token)
		if err != nil {
			errs[i] = err
			continue
		}
		change := r.judge(&ep, lease, list[i].Answer, now)
		change.Change.Answer = list[i].Reply
		changes = append(changes, change)
		leases, of = append(leases, lease), append(of, i)
	}
	if len(changes) == 0 {
		return errs
	}
	refused, err := r.record(ctx, changes)
	var again []Settlement
	var at []int // the index in list of each of them
	for n, i := range of {
		if err != nil {
			errs[i] = err
			continue // the lease may still be valid
		}
		_, remembered := r.granted.get(leases[n].Token)
		switch errs[i] = refused[n]; {
		case errs[i] == nil:
			r.settledBy(&leases[n], r.granted.drop(leases[n].Token), list[i].Verdict, now)
		case !errors.Is(errs[i], errOver):
			continue // as above
		case remembered:
			r.granted.drop(leases[n].Token)
			again, at = append(again, list[i]), append(at, i)
		default:
			r.metrics.stale.Inc()
		}
		r.line(leases[n].Queue).unbar()
	}
	// The store decides about what this process remembers: a tenant that has moved away and come back
	// has the same leases with other row ids.
	if len(again) > 0 {
		for n, err := range r.SettleAll(ctx, scope, again) {
			errs[at[n]] = err
		}
	}
	return errs
}

// settledBy counts a lease that ended, records its span, and logs it at the debug level, as the
// engine does with attempts.
func (r *Broker) settledBy(l *grapnel.Lease, span *trace.Span, by Verdict, now time.Time) {
	held := max(now.Sub(l.GrantedAt), 0)
	if span != nil {
		r.ended(*span, by, held)
	}
	r.metrics.settled.WithLabelValues(r.label(l.Queue), string(by)).Inc()
	if by != expire {
		r.metrics.held.Observe(held.Seconds())
	}
	if r.log.Enabled(context.Background(), slog.LevelDebug) {
		r.log.LogAttrs(context.Background(), slog.LevelDebug, "lease settled",
			slog.String("delivery", r.store.IDs().Delivery(l.CreatedAt, l.Delivery)),
			slog.String("endpoint", l.Queue), slog.Int("attempt", l.Number), slog.String("trigger", string(l.Trigger)),
			slog.String("action", string(by)), slog.String("duration", held.String()))
	}
}

// Extend moves the end of a lease to `by` from now, or by the queue's own lease time if by is 0. It
// fails with grapnel.CodeConflict if the lease has expired or is settled.
func (r *Broker) Extend(ctx context.Context, scope store.Scope, token string, by time.Duration) (grapnel.Lease, error) {
	_, ep, err := r.find(ctx, scope, token)
	if err != nil {
		return grapnel.Lease{}, err
	}
	if by == 0 {
		by = ep.Queue.Lease
	}
	lease, err := r.store.Extend(ctx, token, r.now(), by)
	switch code := grapnel.CodeOf(err); {
	case code == grapnel.CodeConflict || code == grapnel.CodeNotFound:
		return grapnel.Lease{}, errOver
	case err != nil:
		return grapnel.Lease{}, err
	}
	r.granted.put([]grapnel.Lease{lease})
	r.line(lease.Queue).expect([]grapnel.Lease{lease})
	return lease, nil
}

// find returns a lease and its queue. The store decides later whether the lease is valid.
func (r *Broker) find(ctx context.Context, scope store.Scope, token string) (grapnel.Lease, grapnel.Endpoint, error) {
	lease, known := r.granted.get(token)
	if !known {
		var err error
		if lease, err = r.store.Lease(ctx, token); err != nil {
			if grapnel.CodeOf(err) == grapnel.CodeNotFound {
				r.metrics.stale.Inc()
				err = errOver
			}
			return lease, grapnel.Endpoint{}, err
		}
	}
	ep, there := r.engine.Endpoint(scope, lease.Queue)
	if !there {
		return lease, ep, errOver
	}
	return lease, ep, nil
}

// judge turns an answer into its delivery's change.
func (r *Broker) judge(ep *grapnel.Endpoint, l grapnel.Lease, a Answer, now time.Time) core.Change {
	in := core.Finished{Endpoint: ep.ID, Delivery: l.Delivery, Outcome: policy.Outcome{Class: policy.ClassNone}}
	said := ""
	switch a.Verdict {
	case Nack:
		in.Outcome = policy.Outcome{Class: policy.ClassNack, Delay: a.Delay, HasDelay: a.HasDelay}
		said = "returned it"
	case Reject:
		in.Outcome.Class, said = policy.ClassReject, "rejected it"
	}
	if said != "" {
		said = l.Consumer + " " + said
		if a.Reason != "" {
			said += ": " + a.Reason
		}
	}
	return r.settled(ep, l, in, said, false, now)
}

// settled builds a change by the core's rules. The attempt's duration is the time for which the
// consumer held the lease.
func (r *Broker) settled(ep *grapnel.Endpoint, l grapnel.Lease, in core.Finished, said string, over bool, now time.Time) core.Change {
	ended := now
	if over {
		ended = l.Until
	}
	in.Attempt = grapnel.Attempt{StartedAt: l.GrantedAt, Duration: max(ended.Sub(l.GrantedAt), 0), Class: in.Outcome.Class, Error: said}
	return core.Settle(ep, in, l, over, r.store.IDs().Seed(l.Delivery), now)
}

// record stores changes, repeats them while their outcome is unknown, and returns nil for each that
// applied, else why it did not.
func (r *Broker) record(ctx context.Context, changes []core.Change) (refused []error, err error) {
	refused = make([]error, len(changes))
	for try := 1; ; try++ {
		var results []store.Changed
		if results, err = r.engine.Settle(ctx, changes); err == nil {
			for i := range results {
				applied := results[i].Applied
				if !applied && try > 1 {
					if applied, err = r.onRecord(ctx, &changes[i]); err != nil {
						return nil, err
					}
				}
				if !applied {
					refused[i] = errOver
				}
			}
			return refused, nil
		}
		if grapnel.CodeOf(err) != "" || try == r.bounds.Record {
			return nil, err
		}
		backoff.Wait(ctx.Done(), backoff.Store.After(try))
	}
}

// onRecord says whether a change that no longer applies was itself stored by an earlier try whose
// answer was lost.
func (r *Broker) onRecord(ctx context.Context, ch *core.Change) (bool, error) {
	d, err := r.store.Delivery(ctx, store.Everyone(), ch.Delivery)
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for i := range d.Attempts {
		if a := &d.Attempts[i]; a.Number == ch.Attempt.Number {
			return a.Class == ch.Attempt.Class && a.StartedAt.Equal(ch.Attempt.StartedAt.Truncate(time.Microsecond)), nil
		}
	}
	return false, nil
}

// runOut records expired leases; each counts as an attempt. It says whether any is recorded now:
// the store may refuse all, because their tenant is moving or because its clock is behind.
func (r *Broker) runOut(ep *grapnel.Endpoint, leases []grapnel.Lease) bool {
	now := r.now()
	changes, spans := make([]core.Change, len(leases)), make([]*trace.Span, len(leases))
	for i, l := range leases {
		spans[i] = r.granted.drop(l.Token)
		in := core.Finished{Endpoint: ep.ID, Delivery: l.Delivery, Outcome: policy.Outcome{Class: policy.ClassLease}}
		said := l.Consumer + " did not settle before its lease expired, after " + l.Until.Sub(l.GrantedAt).Round(time.Millisecond).String()
		changes[i] = r.settled(ep, l, in, said, true, now)
	}
	results, err := r.engine.Settle(context.Background(), changes)
	if err != nil {
		r.log.Error("recording expired leases failed; retrying at the next sweep", "leases", len(leases), "err", err)
		return false
	}
	ended := false
	for i := range results {
		if results[i].Applied {
			ended = true
			r.settledBy(&leases[i], spans[i], expire, now)
		}
	}
	r.line(ep.ID).unbar()
	return ended
}

// unbar nudges the dispatcher if the waiters were at their lease limits, because a lease has ended.
func (l *line) unbar() {
	l.mu.Lock()
	barred := l.barred
	l.mu.Unlock()
	if barred {
		l.nudge()
	}
}

// expect has the sweep read the store when the first of some leases expires.
func (l *line) expect(leases []grapnel.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range leases {
		if leases[i].Until.Before(l.lookAt) {
			l.lookAt = leases[i].Until
		}
	}
}
