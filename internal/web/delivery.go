package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/web/picture"
	"github.com/grapnelhq/grapnel/policy"
)

// deliveryModel is one delivery: the reason for its state, its attempts, and the plan.
type deliveryModel struct {
	ID, Type string
	Pill     pill
	Endpoint string
	At       string // where the endpoint's page is
	Address  string
	Verdict  verdict
	Timeline template.HTML
	Says     string // the timeline as a sentence
	Attempts []attemptRow
	Planned  []plannedRow
	Shown    *attemptRow // the attempt whose request and response are shown
	Request  message
	Response message
	Facts    []fact
	Behind   []deliveryRow // later deliveries of the key, which wait for this one
	More     bool          // there are more of them
	Key      string
	Others   []deliveryRow // of the same event, at other endpoints
}

// Title is of the browser's tab.
func (m deliveryModel) Title() string { return m.Type + " to " + m.Endpoint }

// fact is a name and what it is.
type fact struct {
	Name, Value string
	Href        string
	At          moment
}

// attemptRow is an attempt that was made.
type attemptRow struct {
	Number  int
	Tone    string
	Result  string
	Words   string // what happened, in words
	At      moment
	Took    string
	Phases  []phase
	Trigger string
	Href    string // where it is shown
	Here    bool
}

// phase is a part of an attempt's time, with its share of the whole in percent.
type phase struct {
	Name, Took string
}

// plannedRow is an attempt that is still to come.
type plannedRow struct {
	Number int
	At     moment
	Latest moment
}

// message is a request or a response as it went over the wire.
type message struct {
	First   string // the first line
	Headers []header
	Body    string
	Raw     string // the bytes that were signed, if Body is a readable form of them
	Note    string // why the body is missing or incomplete
	Curl    string
}

type header struct{ Name, Value string }

const mostBehind = 10

func delivery(v *visit) (deliveryModel, error) {
	d, err := v.client.Delivery(v.Context(), v.PathValue("id"))
	if err != nil {
		return deliveryModel{}, err
	}
	event, err := optional(v.client.EventOf(v.Context(), d.Tenant, d.EventID))
	if err != nil {
		return deliveryModel{}, err
	}
	ep, err := optional(v.client.Endpoint(v.Context(), d.EndpointID))
	if err != nil {
		return deliveryModel{}, err
	}
	m := deliveryModel{ID: d.ID, Type: d.Type, Pill: deliveryPill(d.Status, d.AttemptsMade), Endpoint: d.EndpointID,
		At: v.link("/endpoints/" + d.EndpointID), Key: d.Key}
	if ep != nil {
		m.Endpoint, m.Address = endpointName(ep), where(ep.URL)
	}
	if d.Key != "" && !d.Status.Final() {
		if err := m.behind(v, d); err != nil {
			return m, err
		}
	}
	m.attempts(v, d)
	m.Verdict = v.deliveryVerdict(d, ep, &m)
	m.timeline(v, d, ep)
	m.messages(v, d, event, ep)
	m.facts(v, d, event, ep)
	if event != nil {
		m.others(v, d, event)
	}
	return m, nil
}

// optional is a thing that may have been deleted: nil instead of the error that says so.
func optional[T any](thing *T, err error) (*T, error) {
	if told, ok := err.(*client.Error); ok && told.Status == 404 { //nolint:errorlint // the client returns it as it is
		return nil, nil
	}
	return thing, err
}

// behind finds the deliveries of the key that wait for this one. Deliveries of one key have
// ascending sequences.
func (m *deliveryModel) behind(v *visit, d *client.Delivery) error {
	found, err := v.client.Deliveries(v.Context(), client.DeliveryFilter{Endpoint: d.EndpointID, Key: d.Key, Tenant: d.Tenant,
		Status: waitingStatuses, Limit: 4 * mostBehind})
	if err != nil {
		return err
	}
	m.More = found.Next != ""
	for i := range slices.Backward(found.Data) {
		other := &found.Data[i]
		if other.Sequence > d.Sequence && d.Sequence > 0 && other.ID != d.ID {
			m.Behind = append(m.Behind, v.deliveryRow(other, nil))
		}
	}
	if len(m.Behind) > mostBehind {
		m.Behind, m.More = m.Behind[:mostBehind], true
	}
	return nil
}

func (m *deliveryModel) attempts(v *visit, d *client.Delivery) {
	chosen := v.URL.Query().Get("attempt")
	for i := range d.Attempts {
		a := &d.Attempts[i]
		tone := toneWait
		switch {
		case a.Decision == policy.Deliver:
			tone = toneOK
		case a.Decision == policy.Fail || a.Decision == policy.DisableEndpoint || a.NextAttemptAt == nil:
			tone = toneBad
		}
		row := attemptRow{Number: a.Number, Tone: tone, Result: result(a.StatusCode, string(a.ErrorClass)), Words: a.Error, At: v.at(a.StartedAt),
			Took: took(time.Duration(a.Duration)), Phases: phases(a), Trigger: triggers[a.Trigger],
			Href: v.link(fmt.Sprintf("/deliveries/%s?attempt=%d", d.ID, a.Number))}
		row.Here = chosen == fmt.Sprint(a.Number)
		m.Attempts = append(m.Attempts, row)
	}
	shown := slices.IndexFunc(m.Attempts, func(a attemptRow) bool { return a.Here })
	if shown < 0 {
		shown = len(m.Attempts) - 1
	}
	if shown >= 0 {
		m.Attempts[shown].Here = true
		m.Shown = &m.Attempts[shown]
	}
	for _, p := range d.Planned {
		m.Planned = append(m.Planned, plannedRow{p.Number, v.at(p.At), v.at(p.Latest)})
	}
}

// triggers says why an attempt was made, if not because it was due.
var triggers = map[grapnel.Trigger]string{"manual": "by hand", "replay": "replay", "probe": "probe", "test": "test"}

func phases(a *client.Attempt) (all []phase) {
	for _, p := range []struct {
		name string
		d    policy.Duration
	}{
		{"DNS", a.Phases.DNS}, {"connect", a.Phases.Connect}, {"TLS", a.Phases.TLS}, {"first byte", a.Phases.FirstByte}, {"body", a.Phases.Body},
	} {
		if p.d > 0 {
			all = append(all, phase{p.name, took(time.Duration(p.d))})
		}
	}
	return all
}

// deliveryVerdict says the reason for the delivery's state, and the next step.
func (v *visit) deliveryVerdict(d *client.Delivery, ep *client.Endpoint, m *deliveryModel) verdict {
	out := verdict{Pieces: []piece{{attemptsSaid(d), ""}}}
	switch {
	case d.Status == grapnel.Delivered:
		out.Pieces = []piece{{"Delivered", toneOK}, {fmt.Sprintf(" at attempt %d, %s after the event was accepted.", d.AttemptsMade, deliveredAfter(d)), ""}}
	case d.Status.Final():
		out.Pieces = append(out.Pieces, piece{" " + ended(d), ""})
		out.Next = sentence(d.Reason)
	case d.NextAttemptAt != nil && d.NextAttemptAt.After(v.now):
		out.Pieces = append(out.Pieces, piece{" The next attempt is in " + spoken(d.NextAttemptAt.Sub(v.now)) + ".", ""})
		out.Next = sentence(d.Reason)
	case d.NextAttemptAt != nil:
		out.Pieces = append(out.Pieces, piece{" The next attempt is due now.", ""})
		out.Next = sentence(d.Reason)
	default:
		reason := strings.TrimPrefix(strings.TrimPrefix(d.Reason, "held: "), "pending: ")
		out.Pieces = append(out.Pieces, piece{" " + sentence(reason), ""})
	}
	if n := len(m.Behind); n > 0 {
		more := ""
		if m.More {
			more = "At least "
		}
		out.Next += fmt.Sprintf(" %s%s of key %s behind this one, in order. Other keys are not affected.", more,
			many(n, "later event", "later events"), d.Key)
		out.Next = strings.Replace(out.Next, "later event of", "later event waits, of", 1)
		out.Next = strings.Replace(out.Next, "later events of", "later events wait, of", 1)
	}
	out.Next = strings.TrimSpace(out.Next)
	if d.PurgeAt != nil && d.DaysLeft != nil && d.Status != grapnel.Delivered {
		out.Next += fmt.Sprintf(" Retention deletes it in %s.", many(*d.DaysLeft, "day", "days"))
	}
	path := "/deliveries/" + d.ID
	offer := func(a act, verb string) {
		if v.session.mayDo("/deliveries/{id}/" + verb) {
			a.Post = v.link(path + "/" + verb)
			out.Acts = append(out.Acts, a)
		}
	}
	queue := strings.HasPrefix(d.EndpointID, grapnel.QueuePrefix+"_")
	switch {
	case d.Status == grapnel.Delivered:
		offer(act{Label: "Deliver again", Key: "r"}, "retry")
	case d.Status.Final():
		offer(act{Label: "Deliver again", Main: true, Key: "r"}, "retry")
		if d.Status == grapnel.Failed && d.DiscardedAt == nil {
			offer(act{Label: "Discard"}, "discard")
		}
	default:
		if !queue {
			offer(act{Label: "Retry now", Main: true, Key: "r"}, "retry")
		}
		offer(act{Label: "Skip", Sure: "It will not be delivered."}, "skip")
	}
	return out
}

func deliveredAfter(d *client.Delivery) string {
	if d.FinishedAt == nil {
		return "some time"
	}
	return took(d.FinishedAt.Sub(d.CreatedAt))
}

// ended is what became of a delivery that was not delivered.
func ended(d *client.Delivery) string {
	switch d.Status {
	case grapnel.Failed:
		switch {
		case d.ReplayResult == grapnel.Delivered:
			return "It failed, and was delivered again with success since."
		case d.DiscardedAt != nil:
			return "It failed, and an operator has put it away."
		}
		return "It failed for good and is stored as a dead letter."
	case grapnel.Skipped:
		return "An operator skipped it."
	case grapnel.Dropped:
		return "It was dropped."
	}
	return "It was discarded."
}

// attemptsSaid is what happened so far: "It answered 503 three times and timed out once."
func attemptsSaid(d *client.Delivery) string {
	if len(d.Attempts) == 0 {
		if d.Status.Final() {
			return "No attempt was made."
		}
		return "Nothing was sent yet."
	}
	by := map[string]int{}
	var order []string
	for i := range d.Attempts {
		a := &d.Attempts[i]
		said := "ended with: " + result(0, string(a.ErrorClass))
		switch {
		case a.StatusCode != 0:
			said = fmt.Sprintf("answered %d", a.StatusCode)
		case a.ErrorClass == policy.ClassTimeout:
			said = "timed out"
		case a.ErrorClass == policy.ClassConnect:
			said = "refused the connection"
		case a.ErrorClass == policy.ClassReset:
			said = "broke the connection off"
		case a.ErrorClass == policy.ClassDNS:
			said = "could not be found by its name"
		case a.ErrorClass == policy.ClassTLS:
			said = "failed the TLS handshake"
		}
		if by[said]++; by[said] == 1 {
			order = append(order, said)
		}
	}
	if len(order) > 3 {
		return fmt.Sprintf("%d attempts ended in %d different ways.", len(d.Attempts), len(order))
	}
	for i, said := range order {
		order[i] = said + times(by[said])
	}
	return "The endpoint " + list(order) + "."
}

func times(n int) string {
	words := []string{"", " once", " twice", " three times", " four times", " five times", " six times"}
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprintf(" %d times", n)
}

// timeline draws the attempts. The planned ones are the API's, which asks the same policy that the
// engine asks.
func (m *deliveryModel) timeline(v *visit, d *client.Delivery, ep *client.Endpoint) {
	var past []picture.Past
	for i, a := range m.Attempts {
		past = append(past, picture.Past{At: a.At.At, Tone: a.Tone, Label: a.Result, Manual: a.Trigger != "",
			Says: fmt.Sprintf("Attempt %d, %s: %s after %s", a.Number, d.Attempts[i].StartedAt.UTC().Format(time.RFC3339), a.Result, a.Took)})
	}
	var future []picture.Future
	for _, p := range m.Planned {
		future = append(future, picture.Future{At: p.At.At, Latest: p.Latest.At, Label: p.At.Clock(),
			Says: fmt.Sprintf("Attempt %d, %s, at the latest %s", p.Number, p.At.Absolute(), p.Latest.Absolute())})
	}
	var end picture.End
	m.Says = fmt.Sprintf("%s, %s.", many(len(past), "attempt made", "attempts made"), many(len(future), "planned", "planned"))
	if n := len(m.Planned); n > 0 && n < 50 {
		last := m.Planned[n-1]
		end = picture.End{At: last.Latest.At.Add(time.Second), Label: "gives up"}
		m.Says = strings.TrimSuffix(m.Says, ".") + fmt.Sprintf("; if all fail, the last one is on %s.", last.At.Absolute())
	}
	if len(past)+len(future) > 0 {
		m.Timeline = drawn(picture.Timeline(v.now, past, future, end, m.Says))
	}
}

func (m *deliveryModel) messages(v *visit, d *client.Delivery, event *client.Event, ep *client.Endpoint) {
	if m.Shown == nil {
		return
	}
	a := &d.Attempts[m.Shown.Number-d.Attempts[0].Number]
	address := "the endpoint"
	if ep != nil && ep.URL != "" {
		address = ep.URL
	}
	m.Request = message{First: "POST " + address, Headers: headers(a.RequestHeaders)}
	if a.RequestHeaders == nil {
		m.Request.Note = "The headers of this attempt were not recorded."
	}
	switch {
	case event == nil:
		m.Request.Note = "Retention has deleted the event's data."
	case event.DataBase64 != nil:
		m.Request.Note = many(len(event.DataBase64), "byte", "bytes") + " of " + event.ContentType + " are not shown."
	default:
		m.Request.Body, m.Request.Raw = v.readable(event.Data), string(event.Data)
		m.Request.Note = "Event data as published. The body sent is the endpoint's format of it."
	}
	m.Response = message{First: m.Shown.Result + " after " + m.Shown.Took, Headers: headers(a.ResponseHeaders)}
	switch {
	case a.StatusCode == 0:
		m.Response.Note = sentence(a.Error)
	case a.ResponseBase64 != nil:
		m.Response.Note = many(len(a.ResponseBase64), "byte", "bytes") + " that are no text are not shown."
	case a.ResponseBody == "":
		m.Response.Note = "The response had no body."
	default:
		m.Response.Body = v.readable([]byte(a.ResponseBody))
	}
}

// readable is a body for people: JSON is indented, with its numbers and the order of its keys as
// they came; anything else stays as it is.
func (v *visit) readable(body []byte) string {
	most := v.web.Bounds.Body
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") == nil {
		body = b.Bytes()
	}
	if len(body) <= most {
		return string(body)
	}
	cut := body[:most]
	for len(cut) > 0 && !utf8.Valid(cut[max(0, len(cut)-4):]) && len(cut) > most-4 {
		cut = cut[:len(cut)-1]
	}
	return string(cut) + "\n… " + count(len(body)-len(cut)) + " more bytes"
}

func headers(of map[string]string) (all []header) {
	for name, value := range of {
		all = append(all, header{strings.ToLower(name), value})
	}
	slices.SortFunc(all, func(a, b header) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (m *deliveryModel) facts(v *visit, d *client.Delivery, event *client.Event, ep *client.Endpoint) {
	add := func(name, value, href string) {
		if value != "" {
			m.Facts = append(m.Facts, fact{Name: name, Value: value, Href: href})
		}
	}
	m.Facts = append(m.Facts, fact{Name: "Accepted", At: v.at(d.CreatedAt)})
	if d.FinishedAt != nil {
		m.Facts = append(m.Facts, fact{Name: "Finished", At: v.at(*d.FinishedAt)})
	}
	add("Event", d.EventID, "")
	add("Key", d.Key, v.link("/deliveries"+withQuery("q", token{"key", d.Key}.String())))
	if d.Sequence > 0 {
		add("Position of its key", count(d.Sequence), "")
	}
	if ep != nil {
		add("Policy", policyName(ep.Policy), "")
	}
	if d.ReplayOf != nil {
		add("Repeats", *d.ReplayOf, v.link("/deliveries/"+url.PathEscape(*d.ReplayOf)))
	}
	if d.ReplayedAs != "" {
		add("Delivered again as", d.ReplayedAs, v.link("/deliveries/"+url.PathEscape(d.ReplayedAs)))
	}
	add("Note", d.Note, "")
	if event != nil {
		add("Source", event.Source, "")
	}
	add("Tenant", d.Tenant, "")
}

// policyName is the name of an endpoint's policy; one that has none is the endpoint's own.
func policyName(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	return "its own"
}

// others are the deliveries of the same event at other endpoints.
func (m *deliveryModel) others(v *visit, d *client.Delivery, event *client.Event) {
	for i := range event.Deliveries {
		if o := &event.Deliveries[i]; o.ID != d.ID && len(m.Others) < mostBehind {
			m.Others = append(m.Others, v.deliveryRow(o, nil))
		}
	}
}

func retryDelivery(v *visit) (string, error) {
	d, err := v.client.Retry(v.Context(), v.PathValue("id"), "from the dashboard")
	if err != nil {
		return "", err
	}
	if d.ID != v.PathValue("id") {
		return "A new delivery of the same event was made: " + d.ID, nil
	}
	return "The attempt is being made now.", nil
}

func skipDelivery(v *visit) (string, error) {
	_, err := v.client.Skip(v.Context(), v.PathValue("id"), "from the dashboard")
	return "The delivery was skipped. The next one of its key goes out.", err
}

func discardDelivery(v *visit) (string, error) {
	_, err := v.client.Discard(v.Context(), v.PathValue("id"), "from the dashboard")
	return "The dead letter was put away.", err
}
