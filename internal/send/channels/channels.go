// Package channels knows the services that channels of alerts go to: how their URLs are written,
// and which request each alert becomes. A service is a row of one table (rows.go); there is no
// code for one service alone, except that mail is no HTTP.
//
// The URLs are written as the library shoutrrr writes them, because people have them already. A
// URL holds credentials. So a target never shows itself: Masked has no credential, and Hide gives
// a target whose credentials are replaced.
//
// It is pure. Package egress sends what a target says.
package channels

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// MaxURL is the most bytes that the URL of a channel has.
const MaxURL = 2048

// Services lists all services, sorted by name.
func Services() []Service {
	var all []Service
	for i := range rows {
		all = append(all, rows[i].Service)
	}
	return all
}

// Title is the name of a service as its makers write it.
func Title(service string) string {
	if r := rowOf(service); r != nil {
		return r.Title
	}
	return service
}

// Closes says whether a service has an incident for each alert, which only that alert's resolution
// closes.
func Closes(service string) bool {
	r := rowOf(service)
	return r != nil && r.closes
}

// Read reads the URL of a channel. The error names the fault for the person who entered it. Of the
// URL it repeats only the names of parameters.
func Read(raw string) (*Target, error) {
	raw = strings.TrimSpace(raw) // of pasting
	if len(raw) > MaxURL {
		return nil, fmt.Errorf("is longer than %d bytes", MaxURL)
	}
	native, err := unpaste(raw)
	if err != nil {
		return nil, err
	}
	return read(native)
}

// read reads a URL that has the scheme of its service.
func read(raw string) (*Target, error) {
	scheme, _, found := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	name, secure := strings.CutSuffix(scheme, "+https")
	name, plain := strings.CutSuffix(name, "+http")
	switch {
	case !found:
		return nil, fmt.Errorf("must be the URL of a service, such as slack://…; known are %s", names())
	case name == "smtps":
		name = "smtp"
	case name == "http" || name == "https":
		return nil, fmt.Errorf("is the URL of no service that is known by its host; for a webhook of your own write generic+%s://…", name)
	}
	r := rowOf(name)
	if r == nil || (secure || plain) && name != "generic" {
		return nil, fmt.Errorf("has a scheme of no known service; known are %s", names())
	}
	u, err := url.Parse(raw)
	if err != nil || u.Fragment != "" || strings.ContainsFunc(raw, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return nil, fmt.Errorf("is not a URL of the form %s", r.Form)
	}
	t, err := r.read(u)
	if err != nil {
		return nil, err
	}
	if plain || truth(t.values["disabletls"]) || t.values["scheme"] == "http" {
		t.values["scheme"] = "http"
	} else {
		t.values["scheme"] = "https"
	}
	if r.mail {
		if t.Mail, err = t.mail(scheme == "smtps"); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// URL is where the request for an event goes.
func (t *Target) URL(e *grapnel.Event) string {
	template := t.url
	if t.closing != "" && e.Type == grapnel.EventAlertResolved {
		template = t.closing
	}
	return t.fill(template, map[string]string{"event": e.ID, "alert": alertOf(e)})
}

// alertOf is the id of the alert that an event is about; of an event without one, the event's.
func alertOf(e *grapnel.Event) string {
	var data struct {
		ID string `json:"alert_id"`
	}
	if json.Unmarshal(e.Data, &data) != nil || !grapnel.ValidID(data.ID) {
		return e.ID
	}
	return data.ID
}

// Input is the input of the expression Body: the standard body of the event (id, type, timestamp,
// data), the values of the URL as "to", and the link of the message if it has one beside its data.
func (t *Target) Input(envelope []byte, link string) []byte {
	input := slices.Clone(envelope[:len(envelope)-1])
	input = append(append(input, `,"to":`...), encoded(t.values)...)
	if link != "" {
		input = append(append(input, `,"link":`...), encoded(link)...)
	}
	return append(input, '}')
}

// encoded is a text, or a map of texts, as JSON.
func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("channels: texts cannot be encoded: " + err.Error())
	}
	return text
}

// Hide is the target without credentials, to show requests.
func (t *Target) Hide() *Target {
	hidden := *t
	hidden.values, hidden.Headers = map[string]string{}, map[string]string{}
	for name, value := range t.values {
		if t.secret[name] && value != "" {
			value = redacted
		}
		hidden.values[name] = value
	}
	for name := range t.Headers {
		hidden.Headers[name] = redacted
	}
	return &hidden
}

const redacted = "[redacted]"

// Redact replaces the credentials of the target in a text of its service, such as an answer that
// repeats the path of the request.
func (t *Target) Redact(text string) string {
	var all []string
	for name, value := range t.values {
		if !t.secret[name] {
			continue
		}
		_, token, _ := strings.Cut(value, " ") // of "Bearer token"
		parts := []string{value, token}
		if u, err := url.Parse(value); err == nil { // the query of a URL, or a whole one
			parts = append(parts, u.RequestURI())
			for _, values := range u.Query() {
				parts = append(parts, values...)
			}
		}
		for _, part := range parts {
			if len(part) >= 6 {
				all = append(all, part, url.PathEscape(part), url.QueryEscape(part), base64.StdEncoding.EncodeToString([]byte(part)),
					strings.ReplaceAll(part, "/", `\/`)) // as some write JSON
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	for _, written := range all {
		text = strings.ReplaceAll(text, written, redacted)
	}
	return text
}

// Policy is the policy of channels. An alert is useless after a day. A permanent refusal is a dead
// letter at once, and disables nothing: the next alert is tried again.
func Policy() policy.Policy {
	p, _ := policy.Preset("standard")
	d := func(all ...time.Duration) (delays []policy.Duration) {
		for _, one := range all {
			delays = append(delays, policy.Duration(one))
		}
		return delays
	}
	p.Name = ""
	p.Schedule.Delays = d(0, 5*time.Second, 30*time.Second, 2*time.Minute, 5*time.Minute, 15*time.Minute, 30*time.Minute,
		time.Hour, 2*time.Hour, 4*time.Hour, 6*time.Hour)
	p.MaxAttempts, p.MaxAge = 11, policy.Duration(24*time.Hour)
	p.Classify = map[string]policy.Decision{
		"4xx": policy.Fail, "408": policy.Retry, "425": policy.Retry, "429": policy.Throttle, "410": policy.Fail,
	}
	p.Disable.After = 0 // never
	return p
}
