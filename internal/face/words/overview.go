package words

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/wire"
)

// Pill is a state: its colour, its sign and its word.
type Pill struct{ Tone, Word string }

// The tones of states.
const (
	OK   = "ok"   // it went
	Wait = "wait" // it will be tried again
	Hold = "hold" // it waits in order
	Bad  = "bad"  // an operator has to look
	None = "none" // it ended, and no operator has to look
)

// Health is the state of an endpoint.
func Health(state grapnel.HealthState) Pill { return cmp.Or(health[state], Pill{None, "unknown"}) }

var health = map[grapnel.HealthState]Pill{
	grapnel.HealthHealthy: {OK, "healthy"}, grapnel.HealthDegraded: {Wait, "degraded"}, grapnel.HealthFailing: {Wait, "failing"},
	grapnel.HealthOpen: {Bad, "circuit open"}, grapnel.HealthRecovering: {Wait, "recovering"}, grapnel.HealthThrottled: {Wait, "throttled"},
	grapnel.HealthPaused: {Hold, "paused"}, grapnel.HealthDisabled: {Bad, "disabled"},
}

// Figure is one of the large numbers of an overview. Its note says what it is a part of, or what it
// leaves out.
type Figure struct{ Name, Value, Unit, Tone, Note string }

// Figures are the four numbers of an overview. waiting is the number of deliveries that are
// pending, as text.
func Figures(day *wire.Totals, waiting string) [4]Figure {
	first := Figure{Name: "At the first attempt", Value: "–", Tone: OK}
	if day.FirstAttemptRate() != nil {
		first.Value, first.Unit = say.Percent(day.FirstAttemptSuccess, day.FirstAttempts), "%"
		first.Note = "of " + say.Many(day.FirstAttempts, "first attempt", "first attempts")
	}
	answer := Figure{Name: "Time to an answer, p95", Value: "–", Tone: OK}
	if day.Latency.P95 != nil {
		answer.Value = say.Took(time.Duration(*day.Latency.P95))
	}
	return [4]Figure{{"Delivered", say.Count(day.Delivered), "in 24 h", OK, FailedAttempts(day)}, first, answer,
		{Name: "Waiting now", Value: waiting, Unit: "held or due", Tone: Hold}}
}

// FailedAttempts says how many attempts failed, those of pending deliveries included; empty: no
// attempt was made.
func FailedAttempts(t *wire.Totals) string {
	switch {
	case t.Attempts == 0:
		return ""
	case t.FailedAttempts == 0:
		return "no attempt failed"
	}
	return say.Count(t.FailedAttempts) + " of " + say.Many(t.Attempts, "attempt", "attempts") + " failed"
}

// Attempts is how the attempts went, as sentences; empty: none was made.
func Attempts(t *wire.Totals) string {
	text := Sentence(FailedAttempts(t))
	if t.FirstAttemptRate() == nil {
		return text
	}
	return fmt.Sprintf("%s %% of %s succeeded; %s.", say.Percent(t.FirstAttemptSuccess, t.FirstAttempts),
		say.Many(t.FirstAttempts, "first attempt", "first attempts"), FailedAttempts(t))
}

// Backlog says what pending deliveries wait for, and how old the oldest is.
func Backlog(now time.Time, o *wire.Overview) string {
	if o.Pending.All == 0 {
		return "Nothing is pending."
	}
	text := say.Many(o.Pending.All, "delivery is pending", "deliveries are pending")
	if parts := Waits(&o.Pending); parts != "" {
		text += ": " + parts
	}
	if text += "."; o.OldestPending != nil {
		text += " The oldest is " + say.Roughly(max(now.Sub(*o.OldestPending), 0)) + " old."
	}
	return text
}

// Waits are the numbers of pending deliveries by what they wait for: "2 ready and 400 scheduled".
func Waits(p *wire.PendingStates) string {
	var parts []string
	for _, part := range []struct {
		n    int64
		word string
	}{{p.Ready, "ready"}, {p.Scheduled, "scheduled"}, {p.Leased, "leased"}, {p.Held, "held"}, {p.Waiting, "waiting in order"}} {
		if part.n > 0 {
			parts = append(parts, say.Capped(part.n, p.More)+" "+part.word)
		}
	}
	return say.List(parts)
}

// Pending says how many deliveries are pending, and since when the oldest is.
func Pending(now time.Time, o *wire.Overview) string {
	if o.Pending.All == 0 {
		return "Nothing is pending."
	}
	text := say.Many(o.Pending.All, "delivery is pending", "deliveries are pending")
	if o.OldestPending != nil {
		text += ", the oldest for " + say.Roughly(max(now.Sub(*o.OldestPending), 0))
	}
	return text + "."
}

// DeadLetters says how many deliveries failed for good.
func DeadLetters(o *wire.Overview) string {
	d := &o.DeadLetters
	if d.All == 0 && !d.More {
		return "There are no dead letters."
	}
	return say.AtLeast(d.All, d.More, "delivery has", "deliveries have") + " failed for good at " + say.Many(d.Endpoints, "endpoint", "endpoints") + "."
}

// States are the numbers of endpoints by health: "12 healthy, 1 circuit open".
func States(s *wire.EndpointStates) string {
	var parts []string
	for _, state := range append([]grapnel.HealthState{grapnel.HealthHealthy}, wire.Troubles()...) {
		if n := *s.State(state); n > 0 {
			parts = append(parts, say.Count(n)+" "+Health(state).Word)
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// Wave is the attempts that are scheduled, by the hour from now.
type Wave struct {
	Hours [24]int64
	Soon  []int64 // of the first hour, by five minutes
	Total int64
	Says  string
	Empty string // instead of a picture
}

// Ahead is the wave of retries and first attempts of an overview.
func Ahead(now time.Time, o *wire.Overview) (w Wave) {
	most := 0
	for _, part := range o.Ahead {
		hour := min(int(time.Duration(part.From)/time.Hour), len(w.Hours)-1)
		w.Hours[hour] += part.Attempts
		w.Total += part.Attempts
		if hour == 0 {
			w.Soon = append(w.Soon, part.Attempts)
		}
	}
	for hour, n := range w.Hours {
		if n > w.Hours[most] {
			most = hour
		}
	}
	if w.Total+o.AheadLater == 0 {
		w.Empty = "No attempt is scheduled."
		if o.Pending.All > 0 {
			w.Empty = "Pending deliveries wait for their endpoint, not for a time."
		}
		return w
	}
	from := now.Add(time.Duration(most) * time.Hour).UTC().Format("15:04 UTC")
	w.Says = say.AtLeast(w.Total, o.Pending.More, "attempt is scheduled", "attempts are scheduled") + " in the next 24 h"
	if w.Total > 0 {
		w.Says += fmt.Sprintf(", %s (%s) in the hour from %s", Most(w.Hours[most], w.Total, "most of them", "the most"), say.Count(w.Hours[most]), from)
	}
	if w.Says += "."; o.AheadLater > 0 {
		w.Says += " " + say.Many(o.AheadLater, "is", "are") + " later."
	}
	return w
}

// Most is half if a part is more than half of the whole, else largest: the part is only larger than
// each other one.
func Most(part, whole int64, half, largest string) string {
	if 2*part > whole {
		return half
	}
	return largest
}
