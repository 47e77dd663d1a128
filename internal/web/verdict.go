package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// piece is a part of a sentence; its tone says whether it is about trouble.
type piece struct{ Text, Tone string }

// verdict is the answer that a page opens with: one sentence, what follows from it, and at most
// three things to do about it.
type verdict struct {
	Pieces []piece
	Next   string
	Acts   []act
}

// act is a button: a link, or a form that posts to an action.
type act struct {
	Label string
	Href  string // of a link
	Post  string // of a form
	Main  bool   // the one to press
	Key   string // on the keyboard
	Sure  string // a question before it is done; empty: none
	Field string // the name of a field that is sent along
	Value string
}

// troubles are the states of endpoints that need eyes, the worst first.
var troubles = []grapnel.HealthState{grapnel.HealthOpen, grapnel.HealthDisabled, grapnel.HealthFailing, grapnel.HealthThrottled,
	grapnel.HealthRecovering, grapnel.HealthPaused, client.HealthUnknown}

// troubled are the endpoints that need eyes: the worst state first, then those that hold most.
func troubled(all []client.Endpoint) []client.Endpoint {
	found := slices.DeleteFunc(slices.Clone(all), func(e client.Endpoint) bool { return e.Health.State == grapnel.HealthHealthy })
	slices.SortStableFunc(found, func(a, b client.Endpoint) int {
		if d := slices.Index(troubles, a.Health.State) - slices.Index(troubles, b.Health.State); d != 0 {
			return d
		}
		return b.Health.Held - a.Health.Held
	})
	return found
}

// endpointName is what people call an endpoint: its description, else where it is.
func endpointName(e *client.Endpoint) string {
	if e.Description != "" {
		return e.Description
	}
	return where(e.URL)
}

// where is an address without its scheme.
func where(address string) string {
	_, rest, found := strings.Cut(address, "://")
	if !found {
		return address
	}
	return strings.TrimSuffix(rest, "/")
}

// overall is the verdict on all endpoints.
func overall(now time.Time, all []client.Endpoint, more bool, day client.Totals) verdict {
	bad := troubled(all)
	held, heldMore := 0, false
	for i := range bad {
		held += bad[i].Health.Held
		heldMore = heldMore || bad[i].Health.HeldMore
	}
	if len(bad) == 0 {
		return well(all, more, day)
	}
	var v verdict
	worst := &bad[0]
	var same []string
	for i := range bad {
		if bad[i].Health.State == worst.Health.State {
			same = append(same, endpointName(&bad[i]))
		}
	}
	alike, several := len(same), len(same) > 1
	if len(same) > 3 {
		same = append(same[:2:2], many(len(same)-2, "other", "others"))
	}
	v.Pieces = append(v.Pieces, piece{list(same) + " " + happened(now, worst, several), toneOf(worst.Health.State)}, piece{".", ""})
	if held > 0 {
		v.Pieces = append(v.Pieces, piece{" " + heldWords(held, heldMore), toneHold}, piece{" in order; nothing is lost.", ""})
	}
	v.Next = consequence(now, worst)
	if several {
		v.Next = endpointName(worst) + ": " + v.Next
	}
	if others := len(bad) - alike; others > 0 {
		v.Next += " " + many(others, "other endpoint needs", "other endpoints need") + " attention too."
	}
	return v
}

// well is the verdict when no endpoint needs eyes.
func well(all []client.Endpoint, more bool, day client.Totals) verdict {
	number := many(len(all), "endpoint takes its", "endpoints take their")
	if more {
		number = "The first " + number
	} else if len(all) > 1 {
		number = "All " + number
	} else {
		number = "The " + strings.TrimPrefix(number, "1 ")
	}
	v := verdict{Pieces: []piece{{number + " deliveries.", ""}}}
	switch {
	case day.Failed > 0:
		v.Next = fmt.Sprintf("Of the deliveries that ended in the last 24 h, %s delivered and %s failed. A failed delivery is stored as a dead letter "+
			"until retention deletes it.", count(day.Delivered), count(day.Failed))
	case day.Delivered > 0:
		v.Next = fmt.Sprintf("%s delivered in the last 24 h, %s %% of them at the first attempt. None failed.",
			many(day.Delivered, "delivery was", "deliveries were"), percent(day.FirstAttemptSuccess, day.Delivered))
	default:
		v.Next = "No delivery ended in the last 24 h."
	}
	return v
}

// heldWords is the number of held deliveries in words. A count that stopped early is rounded down.
func heldWords(held int, more bool) string {
	if more {
		return "More than " + many(held/1000*1000, "delivery waits", "deliveries wait")
	}
	return many(held, "delivery waits", "deliveries wait")
}

// happened is the trouble of an endpoint in words, and for how long: "has failed for 8 min".
func happened(now time.Time, e *client.Endpoint, several bool) string {
	is, has := "is", "has"
	if several {
		is, has = "are", "have"
	}
	began := e.Health.Since
	if state := e.Health.State; e.Health.FailingSince != nil && (state == grapnel.HealthOpen || state == grapnel.HealthFailing) {
		began = e.Health.FailingSince
	}
	long := ""
	if began != nil && now.Sub(*began) >= time.Second {
		long = " for " + roughly(now.Sub(*began))
	}
	switch e.Health.State {
	case grapnel.HealthOpen:
		return has + " failed" + long
	case grapnel.HealthFailing:
		return has + " not succeeded" + long
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

func toneOf(state grapnel.HealthState) string { return healthPill(state).Tone }

// consequence says what follows for an endpoint's deliveries, and what Grapnel does about it.
func consequence(now time.Time, e *client.Endpoint) string {
	h := &e.Health
	var s []string
	switch h.State {
	case grapnel.HealthOpen:
		if h.NextProbeAt != nil && h.NextProbeAt.After(now) {
			s = append(s, fmt.Sprintf("Grapnel sends it one delivery as a probe in %s and holds the others.", spoken(h.NextProbeAt.Sub(now))))
		} else {
			s = append(s, "Grapnel sends it one delivery as a probe and holds the others.")
		}
	case grapnel.HealthDisabled:
		s = append(s, "Nothing is sent to it until an operator enables it.")
		if e.DisabledReason != "" {
			s = append(s, "Reason: "+sentence(e.DisabledReason))
		}
	case grapnel.HealthFailing:
		s = append(s, "Attempts go on as each delivery's schedule says.")
	case grapnel.HealthThrottled:
		if h.NextAttemptAt != nil && h.NextAttemptAt.After(now) {
			s = append(s, fmt.Sprintf("The next attempt is in %s.", spoken(h.NextAttemptAt.Sub(now))))
		}
	case grapnel.HealthRecovering:
		s = append(s, "It answers again; held deliveries are released gradually.")
	case grapnel.HealthPaused:
		s = append(s, "An operator paused it. Its deliveries are held until an operator resumes it.")
	}
	if h.DrainEstimate != nil && h.Held > 0 {
		s = append(s, fmt.Sprintf("Once it works, the held deliveries take about %s.", spoken(max(time.Duration(*h.DrainEstimate), time.Second))))
	}
	return strings.Join(s, " ")
}

// remedies are the buttons for an endpoint in its state, as far as the session may press them.
func (v *visit) remedies(e *client.Endpoint) (acts []act) {
	path := "/endpoints/" + e.ID
	offer := func(label, verb, key string) {
		if v.session.mayDo("/endpoints/{id}/" + verb) {
			acts = append(acts, act{Label: label, Post: v.link(path + "/" + verb), Key: key})
		}
	}
	switch e.Health.State {
	case grapnel.HealthOpen, grapnel.HealthThrottled:
		offer("Probe now", "probe", "")
		offer("Pause", "pause", "p")
	case grapnel.HealthPaused:
		offer("Resume", "resume", "p")
	case grapnel.HealthDisabled:
		offer("Enable", "enable", "")
	default:
		offer("Pause", "pause", "p")
	}
	return acts
}
