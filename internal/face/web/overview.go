package web

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// overviewModel answers: is anything wrong, and will it get worse?
type overviewModel struct {
	Empty   bool // no endpoint yet
	Add     []act
	Create  string
	Publish string
	Verdict verdict
	Trouble []linked // the alerts that fire and the issues that are open
	Backlog string   // how many deliveries are pending, and since when
	Dead    string   // how many deliveries failed for good
	Letters string   // where they are
	Figures []figure
	Chart   chart
	Ahead   chart
	Eyes    []endpointRow
	Others  string // the endpoints that are not shown
	All     string // where they are
}

// drawn is a finished picture: its package escapes all text from outside.
func drawn(s picture.SVG) template.HTML { return template.HTML(s) }

// mostEyes is how many endpoints that need attention the overview shows.
const mostEyes = 8

// hour is one hour of totals, also if nothing happened in it.
type hour client.Bucket

// hourly fills in the hours that the API leaves out because nothing happened in them.
func hourly(buckets []client.Bucket, from, now time.Time) []hour {
	return spread(buckets, from, now, time.Hour)
}

// spread fills in the parts of time that the API leaves out.
func spread(buckets []client.Bucket, from, to time.Time, width time.Duration) []hour {
	by := map[int64]client.Totals{}
	for _, b := range buckets {
		by[b.At.Unix()] = b.Totals
	}
	var all []hour
	for at := from; at.Before(to) && len(all) < 24*31; at = at.Add(width) {
		all = append(all, hour{at, by[at.Unix()]})
	}
	return all
}

// figures are the four numbers of the overview, with their hours.
func figures(hours []hour, day *client.Totals, waiting string) (all []figure) {
	// An hour without deliveries has a count, zero, and no share or percentile.
	lines := []struct {
		of   func(*hour) (float64, bool)
		says string
	}{
		{func(h *hour) (float64, bool) { return float64(h.Delivered), true }, "Delivered per hour."},
		{func(h *hour) (float64, bool) {
			rate := h.FirstAttemptRate()
			if rate == nil {
				return 0, false
			}
			return *rate * 100, true
		}, "Share of the first attempts that succeeded, per hour."},
		{func(h *hour) (float64, bool) {
			if h.Latency.P95 == nil {
				return 0, false
			}
			return time.Duration(*h.Latency.P95).Seconds(), true
		}, "95th percentile of the time to an answer, per hour."},
	}
	for i, f := range words.Figures(day, waiting) {
		one := figure{Name: f.Name, Value: f.Value, Unit: f.Unit, Tone: f.Tone, Note: f.Note}
		if i < len(lines) {
			var values []float64
			for h := range hours {
				if value, ok := lines[i].of(&hours[h]); ok {
					values = append(values, value)
				}
			}
			one.Spark = drawn(picture.Spark(values, toneOK, lines[i].says))
		}
		all = append(all, one)
	}
	return all
}

// outcomes is the chart of what deliveries ended in, and of the attempts after which they did not
// end, by hour. Each column leads to its deliveries; where is a condition that these have besides.
func (v *visit) outcomes(hours []hour, where string) chart {
	c := chart{Title: "Deliveries", Hint: "last 24 h, by hour"}
	var bars []picture.Bar
	var all client.Totals
	worst := -1
	for i := range hours {
		h := &hours[i]
		add(&all, &h.Totals)
		if h.Failed > 0 && (worst < 0 || h.Failed > hours[worst].Failed) {
			worst = i
		}
		q := strings.TrimSpace(where + " from:" + h.At.UTC().Format(time.RFC3339) + " to:" + h.At.Add(time.Hour).UTC().Format(time.RFC3339))
		bars = append(bars, column(h.At.UTC().Format("Mon 15:04 UTC"), v.link("/deliveries"+withQuery("q", q)), &h.Totals))
	}
	if all.Finished()+all.TriedAgain == 0 {
		c.Empty = "No delivery ended in the last 24 h."
		return c
	}
	c.Says = fmt.Sprintf("%s in the last 24 h.", outcome(&all))
	if worst >= 0 {
		c.Says += fmt.Sprintf(" %s failures were in the hour from %s.", words.Most(hours[worst].Failed, all.Failed, "Most", "The most"),
			hours[worst].At.UTC().Format("15:04 UTC"))
	}
	c.Hint = outcome(&all) + " in 24 h"
	c.Picture = drawn(picture.Bars(bars, c.Says))
	c.Axis = []string{hours[0].At.UTC().Format("15:04"), hours[len(hours)/3].At.UTC().Format("15:04"), hours[2*len(hours)/3].At.UTC().Format("15:04"), "now (UTC)"}
	return c
}

// column is what deliveries ended in within a part of time, and the attempts that were tried again.
func column(name, href string, t *client.Totals) picture.Bar {
	return picture.Bar{Href: href, Says: name + ": " + outcome(t),
		Parts: []picture.Part{
			{Tone: toneOK, Value: float64(t.Delivered)}, {Tone: toneNone, Value: float64(t.Dropped + t.Discarded + t.Skipped)},
			{Tone: toneWait, Value: float64(t.TriedAgain)}, {Tone: toneBad, Value: float64(t.Failed)},
		}}
}

// outcome says what column draws.
func outcome(t *client.Totals) string {
	text := say.Count(t.Delivered) + " delivered, "
	if t.TriedAgain > 0 {
		text += say.Count(t.TriedAgain) + " tried again, "
	}
	return text + say.Count(t.Failed) + " failed"
}

// add adds the counts of other totals; their percentiles cannot be added.
func add(t, more *client.Totals) {
	for _, n := range [...]struct{ to, more *int64 }{
		{&t.Delivered, &more.Delivered}, {&t.Failed, &more.Failed}, {&t.Dropped, &more.Dropped}, {&t.Discarded, &more.Discarded},
		{&t.Skipped, &more.Skipped}, {&t.Attempts, &more.Attempts}, {&t.FailedAttempts, &more.FailedAttempts},
		{&t.TriedAgain, &more.TriedAgain}, {&t.FirstAttempts, &more.FirstAttempts}, {&t.FirstAttemptSuccess, &more.FirstAttemptSuccess},
	} {
		*n.to += *n.more
	}
}

// ahead is the forecast: the attempts that are scheduled, by the hour in which they are due.
func (v *visit) ahead(o *client.Overview) chart {
	c := chart{Title: "Attempts ahead", Hint: "next 24 h, by hour"}
	w := words.Ahead(v.now, o)
	if w.Empty != "" {
		c.Empty = w.Empty
		return c
	}
	at := func(h int) string { return v.now.Add(time.Duration(h) * time.Hour).UTC().Format("15:04") }
	var bars []picture.Bar
	for i, n := range w.Hours {
		bars = append(bars, picture.Bar{Parts: []picture.Part{{Tone: toneHold, Value: float64(n)}},
			Says: fmt.Sprintf("%s UTC: %s", at(i), say.Many(n, "attempt", "attempts"))})
	}
	c.Says = w.Says
	c.Hint = fmt.Sprintf("%s within the hour, %s in 24 h", say.Capped(w.Hours[0], o.Pending.More), say.Capped(w.Total, o.Pending.More))
	c.Picture = drawn(picture.Bars(bars, c.Says))
	c.Axis = []string{"now", at(8), at(16), at(24)}
	return c
}

// Commands that pages without data teach.
const (
	createCommand        = "grapnel endpoints create https://example.com/hooks"
	publishCommand       = "grapnel send invoice.paid -d '{\"amount\":100}' --key inv_1"
	createSourceCommand  = "grapnel sources create stripe --scheme stripe --secret @stripe.secret"
	createChannelCommand = "grapnel channels create https://hooks.slack.com/services/T…/B…/X…"
	createContactCommand = "grapnel contacts create --tenant acme --mail ops@acme.example"
	createQueueCommand   = "grapnel queues create orders"
	createTypeCommand    = "grapnel types create invoice.paid --schema @invoice.json --check refuse"
	lanesCommand         = "grapnel endpoints lanes"
	createKeyCommand     = "grapnel keys create --name ci --scope publish"
)
