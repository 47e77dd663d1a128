package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// listing is what all lists under a search have.
type listing struct {
	pager
	filters
	Search  search
	Verdict verdict
	Views   []savedView
	Hint    string // why there are no rows, or what to do about that
	Clear   string // where the list is without the search; empty: there is none
	Publish string // a command to copy, when nothing was ever published
}

// deliveriesModel is a list of deliveries under a search.
type deliveriesModel struct {
	listing
	Chart  *histogram // what deliveries ended in, by time; nil: none did
	Rows   []deliveryRow
	Empty  string // why there are no rows
	Replay string // the preview of a replay of all that match; empty: none of them is finished
	Bulk   bulk
}

// savedViews are the searches that people need at night.
var savedViews = []namedSearch{
	{"All", ""}, {"Failing now", "status:retrying"}, {"Held", "status:held"}, {"Dead", "status:dead"}, {"Slow", "took:2s"},
	{"Timed out", "error:timeout"}, {"Server errors", "code:5xx"}, {"Replayed by hand", "replayed:yes"}, {"Delivered", "status:delivered"},
}

func deliveries(v *visit) (deliveriesModel, error) {
	s, err := v.listSearch()
	if err != nil {
		return deliveriesModel{}, err
	}
	m := deliveriesModel{listing: listing{Search: s, Views: v.searches("/deliveries", savedViews, s.Text)}}
	if len(s.Faults) > 0 {
		m.filters = v.filters("/deliveries", &s, seenIn(nil))
		m.unread(v)
		return m, nil
	}
	f := m.Search.Filter
	f.Limit, f.Cursor = v.web.Bounds.Page, v.URL.Query().Get("cursor")
	var found *client.Page[client.Delivery]
	var ask errgroup.Group // the list and the chart at once: each may look for ten milliseconds
	ask.Go(func() (err error) {
		found, err = v.client.Deliveries(v.Context(), f)
		return err
	})
	ask.Go(func() (err error) {
		m.Chart, err = v.histogram("/deliveries", &s)
		return err
	})
	if err := ask.Wait(); err != nil {
		return m, err
	}
	for i := range found.Data {
		row := v.deliveryRow(&found.Data[i])
		row.Why, _, _ = strings.Cut(row.Why, ";") // only a pointer shows it; the delivery's page says the rest
		m.Rows = append(m.Rows, row)
	}
	m.filters = v.filters("/deliveries", &s, seenIn(found.Data))
	m.pager = v.pager("/deliveries", f.Cursor, found.Next, "q", m.Search.Text)
	finished := slices.ContainsFunc(m.Search.Filter.Status, grapnel.Status.Final)
	if finished && v.mayDo("/replays/start") {
		m.Replay = v.link("/replays/new" + withQuery("q", m.Search.Text))
	}
	m.Bulk = v.bulk("/deliveries", &s, len(m.Rows), found.Next != "" || f.Cursor != "")
	m.slow(v)
	m.answer(v, found.Next != "")
	return m, nil
}

// slow has the view of slow deliveries begin at the 95th percentile of the shown time.
func (m *deliveriesModel) slow(v *visit) {
	if m.Chart == nil || m.Chart.slow == "" {
		return
	}
	for i := range m.Views {
		if view := &m.Views[i]; view.Name == "Slow" {
			view.Href = v.link("/deliveries" + withQuery("q", "took:"+m.Chart.slow))
			view.Here = strings.HasPrefix(m.Search.Text, "took:") && m.Search.with("took", "") == ""
		}
	}
}

// unread is the list of a search that cannot be read: nothing.
func (m *deliveriesModel) unread(v *visit) {
	m.Verdict.say("The search cannot be read.", "", "")
	m.Empty = "Nothing is selected while a word of the search cannot be read."
	m.Hint, m.Clear = "Correct it in the box above; the rest of it is as you typed it.", v.link("/deliveries")
}

// answer is the sentence above the list.
func (m *deliveriesModel) answer(v *visit, more bool) {
	if len(m.Rows) == 0 {
		m.Verdict.say(m.Search.about("No deliveries."), "", "")
		m.Empty = "No delivery matches the search."
		m.Hint, m.Clear = "Retention may have deleted older ones; their totals remain on the overview.", v.link("/deliveries")
		switch {
		case m.Newest != "":
			m.Empty, m.Hint, m.Clear = "There are no older deliveries.", "", m.Newest
		case more:
			m.Empty, m.Hint = "Nothing on this page matches.", "A search looks at one part of the deliveries at a time; older ones may match."
		case m.Chart != nil && m.Chart.ended > 0 && m.Search.timeOnly():
			m.Empty = "Retention has deleted the deliveries of this time."
			m.Hint = say.Many(m.Chart.ended, "delivery", "deliveries") + " ended then; the totals above remain."
		case m.Search.Text == "" && m.Chart != nil:
			m.Empty, m.Hint, m.Clear = "Retention has deleted all deliveries.", "The totals above remain.", ""
		case m.Search.Text == "":
			m.Empty, m.Clear = "No event was published yet.", ""
			m.Hint, m.Publish = v.teach("Publish one with this command:", publishCommand)
		}
		return
	}
	var by tally[pill]
	for _, r := range m.Rows {
		by.add(r.Pill)
	}
	var parts []string
	order := by.often()
	for _, p := range order {
		parts = append(parts, fmt.Sprintf("%d %s", by.n[p], p.Word))
	}
	number := say.Many(len(m.Rows), "delivery", "deliveries")
	if more || m.Newest != "" {
		number = "The newest " + number
		if m.Newest != "" {
			number = say.Many(len(m.Rows), "older delivery", "older deliveries")
		}
	}
	number = m.Search.about(number)
	switch {
	case len(order) > 1:
		m.Verdict.say(number+": "+say.List(parts)+".", "", "")
	case len(m.Rows) > 1:
		m.Verdict.say(number+", all "+order[0].Word+".", "", "")
	default:
		m.Verdict.say(number+", "+order[0].Word+".", "", "")
	}
}

// pager leads to the other pages of a list.
type pager struct {
	Older  string // the next page; empty: this is the last
	Newest string // the first page; empty: this is it
}

// pager makes one for a list that is at a cursor, with the query that its pages have in common.
func (v *visit) pager(path, cursor, next string, query ...string) (p pager) {
	if next != "" {
		p.Older = v.link(path + withQuery(append(query, "cursor", next)...))
	}
	if cursor != "" {
		p.Newest = v.link(path + withQuery(query...))
	}
	return p
}

// here is what a number needs that is counted on a page and not in the whole list.
func (p pager) here() string {
	if p == (pager{}) {
		return ""
	}
	return " on this page"
}

// pillOf is the state of a delivery, and that it is a test.
func pillOf(d *client.Delivery) pill {
	p := deliveryPill(d.Status, d.AttemptsMade)
	if d.ReasonCode == grapnel.ReasonTest {
		p.Word = "test " + p.Word
	}
	return p
}

func (v *visit) deliveryRow(d *client.Delivery) deliveryRow {
	r := deliveryRow{
		ID: d.ID, Href: v.link("/deliveries/" + d.ID), Pill: pillOf(d), Type: d.Type,
		Endpoint: cmp.Or(d.EndpointName, d.EndpointID), At: v.ownerLink(d.EndpointID), Whose: v.whose(d.Tenant), Key: d.Key, Attempts: d.AttemptsMade,
		Next: v.atOr(d.NextAttemptAt), Age: v.at(d.CreatedAt), Why: words.Instants(d.Reason),
	}
	r.Due = r.Next.Set() && !r.Next.At.After(v.now)
	if d.Last != nil {
		r.Result, r.Took = words.Result(d.Last.StatusCode, d.Last.ErrorClass), say.Took(time.Duration(d.Last.Duration))
	}
	if d.ReplayResult != "" {
		r.Why = "replayed; " + string(d.ReplayResult)
	}
	return r
}

// finding is a command with the page's search.
func finding(command string) func(*visit) string {
	return func(v *visit) string {
		if text := strings.TrimSpace(v.URL.Query().Get("q")); text != "" {
			return command + " --filter " + shellQuote(text)
		}
		return command
	}
}

// retryDeliveries retries the deliveries that were selected in a list.
func retryDeliveries(v *visit) (string, error) {
	if v.PostForm.Get("all") != "" {
		s, err := v.parsed(v.PostForm.Get("q"))
		if err != nil {
			return "", err
		}
		if len(s.Faults) == 0 && len(s.Filter.Status) > 0 && !slices.ContainsFunc(s.Filter.Status, grapnel.Status.Final) {
			return v.retryFound(s.Filter)
		}
	}
	return v.eachPicked("delivery is", "deliveries are", "being retried", func(id string) error {
		_, err := v.orderOnce("/v1/deliveries/", id, "/retry", map[string]string{"reason": byDashboard})
		return err
	})
}

// waitingStatuses are of deliveries that are not finished.
var waitingStatuses = []grapnel.Status{grapnel.Pending, grapnel.Held}

// deadLetters is where an endpoint's dead letters are.
func (v *visit) deadLetters(endpoint string) string {
	return "/dead-letters" + withQuery("q", "endpoint:"+endpoint)
}

// keyHref leads to the page of a key at an endpoint.
func (v *visit) keyHref(endpoint, key string) string {
	return v.link("/ordering-keys/" + url.PathEscape(endpoint) + withQuery("key", key))
}
