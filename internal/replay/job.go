package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// stepsInASecond is how many steps a job makes at most; a fast one makes more in each.
const stepsInASecond = 20

// job is the goroutine of one running replay. What it keeps is in the store; the rest can be lost.
type job struct {
	runner   *Runner
	id       string
	endpoint string
	ctx      context.Context
	nudged   chan struct{} // holds a token when somebody has changed the replay
	ended    chan struct{} // holds a token when deliveries of its endpoint are over

	pace     pace
	searched int64 // as far as there is nothing to make, though the store does not know it yet
	atTheEnd bool  // the last of all that match has been looked at

	mu    sync.Mutex
	why   string // it does not get on, though it is running
	speed speed
}

// next says what a job does next: it is over, or it waits.
type next struct {
	over   bool
	wait   time.Duration // at most; less if somebody changes it
	hinted bool          // or if deliveries are over
	why    string        // not empty: what keeps it from going on
}

// run takes steps until the replay is over, is paused, or the runner stops.
func (j *job) run() {
	for failures := 0; j.ctx.Err() == nil; {
		n, err := j.look()
		var refused *grapnel.Error
		switch {
		case j.ctx.Err() != nil:
			return
		case errors.As(err, &refused) && refused.Code == grapnel.CodeConflict:
			// Somebody has changed it, or a step is done whose answer was lost: look again.
			failures++
			n = next{wait: pause(failures)}
		case errors.As(err, &refused) && refused.RetryAfter > 0:
			n = next{wait: refused.RetryAfter, why: "the server has too much to do to deliver again as well: " + refused.Detail}
		case err != nil:
			// Whether it was done or not, the store takes the same step only once.
			failures++
			j.runner.log.Error("a replay does not get on; it will be tried again", "replay", j.id, "error", err)
			n = next{wait: pause(failures), why: "the store did not answer; it is tried again"}
		default:
			failures = 0
		}
		if n.over {
			return
		}
		j.say(n.why)
		if n.wait > 0 {
			j.rest(n)
		}
	}
}

// rest waits as next says.
func (j *job) rest(n next) {
	ended := j.ended
	if !n.hinted {
		ended = nil
	}
	t := time.NewTimer(n.wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-j.nudged:
	case <-ended:
	case <-j.ctx.Done():
	}
}

// look reads where the replay is and does what comes next.
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
	ep, there := j.runner.street.Endpoint(store.Everyone(), r.Endpoint)
	left, want := j.runner.bounds.Outstanding-(r.Started-r.Done), j.pace.batch(r.Rate, j.runner.bounds.Outstanding)
	switch {
	case r.Status != grapnel.ReplayRunning || !j.runner.street.Decides(r.Endpoint):
		return next{over: true}, nil
	case !there:
		return j.end(&r, grapnel.ReplayCancelled, "the endpoint was deleted")
	case r.StopAfter > 0 && r.Row >= r.StopAfter:
		return j.end(&r, grapnel.ReplayStopped, fmt.Sprintf("%d deliveries in a row were not delivered", r.Row))
	case r.Canary && r.Delivered == 0 && r.Done > 0:
		return j.end(&r, grapnel.ReplayStopped, "the first one was not delivered, so the others were not made")
	case j.atTheEnd && r.Started == r.Done:
		return j.end(&r, grapnel.ReplayCompleted, "")
	case j.atTheEnd:
		return next{wait: j.runner.bounds.Slowly, hinted: true}, nil
	case ep.Status != grapnel.EndpointEnabled:
		return next{wait: j.runner.bounds.Slowly, why: "the endpoint is " + string(ep.Status)}, nil
	case r.Canary && r.Delivered == 0:
		if r.Started > 0 {
			return next{wait: j.runner.bounds.Slowly, hinted: true, why: "the first one has to be delivered before the others are made"}, nil
		}
		want = 1
	case left < want:
		return next{wait: j.runner.bounds.Slowly, hinted: true, why: fmt.Sprintf("%d deliveries have been made and are not over yet", r.Started-r.Done)}, nil
	}
	if wait := j.pace.until(now, r.Rate, j.runner.bounds.Outstanding); wait > 0 {
		return next{wait: wait}, nil
	}
	return next{}, j.step(now, &r, &ep, want)
}

// step finds the next deliveries that are meant and makes them once more.
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
					Ordered: ep.Ordering == grapnel.OrderByKey, At: now})
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
		if _, err := j.runner.street.Advance(j.ctx, r.Tenant, step); err != nil {
			return err
		}
		j.pace.spend(now, r.Rate, len(step.Items))
	}
	j.searched, j.atTheEnd = step.To, atTheEnd
	return nil
}

// end makes durable that the replay is over.
func (j *job) end(r *grapnel.Replay, status grapnel.ReplayStatus, reason string) (next, error) {
	now := j.runner.now()
	r.Status, r.Reason, r.UpdatedAt, r.FinishedAt = status, reason, now, now
	with := store.With{}
	if status != grapnel.ReplayCompleted {
		with.Audit = entry(r, verbOf(status), grapnel.By{Actor: grapnel.ActorItself, Reason: reason}, now)
	}
	if _, err := j.runner.street.PutReplay(j.ctx, store.Of(r.Tenant), *r, with); err != nil {
		return next{}, err
	}
	j.runner.finished(r)
	return next{over: true}, nil
}

// say notes why it does not get on.
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

// standing says why it does not get on, and how many deliveries a second come to their end.
func (j *job) standing(now time.Time) (why string, perSecond float64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.why, j.speed.perSecond(now)
}
