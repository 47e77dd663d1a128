package words

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/wire"
)

// Piece is a part of a sentence; its tone says whether it is about trouble.
type Piece struct{ Text, Tone string }

// Verdict is the answer that a page opens with: one sentence, and what follows from it.
type Verdict struct {
	Pieces []Piece
	Next   string
}

// Say is the sentence without tones.
func (v *Verdict) Say() string {
	var b strings.Builder
	for _, p := range v.Pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Name is what people call an endpoint: its description, else where it is.
func Name(e *wire.OverviewEndpoint) string {
	if e.Description != "" {
		return e.Description
	}
	return Where(e.URL)
}

// Where is an address without its scheme.
func Where(address string) string {
	_, rest, found := strings.Cut(address, "://")
	if !found {
		return address
	}
	return strings.TrimSuffix(rest, "/")
}

// Overall is the verdict on all endpoints, after that on the server itself if it refuses events.
func Overall(now time.Time, o *wire.Overview) Verdict {
	v := ofEndpoints(now, o)
	if o.Refuses != "" {
		v.Pieces = append([]Piece{{"Grapnel refuses new events right now", Bad}, {". ", ""}}, v.Pieces...)
		v.Next = strings.TrimSpace(o.Refuses + " " + v.Next)
	}
	return v
}

// Tone is the tone of that verdict as a whole.
func Tone(o *wire.Overview) string {
	switch {
	case o.Refuses != "":
		return Bad
	case len(o.Attention) > 0:
		return Health(o.Attention[0].Health.State).Tone
	}
	return OK
}

// ofEndpoints is the verdict on all endpoints.
func ofEndpoints(now time.Time, o *wire.Overview) Verdict {
	bad := o.Attention
	if len(bad) == 0 {
		return well(o)
	}
	held, elsewhere := 0, 0 // of the endpoints that the sentence names, and of the others
	var v Verdict
	worst := &bad[0]
	var same []string
	var alikes []wire.OverviewEndpoint
	for i := range bad {
		if bad[i].Health.State == worst.Health.State {
			same, alikes = append(same, Name(&bad[i])), append(alikes, bad[i])
			held += bad[i].Health.Held
		} else {
			elsewhere += bad[i].Health.Held
		}
	}
	alike := max(*o.Endpoints.State(worst.Health.State), len(same))
	several, all := alike > 1, max(o.Endpoints.All-o.Endpoints.Healthy, len(bad))
	if alike > 3 {
		same = append(same[:2:2], say.Many(alike-2, "other", "others"))
	}
	v.Pieces = append(v.Pieces, Piece{say.List(same) + " " + happened(now, alikes, several), Health(worst.Health.State).Tone}, Piece{".", ""})
	if held > 0 {
		v.Pieces = append(v.Pieces, Piece{" " + Held(held, alike > len(alikes)), Hold}, Piece{" in order; nothing is lost.", ""})
	}
	v.Next = Consequence(now, worst)
	if several {
		v.Next = Name(worst) + ": " + v.Next
	}
	if others := all - alike; others > 0 {
		v.Next += " " + say.Many(others, "other endpoint needs", "other endpoints need") + " attention too"
		if elsewhere > 0 {
			v.Next += "; " + strings.ToLower(say.AtLeast(elsewhere, all > len(bad), "more delivery waits", "more deliveries wait")) + " there"
		}
		v.Next += "."
	}
	return v
}

// well is the verdict when no endpoint needs attention.
func well(o *wire.Overview) Verdict {
	number := say.Many(o.Endpoints.All, "endpoint takes its", "endpoints take their")
	if o.Endpoints.All > 1 {
		number = "All " + number
	} else {
		number = "The " + strings.TrimPrefix(number, "1 ")
	}
	if o.Endpoints.All == 0 {
		return Verdict{Pieces: []Piece{{"There is no endpoint yet. Events that are published go nowhere.", ""}}}
	}
	v := Verdict{Pieces: []Piece{{number + " deliveries.", ""}}}
	day := &o.Totals
	switch {
	case day.Failed > 0:
		v.Next = fmt.Sprintf("Of the deliveries that ended in the last 24 h, %s delivered and %s failed. A failed delivery is stored as a dead letter "+
			"until retention deletes it.", say.Count(day.Delivered), say.Count(day.Failed))
	case day.Delivered > 0:
		v.Next = fmt.Sprintf("%s delivered in the last 24 h, and none failed.", say.Many(day.Delivered, "delivery was", "deliveries were"))
	default:
		v.Next = "No delivery ended in the last 24 h."
		if others := day.Dropped + day.Discarded + day.Skipped; others > 0 {
			v.Next = fmt.Sprintf("No delivery was delivered or failed in the last 24 h; %s dropped, discarded or skipped.", say.Many(others, "was", "were"))
		}
	}
	v.Next = strings.TrimSpace(v.Next + " " + Attempts(day))
	return v
}

// Held is the number of held deliveries. more says that it is a lower bound.
func Held(held int, more bool) string {
	if more && held >= 1000 {
		return "More than " + say.Many(held/1000*1000, "delivery waits", "deliveries wait")
	}
	return say.AtLeast(held, more, "delivery waits", "deliveries wait")
}

// Happened is the trouble of an endpoint, and for how long: "has failed for 8 min".
func Happened(now time.Time, e *wire.OverviewEndpoint) string {
	return happened(now, []wire.OverviewEndpoint{*e}, false)
}

// happened says it of endpoints in one state, and for how long at most. There may be several of
// which only some are given.
func happened(now time.Time, alike []wire.OverviewEndpoint, several bool) string {
	is, has := "is", "has"
	if several {
		is, has = "are", "have"
	}
	state, long, longest, differ := alike[0].Health.State, "", time.Duration(0), false
	for i := range alike {
		h, took := &alike[i].Health, time.Duration(0)
		if began := h.Since; h.FailingSince != nil && (state == grapnel.HealthOpen || state == grapnel.HealthFailing) {
			took = now.Sub(*h.FailingSince)
		} else if began != nil {
			took = now.Sub(*began)
		}
		differ = differ || i > 0 && say.Roughly(took) != say.Roughly(longest)
		longest = max(longest, took)
	}
	switch {
	case longest < time.Second:
	case differ:
		long = " for up to " + say.Roughly(longest)
	default:
		long = " for " + say.Roughly(longest)
	}
	switch state {
	case grapnel.HealthOpen:
		return has + " failed" + long
	case grapnel.HealthFailing:
		return has + " not succeeded" + long
	case grapnel.HealthDegraded:
		return has + " been degraded" + long
	case grapnel.HealthThrottled:
		return has + " asked for a pause"
	case grapnel.HealthRecovering:
		return is + " recovering"
	case grapnel.HealthDisabled:
		return is + " disabled"
	case grapnel.HealthPaused:
		return has + " been paused" + long
	}
	return is + " in a state that this server does not know yet"
}

// Consequence says what follows for an endpoint's deliveries. Portals say it too, so it does not
// name Grapnel.
func Consequence(now time.Time, e *wire.OverviewEndpoint) string {
	h := &e.Health
	var s []string
	switch h.State {
	case grapnel.HealthOpen:
		if h.NextProbeAt != nil && h.NextProbeAt.After(now) {
			s = append(s, fmt.Sprintf("It gets one delivery as a probe in %s; the others are held.", say.Spoken(h.NextProbeAt.Sub(now))))
		} else {
			s = append(s, "It gets one delivery as a probe; the others are held.")
		}
	case grapnel.HealthDisabled:
		s = append(s, "Nothing is sent to it until an operator enables it.")
		if e.DisabledReason != "" {
			s = append(s, "Reason: "+Sentence(e.DisabledReason))
		}
	case grapnel.HealthFailing:
		s = append(s, "Attempts go on as each delivery's schedule says.")
	case grapnel.HealthDegraded:
		s = append(s, Sentence(h.Reason), "Failed deliveries are tried again as their schedule says.")
	case grapnel.HealthThrottled:
		if h.NextAttemptAt != nil && h.NextAttemptAt.After(now) {
			s = append(s, fmt.Sprintf("The next attempt is in %s.", say.Spoken(h.NextAttemptAt.Sub(now))))
		}
	case grapnel.HealthRecovering:
		s = append(s, "It answers again; held deliveries are released gradually.")
	case grapnel.HealthPaused:
		if e.DisabledReason != "" {
			s = append(s, Sentence(e.DisabledReason))
		} else {
			s = append(s, "An operator paused it.")
		}
		if strings.HasPrefix(e.DisabledReason, grapnel.ConsentReason) {
			s = append(s, "Its deliveries are held until it answers the challenge.")
		} else {
			s = append(s, "Its deliveries are held until an operator resumes it.")
		}
	}
	if h.DrainEstimate != nil && h.Held > 0 {
		s = append(s, fmt.Sprintf("Once it works, the held deliveries take about %s.", say.Spoken(max(time.Duration(*h.DrainEstimate), time.Second))))
	}
	return strings.Join(s, " ")
}

// Rank is the place of a state among those that need attention, the worst first.
func Rank(state grapnel.HealthState) int { return slices.Index(wire.Troubles(), state) }
