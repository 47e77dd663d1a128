package alarm

import (
	"context"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/policy"
)

// tell sends the messages that are due, all at once, and notes who got them. It returns within a
// time.
func (k *Keeper) tell(ctx context.Context, within time.Duration, now time.Time) {
	k.mu.Lock()
	all := k.letters(now)
	k.mu.Unlock()
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	results := make([]egress.Result, len(all))
	var sending sync.WaitGroup
	for i := range all {
		sending.Go(func() { results[i] = k.o.Sender.Send(ctx, all[i].mail) })
	}
	sending.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	now = k.now()
	for i := range all {
		k.told(now, &all[i], &results[i])
	}
}

// told notes the result of a message. Any failure is tried again, also a refusal: a person may
// repair the channel while the alarm lasts.
func (k *Keeper) told(now time.Time, m *letter, r *egress.Result) {
	a, id := m.about, m.to.Endpoint.ID
	if r.Outcome.Class == policy.ClassNone {
		k.sent.WithLabelValues("success").Inc()
		if a.Told == nil {
			a.Told = map[string]alert.Transition{}
		}
		a.Told[id] = m.is
		delete(a.failed, id)
		k.dirty = true
		k.log.Info("alarm told", "rule", a.Rule, "message", string(m.is), "endpoint", id)
		return
	}
	k.sent.WithLabelValues("failure").Inc()
	if a.failed == nil {
		a.failed = map[string]failures{}
	}
	n := a.failed[id].n + 1
	after := backoff.Steps{First: k.bounds.Retry, Longest: k.bounds.Pause}.After(n)
	a.failed[id] = failures{n, now.Add(after)}
	if backoff.Tells(n) {
		k.log.Warn("telling an endpoint of an alarm failed; retrying", "rule", a.Rule, "endpoint", id, "failures", n, "after", after.String(),
			"err", r.Error)
	}
}
