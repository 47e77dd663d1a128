package web

import (
	"fmt"
	"html/template"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
)

// A heartbeat is a chart of an endpoint: how it was, hour by hour or minute by minute.

// unit is the time of one beat.
type unit struct{ one, many, form string }

var (
	ofHours   = unit{"hour", "hours", "Mon 15:04 UTC"}
	ofMinutes = unit{"minute", "minutes", "15:04 UTC"}
)

// hourPulse has the hours, the present one at the end.
func hourPulse(hours []hour) chart {
	return chart{Title: "Heartbeat", Hint: "48 h, by hour", Picture: heart(ofHours, hours, true), Axis: []string{"48 h ago", "24 h ago", "now"},
		Says: heartSays(ofHours, hours)}
}

// minutePulse has the last full minutes. Those before the server counted are left blank, as nothing
// is known of them.
func (v *visit) minutePulse(counted *client.Stats) chart {
	known := spread(counted.Data, counted.From, counted.To, time.Minute)
	known = known[max(0, len(known)-mostBeats):]
	unknown := mostBeats - len(known)
	p := chart{Title: "Last hour", Hint: "by minute", Picture: heart(ofMinutes, append(make([]hour, unknown), known...), true),
		Axis: []string{"60 min ago", "30 min ago", "the last full minute"}, Says: heartSays(ofMinutes, known)}
	switch {
	case len(known) == 0:
		p.Picture, p.Axis = "", nil
		p.Says = "Minutes are counted from the next full minute on, since the server has just started."
	case unknown > 0:
		p.Says += " Before that no minute was counted: the server has counted them since " + known[0].At.Format(ofMinutes.form) + "."
	}
	return p
}

// troubled says whether deliveries failed in the hour, or more than a tenth of the attempts: the
// hours that heart draws in red and amber.
func (h *hour) troubled() bool {
	return h.Failed > 0 || 10*h.FailedAttempts > h.Attempts
}

// tone is that of the hour's beat; empty: an hour without a time is not known.
func (h *hour) tone() string {
	switch {
	case h.At.IsZero():
		return ""
	case h.Failed > 0:
		return toneBad
	case h.troubled():
		return toneWait
	case h.Attempts > 0:
		return toneOK
	}
	return toneNone
}

// pulsesOf counts the hours by what happened in them.
func pulsesOf(hours []hour) (good, bad, quiet int) {
	var by tally[string]
	for i := range hours {
		by.add(hours[i].tone())
	}
	return by.n[toneOK], by.n[toneBad] + by.n[toneWait], by.n[toneNone]
}

// heart is how the endpoint was; in full, each beat says what happened in it.
func heart(u unit, hours []hour, full bool) template.HTML {
	var beats []picture.Beat
	for i := range hours {
		h := &hours[i]
		beat := picture.Beat{Tone: h.tone()}
		if full && beat.Tone != "" {
			beat.Says = fmt.Sprintf("%s: %s, %s", h.At.UTC().Format(u.form), say.Many(h.Attempts, "attempt", "attempts"), outcome(&h.Totals))
		}
		beats = append(beats, beat)
	}
	good, bad, quiet := pulsesOf(hours)
	return drawn(picture.Heart(beats, fmt.Sprintf("The last %s: %d without trouble, %d with trouble, the others without attempts.",
		say.Many(good+bad+quiet, u.one, u.many), good, bad)))
}

// heartSays is the heartbeat as a sentence.
func heartSays(u unit, hours []hour) string {
	good, bad, quiet := pulsesOf(hours)
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{good, "without trouble"}, {bad, "with trouble"}, {quiet, "without attempts"}} {
		if part.n > 0 {
			parts = append(parts, say.Many(part.n, u.one, u.many)+" "+part.what)
		}
	}
	return say.List(parts) + "."
}

const (
	beats      = 47 // hours of a heartbeat before the present one
	mostBeats  = 60 // minutes of a heartbeat
	mostLanes  = 5
	mostRecent = 8
	mostAudit  = 5
)
