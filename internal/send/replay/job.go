package replay

import (
	"errors"
	"fmt"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

// next is a job's next action: it ends, or it waits.
type next struct {
	over  bool
	wait  time.Duration   // at most; less if the replay is changed
	ended <-chan struct{} // or if this has a token
	why   string          // the reason why it makes no progress; empty: it does
}

// run makes steps until the replay is finished or paused, or the runner stops.
func (j *job) run() {
	for failures := 0; j.ctx.Err() == nil; {
		n, err := j.look()
		var refused *grapnel.Error
		switch {
		case j.ctx.Err() != nil:
			return
		case errors.As(err, &refused) && (refused.Code == grapnel.CodeConflict || refused.Code == grapnel.CodeNotFound):
			// The replay was changed, its endpoint deleted, or a step whose answer was lost has been
			// made: look again.
			failures++
			n = next{wait: backoff.Store.After(failures)}
		case errors.As(err, &refused) && refused.RetryAfter > 0:
			n = next{wait: refused.RetryAfter, why: "the server is overloaded: " + refused.Detail}
		case err != nil:
			// Repeating is safe, because the store applies the same step only once.
			if failures++; backoff.Tells(failures) {
				j.runner.log.Error("replay step failed; retrying", "replay", j.id, "failures", failures, "err", err)
			}
			n = next{wait: backoff.Store.After(failures), why: "the store did not answer; retrying"}
		default:
			failures = 0
		}
		if n.over {
			return
		}
		j.say(n.why)
		if n.wait > 0 {
			wait(j.ctx, n.wait, j.nudged, n.ended)
		}
	}
}

// look reads the replay's state and makes the next step or ends the job.
func (j *job) look() (next, error) {
	now := j.runner.now()
	r, err := j.runner.store.Replay(j.ctx, store.Everyone(), j.id)
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return next{over: true}, nil
	}
	if err != nil {
		return next{}, err
	}
	j.observe(now, &r)
	j.runner.saw(&r)
	ep, there := j.runner.engine.Endpoint(store.Everyone(), r.Endpoint)
	if !there && !r.Status.Final() {
		// The endpoint may be newer than this node's configuration.
		if err := j.runner.engine.CatchUp(j.ctx); err != nil {
			return next{}, err
		}
		ep, there = j.runner.engine.Endpoint(store.Everyone(), r.Endpoint)
	}
	switch {
	case r.Status.Final() || there && r.Status != grapnel.ReplayRunning || !j.runner.engine.Decides(r.Endpoint):
		return next{over: true}, nil
	case !there:
		return j.end(&r, grapnel.ReplayCancelled, "the endpoint was deleted")
	case r.StopAfter > 0 && r.Row >= r.StopAfter:
		return j.end(&r, grapnel.ReplayStopped, fmt.Sprintf("%d deliveries in a row failed", r.Row))
	case r.Canary && r.Delivered == 0 && r.Done > 0:
		return j.end(&r, grapnel.ReplayStopped, "the first delivery failed, so the others were not created")
	case j.atTheEnd && r.Started == r.Done:
		return j.end(&r, grapnel.ReplayCompleted, "")
	case j.atTheEnd:
		return next{wait: j.runner.bounds.Slowly, ended: j.ended, why: remains(&r)}, nil
	}
	if why := j.runner.stall(&r, &ep); why != "" {
		return next{wait: j.runner.bounds.Slowly, ended: j.ended, why: why}, nil
	}
	want := j.pace.batch(r.Rate, j.runner.bounds.Outstanding)
	if r.Canary && r.Delivered == 0 {
		want = 1
	}
	if wait := j.pace.until(now, r.Rate, j.runner.bounds.Outstanding); wait > 0 {
		return next{wait: wait}, nil
	}
	return next{}, j.step(now, &r, &ep, want)
}

// stall is the reason why a running replay creates no delivery now, by its row and its endpoint
// alone, so that each node can tell; empty: there is none.
func (r *Runner) stall(one *grapnel.Replay, ep *grapnel.Endpoint) string {
	switch pending := one.Started - one.Done; {
	case ep.Status != grapnel.EndpointEnabled:
		return "the endpoint is " + string(ep.Status)
	case one.Canary && one.Delivered == 0 && one.Started > 0:
		return "the first delivery must succeed before the others are created"
	case pending+(pace{}).batch(one.Rate, r.bounds.Outstanding) > r.bounds.Outstanding:
		return fmt.Sprintf("%d deliveries are still pending", pending)
	}
	return ""
}

// remains is the reason why a replay that has created all of its deliveries is not finished.
func remains(r *grapnel.Replay) string {
	return fmt.Sprintf("all are created, and the last %d are pending: they are due later, or wait behind their keys", r.Started-r.Done)
}

// step finds the next deliveries that qualify and redelivers them.
func (j *job) step(now time.Time, r *grapnel.Replay, ep *grapnel.Endpoint, want int) error {
	over, err := j.runner.turn(j.ctx, r.Endpoint)
	if err != nil {
		return err
	}
	defer over()
	find := store.CandidateQuery{Endpoint: r.Endpoint, Selection: r.Selection, OverBy: r.CreatedAt, UpTo: r.UpTo,
		After: max(r.Cursor, j.searched), Limit: want + j.runner.bounds.Short}
	step := store.ReplayStep{Replay: r.ID, From: r.Cursor, To: find.After, At: now}
	atTheEnd := false
	for until := now.Add(j.runner.bounds.Search); len(step.Items) < want && !atTheEnd; {
		list, resume, err := j.runner.store.Candidates(j.ctx, store.Of(r.Tenant), find)
		if err != nil {
			return err
		}
		for i := range list {
			if len(step.Items) == want {
				resume = step.To
				break
			}
			if step.To = list[i].Seq; excluded(&list[i], &r.Selection) == meant {
				step.Items = append(step.Items, store.Redelivery{Of: list[i].Seq, Trigger: grapnel.TriggerReplay,
					Ordered: ep.Ordered(), At: now, Seen: &list[i].Mark})
			}
		}
		if atTheEnd = resume == 0; !atTheEnd {
			step.To, find.After, find.Limit = resume, resume, min(2*find.Limit, max(j.runner.bounds.Long, want))
			if !j.runner.now().Before(until) {
				break
			}
		}
	}
	if len(step.Items) > 0 || step.To > step.From && !atTheEnd {
		created, err := j.runner.engine.Advance(j.ctx, r.Tenant, step)
		if err != nil {
			return err
		}
		j.runner.made(created)
		j.pace.spend(now, r.Rate, len(step.Items))
	}
	j.searched, j.atTheEnd = step.To, atTheEnd
	return nil
}

// end stores the replay's final status.
func (j *job) end(r *grapnel.Replay, status grapnel.ReplayStatus, reason string) (next, error) {
	now := j.runner.now()
	r.Status, r.Reason, r.UpdatedAt, r.FinishedAt = status, reason, now, now
	with := store.With{}
	if status != grapnel.ReplayCompleted {
		with.Audit = entry(r, verbs[status], grapnel.By{Actor: grapnel.ActorItself, Reason: reason}, now)
	}
	if _, err := j.runner.engine.PutReplay(j.ctx, store.Of(r.Tenant), *r, with); err != nil {
		return next{}, err
	}
	j.runner.finished(r)
	return next{over: true}, nil
}

// say records the reason why the job makes no progress.
func (j *job) say(why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.why = why
}

func (j *job) observe(now time.Time, r *grapnel.Replay) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.speed.observe(now, r.Done)
}

// standing returns the reason why the job makes no progress, and the deliveries finished per
// second.
func (j *job) standing(now time.Time) (why string, perSecond float64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.why, j.speed.perSecond(now)
}

// verbs are the audit verbs for giving a replay a status.
var verbs = map[grapnel.ReplayStatus]grapnel.Verb{
	grapnel.ReplayPaused: grapnel.VerbPauseReplay, grapnel.ReplayRunning: grapnel.VerbResumeReplay,
	grapnel.ReplayStopped: grapnel.VerbStopReplay, grapnel.ReplayCancelled: grapnel.VerbCancelReplay,
}

// entry is the audit entry of an order. Entries refer to endpoints and deliveries only, so the
// replay's id precedes the reason.
func entry(r *grapnel.Replay, verb grapnel.Verb, by grapnel.By, at time.Time) *grapnel.AuditEntry {
	reason := r.ID
	if by.Reason != "" {
		reason += ": " + by.Reason
	}
	return &grapnel.AuditEntry{At: at, Tenant: r.Tenant, Actor: by.Actor, Verb: verb, Endpoint: r.Endpoint, Reason: reason}
}

// begin starts a job's goroutine unless it runs; the caller holds the lock.
func (r *Runner) begin(id, endpoint string) {
	if r.ctx == nil || r.ctx.Err() != nil || r.jobs[id] != nil {
		return
	}
	j := &job{runner: r, id: id, endpoint: endpoint, ctx: r.ctx, nudged: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
	r.jobs[id] = j
	r.work.Go(func() {
		j.run()
		r.mu.Lock()
		delete(r.jobs, id)
		r.mu.Unlock()
		// It may have been resumed between its last look at itself and this moment.
		backoff.Wake(r.appeared)
	})
}
