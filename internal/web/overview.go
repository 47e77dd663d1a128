package web

import (
	"fmt"
	"html/template"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/web/picture"
)

// overviewModel answers: is anything wrong, and will it get worse?
type overviewModel struct {
	Empty   bool // no endpoint yet
	Create  string
	Publish string
	Verdict verdict
	Figures []figure
	Chart   chart
	Ahead   chart
	Eyes    []endpointRow
	Well    string // how many endpoints are not shown
}

// figure is one of the large numbers.
type figure struct {
	Name, Value, Unit string
	Spark             template.HTML
	Tone              string
}

// chart is a picture with its axis as text, which does not shrink with the picture.
type chart struct {
	Title, Hint string
	Picture     template.HTML
	Axis        []string
	Says        string // the picture as a sentence
	Empty       string // instead of a picture
}

// drawn is a finished picture: its package escapes all text from outside.
func drawn(s picture.SVG) template.HTML { return template.HTML(s) } //nolint:gosec // see the comment

// mostEyes is how many endpoints that need attention the overview shows.
const mostEyes = 8

func overview(v *visit) (overviewModel, error) {
	var m overviewModel
	eps, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Limit: v.web.Bounds.Endpoints})
	if err != nil {
		return m, err
	}
	if len(eps.Data) == 0 {
		m.Empty, m.Create, m.Publish = true, createCommand, publishCommand
		return m, nil
	}
	stats, err := v.client.Stats(v.Context(), client.StatsFilter{})
	if err != nil {
		return m, err
	}
	waiting, err := v.client.Deliveries(v.Context(),
		client.DeliveryFilter{Status: []grapnel.Status{grapnel.Pending}, Limit: v.web.Bounds.Ahead})
	if err != nil {
		return m, err
	}
	m.Verdict = overall(v.now, eps.Data, eps.Next != "", stats.Totals)
	bad := troubled(eps.Data)
	if len(bad) > 0 {
		worst := &bad[0]
		m.Verdict.Acts = append([]act{{Label: "Look at " + endpointName(worst), Href: v.link("/endpoints/" + worst.ID), Main: true}},
			v.remedies(worst)...)
	}
	hours := hourly(stats, v.now)
	m.Figures = figures(hours, stats.Totals, eps.Data)
	m.Chart = v.outcomes(hours, "")
	m.Ahead = v.ahead(waiting)
	if m.Eyes, err = v.troubledRows(bad, mostEyes); err != nil {
		return m, err
	}
	healthy := len(eps.Data) - len(m.Eyes)
	switch {
	case eps.Next != "":
		m.Well = "of the first " + count(len(eps.Data))
	case healthy == 1:
		m.Well = "1 other is not shown"
	case healthy > 1:
		m.Well = count(healthy) + " others are not shown"
	}
	return m, nil
}

func overviewTwin(*visit) (string, url.Values) { return "/v1/stats", nil }

// hour is one hour of totals, also if nothing happened in it.
type hour struct {
	At time.Time
	client.Totals
}

// hourly fills in the hours that the API leaves out because nothing happened in them.
func hourly(s *client.Stats, now time.Time) []hour {
	by := map[int64]client.Totals{}
	for _, b := range s.Data {
		by[b.At.Unix()] = b.Totals
	}
	var all []hour
	for at := s.From; at.Before(s.To) && at.Before(now) && len(all) < 24*31; at = at.Add(time.Hour) {
		all = append(all, hour{at, by[at.Unix()]})
	}
	return all
}

// figures are the four numbers of the overview.
func figures(hours []hour, day client.Totals, eps []client.Endpoint) []figure {
	// An hour without deliveries has a count, zero, and no share or percentile.
	line := func(of func(*hour) (float64, bool)) (values []float64) {
		for i := range hours {
			if value, ok := of(&hours[i]); ok {
				values = append(values, value)
			}
		}
		return values
	}
	held, more := 0, ""
	for i := range eps {
		held += max(eps[i].Health.Held, eps[i].Health.Waiting)
		if eps[i].Health.HeldMore {
			more = "+"
		}
	}
	first := figure{Name: "At the first attempt", Value: percent(day.FirstAttemptSuccess, day.Delivered+day.Failed), Unit: "%", Tone: toneOK}
	if day.Delivered+day.Failed == 0 {
		first.Unit = ""
	}
	first.Spark = drawn(picture.Spark(line(func(h *hour) (float64, bool) {
		return float64(h.FirstAttemptSuccess) / float64(max(h.Delivered+h.Failed, 1)) * 100, h.Delivered+h.Failed > 0
	}), toneOK, "Share delivered at the first attempt, per hour."))
	answer := figure{Name: "Time to an answer, p95", Value: "–", Tone: toneOK}
	if day.Latency.P95 != nil {
		answer.Value = took(time.Duration(*day.Latency.P95))
	}
	answer.Spark = drawn(picture.Spark(line(func(h *hour) (float64, bool) {
		if h.Latency.P95 == nil {
			return 0, false
		}
		return time.Duration(*h.Latency.P95).Seconds(), true
	}), toneOK, "95th percentile of the time to an answer, per hour."))
	waiting := figure{Name: "Waiting now", Value: count(held) + more, Unit: "held or due", Tone: toneHold}
	return []figure{
		{Name: "Delivered", Value: count(day.Delivered), Unit: "in 24 h", Tone: toneOK,
			Spark: drawn(picture.Spark(line(func(h *hour) (float64, bool) { return float64(h.Delivered), true }), toneOK, "Delivered per hour."))},
		first, answer, waiting,
	}
}

// outcomes is the chart of what deliveries ended in, by hour. Each column leads to its deliveries.
func (v *visit) outcomes(hours []hour, endpoint string) chart {
	c := chart{Title: "Deliveries", Hint: "last 24 h, by hour"}
	var bars []picture.Bar
	var good, bad int64
	worst := -1
	for i := range hours {
		h := &hours[i]
		other := h.Dropped + h.Discarded + h.Skipped
		good, bad = good+h.Delivered, bad+h.Failed
		if h.Failed > 0 && (worst < 0 || h.Failed > hours[worst].Failed) {
			worst = i
		}
		q := "from:" + h.At.UTC().Format(time.RFC3339) + " to:" + h.At.Add(time.Hour).UTC().Format(time.RFC3339)
		if endpoint != "" {
			q = "endpoint:" + endpoint + " " + q
		}
		bars = append(bars, picture.Bar{
			Parts: []picture.Part{
				{Tone: toneOK, Value: float64(h.Delivered)}, {Tone: toneNone, Value: float64(other)}, {Tone: toneBad, Value: float64(h.Failed)},
			},
			Says: fmt.Sprintf("%s: %s delivered, %s failed", h.At.UTC().Format("Mon 15:04 UTC"), count(h.Delivered), count(h.Failed)),
			Href: v.link("/deliveries?" + url.Values{"q": {q}}.Encode()),
		})
	}
	if good+bad == 0 {
		c.Empty = "No delivery ended in the last 24 h."
		return c
	}
	c.Says = fmt.Sprintf("%s delivered and %s failed in the last 24 h.", count(good), count(bad))
	if worst >= 0 {
		c.Says += fmt.Sprintf(" Most failures were in the hour from %s.", hours[worst].At.UTC().Format("15:04 UTC"))
	}
	c.Picture = drawn(picture.Bars(bars, c.Says))
	c.Axis = []string{hours[0].At.UTC().Format("15:04"), hours[len(hours)/3].At.UTC().Format("15:04"), hours[2*len(hours)/3].At.UTC().Format("15:04"), "now (UTC)"}
	return c
}

// ahead is the forecast: the attempts that are scheduled, by the hour in which they are due.
func (v *visit) ahead(waiting *client.Page[client.Delivery]) chart {
	c := chart{Title: "Attempts ahead", Hint: "next 24 h, by hour"}
	if len(waiting.Data) == 0 {
		c.Empty = "No attempt is scheduled."
		return c
	}
	const hours = 24
	var due [hours]int
	later, total := 0, 0
	for i := range waiting.Data {
		at := waiting.Data[i].NextAttemptAt
		if at == nil {
			continue
		}
		total++
		if n := int(max(at.Sub(v.now), 0) / time.Hour); n < hours {
			due[n]++
		} else {
			later++
		}
	}
	if waiting.Next != "" {
		c.Hint = fmt.Sprintf("of the %s newest that wait", count(len(waiting.Data)))
	}
	if total == 0 {
		c.Empty = "Pending deliveries wait for their endpoint, not for a time."
		return c
	}
	var bars []picture.Bar
	most := 0
	for i, n := range due {
		if n > due[most] {
			most = i
		}
		bars = append(bars, picture.Bar{Parts: []picture.Part{{Tone: toneHold, Value: float64(n)}},
			Says: fmt.Sprintf("%s: %s", v.now.Add(time.Duration(i)*time.Hour).UTC().Format("15:04 UTC"), many(n, "attempt", "attempts"))})
	}
	c.Says = fmt.Sprintf("%s in the next 24 h, most of them (%s) in the hour from %s.", many(total-later, "attempt is scheduled", "attempts are scheduled"),
		count(due[most]), v.now.Add(time.Duration(most)*time.Hour).UTC().Format("15:04 UTC"))
	if later > 0 {
		c.Says += fmt.Sprintf(" %s later.", many(later, "is", "are"))
	}
	c.Picture = drawn(picture.Bars(bars, c.Says))
	at := func(h int) string { return v.now.Add(time.Duration(h) * time.Hour).UTC().Format("15:04") }
	c.Axis = []string{"now", at(8), at(16), at(24)}
	return c
}
