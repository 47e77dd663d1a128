package contacts

import (
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// byHand says whether a person has disabled the endpoint.
func (l *Look) byHand() bool { return strings.HasPrefix(l.DisabledReason, grapnel.OperatorReason) }

// Step is the trouble of an endpoint after a look at it. Stages only rise within one episode. An
// episode ends with Recovered, or, if ended is true, without a message: a person disabled the
// endpoint, or no message was sent in it. A look that says nothing, such as one at a paused
// endpoint, changes nothing.
func (t Trouble) Step(l *Look, b *Bounds) (next Trouble, ended bool) {
	since := l.Health.FailingSince
	switch {
	case l.Status == grapnel.EndpointPaused:
		return t, false
	case l.Status == grapnel.EndpointDisabled:
		return t.disabled(l)
	case l.Health.State == "": // it is unknown how the endpoint is doing
		return t, false
	case since.IsZero():
		return t.works(l, b)
	case t.Stage == Disabled: // a person has enabled it since, and it fails: soon that is another episode
		if l.tried().Sub(since) < b.First && l.Health.Disabling < b.Percent {
			t.Over = time.Time{}
			return t, false
		}
		t = Trouble{}
	case t.Stage == Recovered: // it fails again before the message was sent: the same episode
		t.Stage = t.Told
	}
	t.Over = time.Time{}
	failing := l.tried().Sub(since)
	for _, s := range []struct {
		Stage
		is bool
	}{{Failing, failing >= b.First}, {Day, failing >= b.Day}, {Soon, l.Health.Disabling >= b.Percent}} {
		if s.is && rank[s.Stage] > rank[t.Stage] {
			t.Stage = s.Stage
		}
	}
	if t.Stage != "" && t.Began.IsZero() {
		t.Began = since
	}
	return t, t.Stage == ""
}

// tried is the end of the time over which a failing endpoint is judged: now while an attempt is in
// flight or planned, else its last failure. An endpoint that nothing is sent to fails no longer by
// being idle. Zero: the last failure was before this process began.
func (l *Look) tried() time.Time {
	if l.Health.InFlight > 0 || !l.Health.NextAttemptAt.IsZero() {
		return l.Now
	}
	return l.Health.FailedAt
}

// disabled is Step of a disabled endpoint.
func (t Trouble) disabled(l *Look) (Trouble, bool) {
	if l.byHand() {
		return t, true
	}
	if t.Began.IsZero() {
		t.Began = l.Now
		if !l.DisabledAt.IsZero() {
			t.Began = l.DisabledAt
		}
	}
	if t.Stage != Disabled {
		t.Stage, t.Good = Disabled, l.Good
	}
	t.Over = time.Time{}
	return t, false
}

// works is Step of an endpoint whose last attempt succeeded, or that had none since it was enabled:
// after Disabled, only a success counts.
func (t Trouble) works(l *Look, b *Bounds) (Trouble, bool) {
	switch {
	case t.Told == "":
		return t, true
	case t.Stage == Disabled && t.Over.IsZero() && l.Good <= t.Good:
	case t.Over.IsZero() || t.Over.After(l.Now):
		t.Over = l.Now
	case l.Now.Sub(t.Over) >= b.Calm:
		t.Stage = Recovered
	}
	return t, false
}

// owes says whether a message about the stage is to be sent.
func (t *Trouble) owes() bool { return rank[t.Stage] > rank[t.Told] }

// take uses one message of the day; false: there is none left.
func (b *Budget) take(now time.Time, most int) bool {
	if day := now.UTC().Format(time.DateOnly); b.Day != day {
		b.Day, b.Sent = day, 0
	}
	if b.Sent >= most {
		return false
	}
	b.Sent++
	return true
}
