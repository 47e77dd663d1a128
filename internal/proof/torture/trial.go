package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

var (
	errRequests = errors.New("the limit of requests is reached; raise it with --bound requests=N")
	errProbe    = errors.New("the probe failed")
)

// revive starts a receiver again that an earlier case has crashed, if its command is known.
func (t *trial) revive(ctx context.Context) {
	switch conn, err := dial(ctx, t.URL); {
	case err == nil:
		_ = conn.Close()
	case t.receiver == nil:
		t.broken = "the receiver does not answer any more"
	default:
		t.receiver.kill() // also its children
		if err := t.receiver.start(ctx); err != nil {
			t.broken = err.Error()
		}
	}
}

// judge sets the verdict by the history.
func (t *trial) judge() {
	t.result.Findings = nil
	more := map[string]int{} // violations by their defect
	all := judge(&t.result.History, t.Bounds.AckBudget)
	for _, v := range all {
		more[t.defect(v).text]++
	}
	for _, v := range all {
		f := t.finding(v)
		if n := more[f.Defect]; n > 1 {
			f.Shown += fmt.Sprintf("; the same %d times more in this case", n-1)
		}
		if more[f.Defect] > 0 {
			t.result.Findings = append(t.result.Findings, f)
		}
		more[f.Defect] = 0
	}
	switch {
	case len(t.result.Findings) > 0:
		t.result.Verdict, t.result.Reason = Failing, ""
	case t.reason != "":
		t.result.Verdict, t.result.Reason = NotJudged, t.reason
	default:
		t.result.Verdict = Passed
	}
}

// unjudged says why the case cannot pass; the first reason stays.
func (t *trial) unjudged(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reason == "" {
		t.reason = fmt.Sprintf(format, args...)
	}
}

// now is the time on the receiver's clock.
func (t *trial) now() time.Time { return time.Now().Add(t.offset) }

// mark records an action on the receiver; event is the id of the only concerned event, or empty.
func (t *trial) mark(event, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.History.Marks = append(t.result.History.Marks, Mark{time.Since(t.began), event, fmt.Sprintf(format, args...)})
}

// event adds an event that has one effect once it is accepted.
func (t *trial) event(p plain) *Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events++
	name := fmt.Sprintf("%s_%s_%d", t.run, strings.ToLower(t.result.ID), t.events)
	if p.key == "" {
		p.key = "inv_" + name
	}
	e := &Event{ID: "msg_" + name, Key: p.key, Label: p.label, Least: 1, Most: 1}
	switch {
	case t.Body != "":
		e.body = p.written(t.Body, e.ID, t.now())
	case t.Scheme.New != nil:
		var err error
		if e.ID, e.header, e.body, err = t.Scheme.New(t.now()); err != nil {
			t.stop(err)
		}
		e.body = widened(e.body, p.more)
	default:
		e.body = p.body(t.now())
	}
	t.result.History.Events = append(t.result.History.Events, e)
	return e
}

// key is a fresh key for several events.
func (t *trial) key() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events++
	return fmt.Sprintf("inv_%s_%s_k%d", t.run, strings.ToLower(t.result.ID), t.events)
}

// forged is an event that must have no effect.
func (t *trial) forged(p plain) *Event {
	e := t.event(p)
	e.Least, e.Most = 0, 0
	return e
}

// optional is an event that a receiver may act on, at most once.
func (t *trial) optional(p plain) *Event {
	e := t.event(p)
	e.Least = 0
	return e
}

// settle reads effects until each accepted event has its own and each key its state, for at most
// the bound. Effects beyond it are found by the audit at the end of the run.
func (t *trial) settle(ctx context.Context, want ...*State) {
	t.settleWithin(ctx, t.Bounds.Settle, want...)
}

func (t *trial) settleWithin(ctx context.Context, within time.Duration, want ...*State) {
	h := &t.result.History
	if t.Probe == nil {
		return
	}
	want = slices.DeleteFunc(want, func(s *State) bool { // the payload may not have the field
		name := map[string]string{"state": "status"}[s.Field]
		return t.shows(cmp.Or(name, s.Field)) != "" || s.extra && !t.Probe.Keys()
	})
	h.States = append(h.States, want...)
	deadline := time.Now().Add(within)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		open := t.readEvents(ctx, func(e *Event) bool { n, read := e.effects(); return read && n >= e.Least && e.Least > 0 })
		open = t.readStates(ctx, want, func(s *State) bool { return s.Got == s.Want }) || open
		if !open || time.Now().After(deadline) || !rest(ctx, pause) {
			break
		}
	}
	for _, s := range want {
		if s.Got == "" && !s.extra {
			t.hidden[s.Field] = true
			t.unjudged("the probe shows no %s of a key", s.Field)
		}
	}
}

// readEvents reads the effects of events that are not done, and reports whether one that was
// accepted lacks its effect.
func (t *trial) readEvents(ctx context.Context, done func(*Event) bool) (open bool) {
	t.mu.Lock()
	accepted := map[int]bool{}
	for _, r := range t.result.History.Requests {
		accepted[r.Event] = accepted[r.Event] || !r.Forged && classOf(r.Status) == Accepted
	}
	events := t.result.History.Events
	t.mu.Unlock()
	var readers sync.WaitGroup
	slots := make(chan struct{}, 8)
	var lacking atomic.Bool
	for i, e := range events {
		if done(e) || e.ID == "" && !e.byKey {
			continue
		}
		slots <- struct{}{}
		readers.Go(func() {
			defer func() { <-slots }()
			id, key := e.ID, ""
			if e.byKey {
				id, key = "", e.Key
			}
			reading, ok := t.read(ctx, id, key)
			if !ok {
				return
			}
			t.mu.Lock()
			e.Readings = append(e.Readings, reading)
			t.mu.Unlock()
			if accepted[i] && reading.Effects < e.Least {
				lacking.Store(true)
			}
		})
	}
	readers.Wait()
	return lacking.Load()
}

// readStates reads the states that are not done, and reports whether one of them is not the right one.
func (t *trial) readStates(ctx context.Context, want []*State, done func(*State) bool) (open bool) {
	for _, s := range want {
		if done(s) {
			continue
		}
		reading, ok := t.read(ctx, "", s.Key)
		if !ok {
			return false
		}
		s.Got, s.At = reading.field(s.Field), reading.At
		open = open || s.Got != s.Want && !(s.Got == "" && (s.extra || t.hidden[s.Field]))
	}
	return open
}

// read asks the probe. A probe that fails leaves the case unjudged.
func (t *trial) read(ctx context.Context, event, key string) (Reading, bool) {
	if key != "" && !t.Probe.Keys() {
		t.unjudged("the probe cannot read by key; add {key} to its URL")
		return Reading{}, false
	}
	reading, err := t.Probe.Read(ctx, event, key)
	if err != nil {
		t.stop(fmt.Errorf("%w: %w", errProbe, err))
		return Reading{}, false
	}
	reading.At = time.Since(t.began)
	return reading, true
}

// audit reads all effects and the last state of each key once more, and judges again.
func (t *trial) audit(ctx context.Context) {
	if t.Probe == nil || t.result.Verdict == NotJudged {
		return
	}
	ctx, t.stop = context.WithCancelCause(ctx)
	defer t.stop(nil)
	t.readEvents(ctx, func(*Event) bool { return false })
	last := map[string]*State{}
	for _, s := range t.result.History.States {
		last[s.Field+" "+s.Key] = s
	}
	t.readStates(ctx, slices.Collect(maps.Values(last)), func(*State) bool { return false })
	t.judge()
}

// fail makes the next handlings of an event fail: transient, permanent, slow or hang.
func (t *trial) fail(ctx context.Context, e *Event, kind string, times int, wait time.Duration) {
	ms := fmt.Sprint(wait.Milliseconds())
	text := t.FaultURL
	if strings.Contains(text, "{") {
		text = fill(text, "event", e.ID, "id", e.ID, "kind", kind, "times", fmt.Sprint(times), "ms", ms)
	} else {
		text = added(text, "event", e.ID, "kind", kind, "times", fmt.Sprint(times), "ms", ms)
	}
	t.order(ctx, "the fault URL", text)
	t.mark(e.ID, "its handler is made %s, %s", kind, say.Many(times, "time", "times"))
}

// setClock moves the receiver's clock from the real time; 0 is the real one.
func (t *trial) setClock(ctx context.Context, offset time.Duration) {
	now := "0"
	if t.offset = offset; offset != 0 {
		now = fmt.Sprint(t.now().Unix())
		t.mark("", "its clock is moved by %v", offset)
	}
	if strings.Contains(t.ClockURL, "{") {
		t.order(ctx, "the clock URL", fill(t.ClockURL, "now", now))
	} else {
		t.order(ctx, "the clock URL", added(t.ClockURL, "now", now))
	}
}

// order posts to a page of the receiver's test mode.
func (t *trial) order(ctx context.Context, name, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		t.stop(fmt.Errorf("%s: %w", name, err))
		return
	}
	resp, err := t.client.Do(req)
	if err != nil {
		t.stop(fmt.Errorf("%s: %w", name, err))
		return
	}
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		t.stop(fmt.Errorf("%s answered %d", name, resp.StatusCode))
	}
}

// The verdicts.
const (
	Passed    Verdict = "passed"
	Failing   Verdict = "failed"
	NotJudged Verdict = "not_judged"
)

// shows reports whether the payload has the fields that a case changes.
func (o *Options) shows(fields string) string {
	if o.Body == "" && o.Scheme.New != nil && fields != "" {
		return "it changes the payload; give a template with --body"
	}
	for name := range strings.FieldsSeq(fields) {
		if o.Body != "" && !strings.Contains(o.Body, "{"+name+"}") {
			return "the template of the payload has no {" + name + "}"
		}
	}
	return ""
}
