package web

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// deliveriesModel is a list of deliveries under a search.
type deliveriesModel struct {
	Search  search
	Answer  string
	Next    string // what follows from the answer
	Views   []savedView
	Chart   *chart // what deliveries ended in; nil: the search is narrower than the totals that are kept
	Rows    []deliveryRow
	Empty   string // why there are no rows
	Hint    string // what to do about that
	Clear   string // where the list is without the search; empty: there is none
	Publish string // a command to copy, when nothing was ever published
	Older   string // where the next page is; empty: this is the last
	Newest  string // where the first page is; empty: this is it
	Replay  string // the preview of a replay of all that match; empty: none of them is finished
	Bulk    string // where selected deliveries are retried; empty: the session may not
}

// savedView is a search with a name.
type savedView struct {
	Name, Href string
	Here       bool
}

// deliveryRow is one delivery in a list.
type deliveryRow struct {
	ID, Href string
	Pill     pill
	Type     string
	Endpoint string
	At       string // where the endpoint's page is
	Key      string
	Attempts int
	Result   string // of the last attempt
	Took     string
	Next     moment
	Due      bool // the time of the next attempt has come
	Age      moment
	Why      string
}

// savedViews are the searches that people need at night.
var savedViews = []struct{ name, q string }{
	{"All", ""}, {"Waiting", "status:waiting"}, {"Held", "status:held"}, {"Failed", "status:failed"},
	{"Timed out", "error:timeout"}, {"Server errors", "code:5xx"}, {"Delivered", "status:delivered"},
}

func deliveries(v *visit) (deliveriesModel, error) {
	query := v.URL.Query()
	text := query.Get("q")
	if len(text) > v.web.Bounds.Search {
		return deliveriesModel{}, refused(http.StatusRequestURITooLong, "The search is too long.", "Use at most "+count(v.web.Bounds.Search)+" characters.")
	}
	m := deliveriesModel{Search: parseSearch(text, v.now)}
	for _, s := range savedViews {
		m.Views = append(m.Views, savedView{s.name, v.link("/deliveries" + withQuery("q", s.q)), s.q == m.Search.Text})
	}
	if m.Search.Jump != "" {
		return m, jumped(m.Search.Jump)
	}
	f := m.Search.Filter
	f.Limit, f.Cursor = v.web.Bounds.Page, query.Get("cursor")
	found, err := v.client.Deliveries(v.Context(), f)
	if err != nil {
		return m, err
	}
	names, err := v.endpointNames(found.Data)
	if err != nil {
		return m, err
	}
	for i := range found.Data {
		m.Rows = append(m.Rows, v.deliveryRow(&found.Data[i], names))
	}
	if found.Next != "" {
		m.Older = v.link("/deliveries?" + url.Values{"q": {m.Search.Text}, "cursor": {found.Next}}.Encode())
	}
	if f.Cursor != "" {
		m.Newest = v.link("/deliveries" + withQuery("q", m.Search.Text))
	}
	finished := slices.ContainsFunc(m.Search.Filter.Status, grapnel.Status.Final)
	if finished && v.session.mayDo("/replays/start") {
		m.Replay = v.link("/replays/new" + withQuery("q", m.Search.Text))
	}
	if v.session.mayDo("/deliveries/retry") {
		m.Bulk = v.link("/deliveries/retry")
	}
	m.answer(v, found.Next != "")
	return m, m.chart(v, f)
}

// chart is the time selector above the list. The totals are of all deliveries or of one endpoint.
func (m *deliveriesModel) chart(v *visit, f client.DeliveryFilter) error {
	endpoint := f.Endpoint
	f.Endpoint, f.Limit = "", 0
	if !reflect.ValueOf(f).IsZero() || len(m.Rows) == 0 {
		return nil
	}
	stats, err := v.client.Stats(v.Context(), client.StatsFilter{Endpoint: endpoint})
	if err != nil {
		return err
	}
	if c := v.outcomes(hourly(stats, v.now), endpoint); c.Empty == "" {
		m.Chart = &c
	}
	return nil
}

// answer is the sentence above the list.
func (m *deliveriesModel) answer(v *visit, more bool) {
	if len(m.Rows) == 0 {
		m.Answer, m.Empty = "No deliveries.", "No delivery matches the search."
		m.Hint, m.Clear = "Retention may have deleted older ones; their totals remain on the overview.", v.link("/deliveries")
		switch {
		case m.Newest != "":
			m.Empty, m.Hint, m.Clear = "There are no older deliveries.", "", m.Newest
		case more:
			m.Empty, m.Hint = "Nothing on this page matches.", "A search for text looks at one part of the deliveries at a time; older ones may match."
		case m.Search.Text == "":
			m.Empty, m.Hint, m.Clear = "No event was published yet.", "Publish one with this command:", ""
			m.Publish = publishCommand
		}
		return
	}
	by := map[pill]int{}
	var order []pill
	for _, r := range m.Rows {
		if by[r.Pill]++; by[r.Pill] == 1 {
			order = append(order, r.Pill)
		}
	}
	slices.SortStableFunc(order, func(a, b pill) int { return by[b] - by[a] })
	var parts []string
	for _, p := range order {
		parts = append(parts, fmt.Sprintf("%d %s", by[p], p.Word))
	}
	number := many(len(m.Rows), "delivery", "deliveries")
	if more || m.Newest != "" {
		number = "The newest " + number
		if m.Newest != "" {
			number = many(len(m.Rows), "older delivery", "older deliveries")
		}
	}
	m.Answer = number + ": " + list(parts) + "."
	if len(order) == 1 {
		m.Answer = number + ", " + order[0].Word + "."
		if len(m.Rows) > 1 {
			m.Answer = number + ", all " + order[0].Word + "."
		}
	}
}

// jumped leads to the page of the thing whose id was searched for.
func jumped(path string) error { return &failure{Status: http.StatusSeeOther, Title: path} }

func withQuery(name, value string) string {
	if value == "" {
		return ""
	}
	return "?" + url.Values{name: {value}}.Encode()
}

func (v *visit) deliveryRow(d *client.Delivery, names map[string]string) deliveryRow {
	r := deliveryRow{
		ID: d.ID, Href: v.link("/deliveries/" + d.ID), Pill: deliveryPill(d.Status, d.AttemptsMade), Type: d.Type,
		Endpoint: names[d.EndpointID], At: v.link("/endpoints/" + d.EndpointID), Key: d.Key, Attempts: d.AttemptsMade,
		Next: v.atOr(d.NextAttemptAt), Age: v.at(d.CreatedAt), Why: d.Reason,
	}
	r.Due = r.Next.Set() && !r.Next.At.After(v.now)
	if r.Endpoint == "" {
		r.Endpoint = d.EndpointID
	}
	if d.Last != nil {
		r.Result, r.Took = result(d.Last.StatusCode, string(d.Last.ErrorClass)), took(time.Duration(d.Last.Duration))
	}
	if d.ReplayResult != "" {
		r.Why = "replayed; " + string(d.ReplayResult)
	}
	return r
}

// endpointNames are the names of the endpoints of a list; one that is deleted has none.
func (v *visit) endpointNames(of []client.Delivery) (map[string]string, error) {
	names := map[string]string{}
	if len(of) == 0 {
		return names, nil
	}
	all, err := v.client.Endpoints(v.Context(), client.EndpointFilter{Limit: v.web.Bounds.Endpoints})
	if err != nil {
		return nil, err
	}
	for i := range all.Data {
		names[all.Data[i].ID] = endpointName(&all.Data[i])
	}
	return names, nil
}

func deliveriesTwin(v *visit) (string, url.Values) {
	f := parseSearch(v.URL.Query().Get("q"), v.now).Filter
	f.Limit, f.Cursor = v.web.Bounds.Page, v.URL.Query().Get("cursor")
	q := url.Values{"limit": {fmt.Sprint(f.Limit)}}
	for name, value := range map[string]string{"endpoint": f.Endpoint, "type": f.Type, "key": f.Key, "tenant": f.Tenant, "text": f.Text,
		"error_class": string(f.ErrorClass), "reason_code": string(f.ReasonCode), "cursor": f.Cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, s := range f.Status {
		q.Add("status", string(s))
	}
	if f.StatusCode != 0 {
		q.Set("status_code", fmt.Sprint(f.StatusCode))
	}
	for name, at := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	path := "/v1/deliveries"
	if f.Endpoint != "" {
		path = "/v1/endpoints/" + url.PathEscape(f.Endpoint) + "/deliveries"
		q.Del("endpoint")
	}
	return path, q
}

func deliveriesCommand(v *visit) string {
	f := parseSearch(v.URL.Query().Get("q"), v.now).Filter
	words := []string{"grapnel deliveries list"}
	flag := func(name, value string) {
		if value != "" {
			words = append(words, "--"+name+" "+shellQuote(value))
		}
	}
	var statuses []string
	for _, s := range f.Status {
		statuses = append(statuses, string(s))
	}
	flag("endpoint", f.Endpoint)
	flag("status", strings.Join(statuses, ","))
	flag("type", f.Type)
	flag("event-key", f.Key)
	flag("tenant", f.Tenant)
	flag("error-class", string(f.ErrorClass))
	flag("reason-code", string(f.ReasonCode))
	if f.StatusCode != 0 {
		flag("status-code", fmt.Sprint(f.StatusCode))
	}
	flag("text", f.Text)
	if !f.From.IsZero() {
		flag("from", f.From.UTC().Format(time.RFC3339))
	}
	if !f.To.IsZero() {
		flag("to", f.To.UTC().Format(time.RFC3339))
	}
	return strings.Join(words, " ")
}

// retryDeliveries retries the deliveries that were ticked in a list. It goes on after one that
// cannot be retried, and says how many those were.
func retryDeliveries(v *visit) (string, error) {
	ids := v.PostForm["id"]
	if len(ids) == 0 {
		return "Nothing was selected.", nil
	}
	if len(ids) > v.web.Bounds.Page {
		return "", refused(http.StatusRequestEntityTooLarge, "Too many deliveries are selected.", "Select at most one page of them.")
	}
	done := 0
	var first error
	for _, id := range ids {
		if _, err := v.client.Retry(v.Context(), id, "from the dashboard"); err == nil {
			done++
		} else if first == nil {
			first = err
		}
	}
	if done == 0 {
		return "", first
	}
	said := many(done, "delivery is", "deliveries are") + " being retried."
	if left := len(ids) - done; left > 0 {
		said += " " + many(left, "other was", "others were") + " refused: " + first.Error()
	}
	return said, nil
}

// waitingStatuses are of deliveries that are not finished.
var waitingStatuses = []grapnel.Status{grapnel.Pending, grapnel.Held}
