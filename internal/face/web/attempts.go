package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/web/picture"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
)

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
		row := attemptRow{Number: a.Number, Tone: tone, Result: words.Result(a.StatusCode, a.ErrorClass), At: v.at(a.StartedAt),
			Took: say.Took(time.Duration(a.Duration)), Phases: phases(a), Trigger: triggers[a.Trigger],
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
			all = append(all, phase{p.name, say.Took(time.Duration(p.d))})
		}
	}
	return all
}

// timeline draws the attempts. The planned ones are the API's, which asks the same policy that the
// engine asks.
func (m *deliveryModel) timeline(v *visit, d *client.Delivery) {
	var past []picture.Past
	for i, a := range m.Attempts {
		past = append(past, picture.Past{At: a.At.At, Tone: a.Tone, Label: a.Result, Manual: d.Attempts[i].Trigger == grapnel.TriggerManual,
			Says: fmt.Sprintf("Attempt %d, %s: %s after %s", a.Number, d.Attempts[i].StartedAt.UTC().Format(time.RFC3339), a.Result, a.Took)})
	}
	var future []picture.Future
	for _, p := range m.Planned {
		future = append(future, picture.Future{At: p.At.At, Latest: p.Latest.At, Label: plannedClock(v.now, p.At.At),
			Says: fmt.Sprintf("Attempt %d, %s, at the latest %s", p.Number, p.At.Absolute(), p.Latest.Absolute())})
	}
	var end picture.End
	says := fmt.Sprintf("%s, %s.", say.Many(len(past), "attempt made", "attempts made"), say.Many(len(future), "planned", "planned"))
	if n := len(m.Planned); n > 0 && n < 50 {
		last := m.Planned[n-1]
		end = picture.End{At: last.Latest.At.Add(time.Second), Label: "gives up"}
		says = strings.TrimSuffix(says, ".") + fmt.Sprintf("; if all fail, the last one is on %s.", last.At.Absolute())
	}
	if len(past)+len(future) > 0 {
		m.Timeline = drawn(picture.Timeline(v.now, past, future, end, says))
	}
}

// plannedClock is the label of a planned attempt, in UTC: as exact as people need.
func plannedClock(now, at time.Time) string {
	switch d := at.Sub(now); {
	case d < time.Hour:
		return at.UTC().Format("15:04:05")
	case d < 20*time.Hour:
		return at.UTC().Format("15:04")
	case d < 6*24*time.Hour:
		return at.UTC().Format("Mon 15:04")
	}
	return at.UTC().Format("2 Jan 15:04")
}

// sent asks for the body that the shown attempt sent.
func (m *deliveryModel) sent(v *visit, d *client.Delivery, a *client.Attempt) {
	switch {
	case a.PayloadHidden:
		m.Request.Note = hiddenNote
		return
	case a.Erased:
		m.Request.Note = erasedNote
		return
	case d.Message != nil:
		return
	case a.RequestHeaders == nil:
		m.Request.Note = "No request was sent in this attempt, or its headers were not recorded."
		return
	}
	is, err := v.client.SentBody(v.Context(), d.ID, a.Number)
	if err != nil { // the rest of the page is still true
		m.Request.Note = strings.TrimSpace("Making the body again failed. " + detailOf(err))
		return
	}
	m.Sent = *is
	if is.Verdict != "signed" {
		m.Request.Note = is.Sentence
	}
	switch body, some := is.Content(); {
	case is.Body != nil && *is.Body != "":
		m.Request.Body, m.Request.Raw = v.readable(body), *is.Body
	case is.Body != nil:
		m.Request.Note = "The request had no body."
	case some:
		m.Request.Note = say.Many(len(body), "byte", "bytes") + " of " + is.ContentType + " are not shown."
	}
}

// methodOf is the method of an endpoint's requests.
func methodOf(ep *client.Endpoint) string {
	if ep == nil || ep.Method == "" {
		return http.MethodPost
	}
	return ep.Method
}

func (m *deliveryModel) messages(v *visit, d *client.Delivery, ep *client.Endpoint) {
	if m.Shown == nil {
		return
	}
	a := &d.Attempts[m.Shown.Number-d.Attempts[0].Number]
	method, address := methodOf(ep), "the endpoint"
	if ep != nil && ep.URL != "" {
		address = ep.URL
	}
	m.Request = message{First: method + " " + address, Headers: headers(a.RequestHeaders)}
	m.sent(v, d, a)
	if ep != nil && ep.Revision != a.PolicyRevision && a.RequestHeaders != nil {
		m.Request.Note = strings.TrimSpace(m.Request.Note + " The endpoint was changed since; the address is that of now.")
	}
	if is := d.Message; is != nil {
		m.Request.First, m.Request.Body, m.Request.Raw = is.Method+" "+is.URL, v.readable([]byte(is.Body)), is.Body
		m.Request.Note = "Made again from the alert, by the channel's URL of now. Credentials are left out."
	}
	m.Response = message{Headers: headers(a.ResponseHeaders)}
	if a.StatusCode != 0 {
		m.Response.First = strings.TrimSpace(fmt.Sprintf("%d %s", a.StatusCode, http.StatusText(a.StatusCode)))
	}
	switch {
	case a.PayloadHidden && a.StatusCode != 0:
		m.Response.Note = hiddenNote
	case a.Erased:
		m.Response.Note = erasedNote
	case a.StatusCode == 0:
		m.Response.Note = sentence(a.Error)
	case a.ResponseBase64 != nil:
		m.Response.Note = say.Many(len(a.ResponseBase64), "byte", "bytes") + " that are no text are not shown."
	case a.ResponseBody == "":
		m.Response.Note = "The response had no body."
	default:
		m.Response.Body = v.readable([]byte(a.ResponseBody))
	}
}

// hiddenNote stands in the place of data that the session may not see.
const hiddenNote = "Data, bodies and values of headers are hidden from this session."

// erasedNote stands in the place of data whose data key was destroyed.
const erasedNote = "Erased, with the data key that had sealed it."

func headers(of map[string]string) (all []header) {
	for name, value := range of {
		all = append(all, header{strings.ToLower(name), value})
	}
	slices.SortFunc(all, func(a, b header) int { return strings.Compare(a.Name, b.Name) })
	return all
}
