package web

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/sign"
)

const (
	localServer = "http://localhost:3000/hooks"
	mostDone    = 20
	redacted    = "[redacted]" // the API's word for the value of an endpoint's own header
)

// tools are what can be done with the shown attempt elsewhere: send it again by hand, have it come
// to a local server, compare it with the one before.
func (m *deliveryModel) tools(v *visit, d *client.Delivery, event *client.Event, ep *client.Endpoint) {
	if ep != nil {
		_, m.Local = v.teach("", "grapnel listen "+localServer+" --endpoint "+shellQuote(ep.ID))
	}
	if event != nil && event.DataBase64 == nil && v.web.home == "" {
		m.Compare = v.link("/deliveries/" + d.ID + "/compare")
	}
	if m.Shown == nil {
		return
	}
	i := m.Shown.Number - d.Attempts[0].Number
	a := &d.Attempts[i]
	if i > 0 {
		lines, differs := difference(attemptText(&d.Attempts[i-1]), attemptText(a))
		if m.Before = d.Attempts[i-1].Number; differs {
			m.Changes = folded(lines)
		}
	}
	body, is := m.Sent.Content()
	if d.Message != nil || !is || len(body) > v.web.Bounds.Body {
		return
	}
	address := localServer
	if ep != nil && ep.URL != "" {
		address = ep.URL
	}
	m.Curl, m.Masked = requestCurl(methodOf(ep), address, m.Request.Headers, body)
	m.Stale = v.now.Sub(a.StartedAt) > sign.DefaultTolerance
	id, at := a.RequestHeaders[headerOf(a.RequestHeaders, "webhook-id")], a.RequestHeaders[headerOf(a.RequestHeaders, "webhook-timestamp")]
	if id != "" && at != "" {
		m.Signed = fmt.Sprintf("%s.%s.BODY", id, at)
	}
}

// requestCurl is the command that sends a request again, and the names of the headers whose values
// are not known. A body that a terminal or a clipboard could change is given in base64.
func requestCurl(method, address string, headers []header, body []byte) (command, masked string) {
	words := []string{"curl"}
	if strings.ContainsAny(address, "[]{}") {
		words = append(words, "-g")
	}
	words = append(words, "-X "+method, shellQuote(address))
	var hidden []string
	for _, h := range headers {
		switch h.Name {
		case "content-length", "host", "accept-encoding", "traceparent":
			continue
		}
		if h.Value == redacted {
			hidden = append(hidden, h.Name)
		}
		text := h.Name + ": " + h.Value
		if h.Value == "" {
			text = h.Name + ";" // curl takes a colon with nothing behind it for "leave this header out"
		}
		words = append(words, "-H "+shellQuote(text))
	}
	masked = strings.Join(hidden, ", ")
	fragile := func(r rune) bool { return unicode.IsControl(r) && r != '\n' }
	if utf8.Valid(body) && strings.IndexFunc(string(body), fragile) < 0 {
		return strings.Join(append(words, "--data-raw", shellQuote(string(body))), " "), masked
	}
	sent := "printf %s " + base64.StdEncoding.EncodeToString(body) + " | base64 -d | "
	return sent + strings.Join(append(words, "--data-binary @-"), " "), masked
}

// headerOf is a header's name as it is written among headers.
func headerOf(all map[string]string, name string) string {
	for written := range all {
		if strings.EqualFold(written, name) {
			return written
		}
	}
	return name
}

// attemptText is an attempt as text to compare. Times, signatures and the like,
// which differ in every attempt, are left out.
func attemptText(a *client.Attempt) string {
	var b strings.Builder
	put := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	for _, h := range headers(a.RequestHeaders) {
		if strings.HasSuffix(h.Name, "-signature") || strings.HasSuffix(h.Name, "-timestamp") || h.Name == "traceparent" ||
			h.Name == "grapnel-attempt" {
			continue
		}
		put("> %s: %s", h.Name, h.Value)
	}
	switch {
	case a.StatusCode != 0:
		put("< %d %s", a.StatusCode, http.StatusText(a.StatusCode))
	default:
		put("< %s: %s", words.Result(0, a.ErrorClass), a.Error)
	}
	for _, h := range headers(a.ResponseHeaders) {
		if h.Name == "date" {
			continue
		}
		put("< %s: %s", h.Name, h.Value)
	}
	put("%s", strings.TrimSuffix(lined([]byte(a.ResponseBody)), "\n"))
	return strings.TrimSuffix(b.String(), "\n")
}

// audit lists what people did with the delivery.
func (m *deliveryModel) audit(v *visit, d *client.Delivery) error {
	found, err := v.client.Audit(v.Context(), client.AuditFilter{Delivery: d.ID, Limit: mostDone})
	if err != nil {
		told, ok := err.(*client.Error) //nolint:errorlint // the client returns it as it is
		if ok && told.Status == http.StatusForbidden || grapnel.CodeOf(err) == grapnel.CodeNotFound {
			return nil
		}
		return err
	}
	for i := range found.Data {
		m.Audit = append(m.Audit, v.audited(&found.Data[i]))
	}
	return nil
}
