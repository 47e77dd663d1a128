package web

import (
	"fmt"
	"html/template"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
)

// pulse is a heartbeat of an endpoint: how it was, hour by hour or minute by minute.
type pulse struct {
	Name, Hint string
	Picture    template.HTML
	Axis       []string
	Says       string // the picture as a sentence
}

// unit is the time of one beat.
type unit struct{ one, many, form string }

var (
	ofHours   = unit{"hour", "hours", "Mon 15:04 UTC"}
	ofMinutes = unit{"minute", "minutes", "15:04 UTC"}
)

// hourPulse has the hours, the present one at the end.
func hourPulse(hours []hour) pulse {
	return pulse{Name: "Heartbeat", Hint: "48 h, by hour", Picture: heart(ofHours, hours, true), Axis: []string{"48 h ago", "24 h ago", "now"},
		Says: heartSays(ofHours, hours)}
}

// minutePulse has the last full minutes. Those before the server counted are left blank, as nothing
// is known of them.
func (v *visit) minutePulse(counted *client.Stats) pulse {
	known := spread(counted.Data, counted.From, counted.To, time.Minute)
	known = known[max(0, len(known)-mostBeats):]
	unknown := mostBeats - len(known)
	p := pulse{Name: "Last hour", Hint: "by minute", Picture: heart(ofMinutes, append(make([]hour, unknown), known...), true),
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

// heart is how the endpoint was; in full, each beat says what happened in it. An hour without a
// time is not known and stays blank.
func heart(u unit, hours []hour, full bool) template.HTML {
	var beats []picture.Beat
	good, bad, known := 0, 0, 0
	for i := range hours {
		h := &hours[i]
		if h.At.IsZero() {
			beats = append(beats, picture.Beat{})
			continue
		}
		known++
		tone := toneNone
		switch {
		case h.Failed > 0:
			tone = toneBad
			bad++
		case h.troubled():
			tone = toneWait
			bad++
		case h.Attempts > 0:
			tone = toneOK
			good++
		}
		if !full {
			beats = append(beats, picture.Beat{Tone: tone})
			continue
		}
		beats = append(beats, picture.Beat{Tone: tone, Says: fmt.Sprintf("%s: %s, %s", h.At.UTC().Format(u.form),
			say.Many(h.Attempts, "attempt", "attempts"), outcome(&h.Totals))})
	}
	return drawn(picture.Heart(beats, fmt.Sprintf("The last %s: %d without trouble, %d with trouble, the others without attempts.",
		say.Many(known, u.one, u.many), good, bad)))
}

// heartSays is the heartbeat as a sentence.
func heartSays(u unit, hours []hour) string {
	var good, bad, quiet int
	for i := range hours {
		switch h := &hours[i]; {
		case h.troubled():
			bad++
		case h.Attempts > 0:
			good++
		default:
			quiet++
		}
	}
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
