package web

import (
	"fmt"
	"html/template"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
)

// histogram is what deliveries ended in, and which attempts are retried, by time, above a list: it
// selects the list's time. The totals are the API's, of all deliveries or of one endpoint, and stay
// when retention deletes deliveries; so the work for it does not grow with the number of deliveries.
type histogram struct {
	Hint    string
	Picture template.HTML
	Axis    []string
	Search  string // without its time
	From    moment // start of the first column
	Step    int64  // seconds of a column
	Rows    []histogramRow
	Spans   []savedView
	Always  string // the list without the selected time; empty: none is selected
	ended   int64  // deliveries in the selected time
	slow    string // the 95th percentile of the time to an answer, as took: takes it; empty: no attempt got one
}

// histogramRow is a column in words.
type histogramRow struct {
	At                              moment
	Delivered, Other, Again, Failed string
}

// spans are the parts of time that a histogram shows, each in columns of equal width.
var spans = []struct {
	name, since string
	width       time.Duration
	columns     int
	bucket      string
}{
	{"24 h", "24h", time.Hour, 24, "hour"}, {"7 days", "7d", 6 * time.Hour, 28, "hour"},
	{"30 days", "30d", 24 * time.Hour, 30, "day"}, {"A year", "364d", 14 * 24 * time.Hour, 26, "day"},
}

// histogram asks the API for totals. It is nil if no delivery ended or was tried again in
// its time.
func (v *visit) histogram(path string, s *search) (*histogram, error) {
	f := &s.Filter
	span := spans[0]
	for _, wider := range spans[1:] {
		if !f.From.IsZero() && v.now.Sub(f.From) > time.Duration(span.columns)*span.width+time.Minute {
			span = wider
		}
	}
	end := v.now.UTC().Truncate(min(span.width, 24*time.Hour)).Add(min(span.width, 24*time.Hour))
	n := span.columns
	if span.width <= 24*time.Hour {
		n++ // the present one has only begun
	}
	from := end.Add(-time.Duration(n) * span.width)
	stats, err := v.client.Stats(v.Context(),
		client.StatsFilter{Endpoint: f.Endpoint, Tenant: f.Tenant, From: from, To: end, Bucket: span.bucket})
	if stats, err = optional(stats, err); err != nil || stats == nil {
		return nil, err
	}
	h := &histogram{Hint: "ended or tried again in the last " + span.name, Search: s.always(), From: v.at(from),
		Step: int64(span.width.Seconds())}
	if span.name == "A year" {
		h.Hint = "ended or tried again in the last year"
	}
	if !s.timeOnly() {
		h.Hint += ", whatever else the search says"
	}
	if p := stats.Totals.Latency.P95; p != nil {
		h.slow = fmt.Sprintf("%dms", max(time.Duration(*p).Milliseconds(), 1))
	}
	columns := make([]client.Totals, n)
	var all client.Totals
	for i := range stats.Data {
		at := int(stats.Data[i].At.Sub(from) / span.width)
		if at < 0 || at >= len(columns) || stats.Data[i].At.Before(from) {
			continue
		}
		add(&columns[at], &stats.Data[i].Totals)
	}
	var bins []picture.Bin
	for i := range columns {
		c, at := &columns[i], from.Add(time.Duration(i)*span.width)
		next := at.Add(span.width)
		add(&all, c)
		limited := !f.From.IsZero() || !f.To.IsZero()
		chosen := limited && next.After(f.From) && (f.To.IsZero() || at.Before(f.To))
		if chosen {
			h.ended += c.Finished()
		}
		href := v.link(path + withQuery("q", s.within(at, next)))
		bar := column(at.Format("Mon 2 Jan 15:04 UTC"), href, c)
		bins = append(bins, picture.Bin{Chosen: chosen, Bar: bar})
		if c.Finished()+c.TriedAgain > 0 {
			h.Rows = append(h.Rows, histogramRow{v.at(at), say.Count(c.Delivered), say.Count(c.Finished() - c.Delivered - c.Failed),
				say.Count(c.TriedAgain), say.Count(c.Failed)})
		}
	}
	if len(h.Rows) == 0 && f.From.IsZero() {
		return nil, nil
	}
	h.Picture = drawn(picture.Histogram(bins, outcome(&all)+"."))
	form := "Mon 15:04"
	if span.bucket == "day" {
		form = "2 Jan"
	}
	for i := range 3 {
		h.Axis = append(h.Axis, from.Add(time.Duration(i*n/3)*span.width).Format(form))
	}
	h.Axis = append(h.Axis, "now (UTC)")
	for _, one := range spans {
		q := search{Text: s.always()}.with("since", one.since)
		h.Spans = append(h.Spans, savedView{one.name, v.link(path + withQuery("q", q)), one.name == span.name && s.has("since")})
	}
	if !f.From.IsZero() || !f.To.IsZero() {
		h.Always = v.link(path + withQuery("q", h.Search))
	}
	return h, nil
}

// optional is a thing that may have been deleted or damaged: nil instead of the error that says so.
func optional[T any](thing *T, err error) (*T, error) {
	told, ok := err.(*client.Error) //nolint:errorlint // the client returns it as it is
	if ok && (told.Status == 404 || told.Code == string(grapnel.CodeDamaged)) {
		return nil, nil
	}
	return thing, err
}
