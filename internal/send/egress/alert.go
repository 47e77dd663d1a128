package egress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/policy"
)

// The attempts of a channel of alerts. Its URL, headers and body are those of a service for
// people, made from the channel's URL (package channels). They are not signed. The URL holds
// credentials, so nothing of it is stored with an attempt.

// CheckChannel returns the fault of a channel's target that is visible without resolving a name, in
// words for the operator who entered it.
func CheckChannel(t *channels.Target, r URLRules) error {
	if t.Mail != nil {
		return checkMail(t.Mail, newGuard(r.Allow).forMail())
	}
	if err := CheckURL(t.URL(&grapnel.Event{ID: "evt"}), r); err != nil {
		return err
	}
	return sendable(t.Headers)
}

func checkMail(m *channels.Mail, g *guard) error {
	port, err := strconv.ParseUint(m.Port, 10, 16)
	if err != nil || port == 0 {
		return errors.New("has a port that is not a number from 1 to 65535")
	}
	ip := net.ParseIP(m.Host)
	return checkHost(strings.ToLower(m.Host), uint16(port), ip != nil && ip.To4() == nil, g)
}

// targetOf is where the messages of a channel go. sender is the URL of the operator's mail server,
// which sends the mails of contacts.
func targetOf(e *grapnel.Endpoint, sender string) (*channels.Target, error) {
	if e.Channel.Mailed() {
		return channels.To(sender, e.Channel.Contact.Mail)
	}
	return channels.Read(e.Channel.URL.Text)
}

// prepareChannel makes the route of a channel.
func (s *Sender) prepareChannel(r *route, e *grapnel.Endpoint) *route {
	if e.Channel.Mailed() && r.through == "" {
		return r.unusable(policy.ClassBlocked, "no sender of mails is set for contacts: grapnel contacts sender --url")
	}
	t, err := targetOf(e, r.through)
	if err != nil {
		return r.unusable(policy.ClassInternal, "the channel's URL "+err.Error())
	}
	r.target = t
	proxy := r.through
	if t.Mail != nil {
		proxy = "" // a tenant's proxy is for requests; those allow the ports of HTTP, as a rule
	}
	if err := r.prepareProxies(s, "", proxy); err != nil {
		return r.unusable(policy.ClassInternal, err.Error())
	}
	if m := t.Mail; m != nil {
		if err := checkMail(m, s.rules.Load().mail); err != nil {
			return r.unusable(policy.ClassBlocked, "the channel's URL "+err.Error())
		}
		r.address = net.JoinHostPort(m.Host, m.Port)
		r.tls = s.tls.Clone()
		r.tls.ServerName, r.tls.NextProtos = m.Host, nil
		return r
	}
	is := s.rules.Load()
	u, err := parseURL(t.URL(&grapnel.Event{ID: "evt"}), is.httpsOnly, is.guard)
	if err != nil {
		return r.unusable(policy.ClassBlocked, "the channel's URL "+err.Error())
	}
	if err := sendable(t.Headers); err != nil {
		return r.unusable(policy.ClassInternal, "the channel's headers cannot be sent: "+err.Error())
	}
	if err := r.prepareRequest(s, t.Method, u); err != nil {
		return r.unusable(policy.ClassBlocked, "the channel's URL cannot be requested: "+err.Error())
	}
	r.static.set(headerUserAgent, s.opts.UserAgent)
	r.addOwns(t.Headers)
	return r
}

// alertBody is the body of an event for a channel.
func (s *Sender) alertBody(ctx context.Context, r *route, d Delivery) (body []byte, contentType string, err error) {
	t, err := r.transform(s, r.target.Body)
	if err != nil {
		return nil, "", &unsendable{fmt.Sprintf("the messages of %s cannot be made: %s", r.target.Service, err)}
	}
	body, err = s.applied(ctx, t, d.Event.Tenant, r.target.Input(envelope(d.Event), d.Link))
	if err != nil {
		return nil, "", err
	}
	return encoded(r.target, body)
}

// encoded is a message as its service takes it: as JSON, or as a form.
func encoded(t *channels.Target, message []byte) (body []byte, contentType string, err error) {
	if !t.Form {
		return message, grapnel.JSONType, nil
	}
	var fields map[string]string
	if err := json.Unmarshal(message, &fields); err != nil {
		return nil, "", &unsendable{"the message's form has a field that is no text"}
	}
	form := url.Values{}
	for name, value := range fields {
		form.Set(name, value)
	}
	return []byte(form.Encode()), "application/x-www-form-urlencoded", nil
}

// alertRequest is the request of an attempt of a channel. Its URL may name the event.
func (r *route) alertRequest(m *message, d Delivery, contentType string) error {
	u, err := url.Parse(r.target.URL(d.Event))
	if err == nil && strings.EqualFold(u.Host, r.host) {
		m.lines, err = firstLines(r.method, u)
	}
	if err != nil || m.lines == "" {
		return errors.New("the channel's URL cannot be made for this event")
	}
	r.own(&m.fields, d)
	m.fields.set(headerContentType, contentType)
	m.fields.set(headerHops, strconv.Itoa(d.Event.Hops()+1)) // a channel may lead to a source of this server
	return nil
}

// verdict is the result of a row's expression over an answer.
type verdict struct {
	Status int     `json:"status"`
	Error  string  `json:"error"`
	After  float64 `json:"after"` // seconds
}

// judge corrects the outcome of a service that reports a failure in the body alone, and removes the
// channel's credentials, and the link of the message, from the stored answer.
func (s *Sender) judge(r *route, link string, result *Result) {
	if v := s.verdictOf(r, result); v.Status >= 400 && v.Status <= 599 {
		answered := strconv.Itoa(result.Outcome.Status)
		result.Outcome.Status, result.Outcome.Class = v.Status, policy.ClassOf(v.Status)
		result.Error = cut(fmt.Sprintf("the answer %s says that it failed with %d: %s", answered, v.Status, v.Error))
		if v.After > 0 && v.After < (24*time.Hour).Seconds() {
			result.Outcome.RetryAfter, result.Outcome.HasRetryAfter = time.Duration(v.After*float64(time.Second)), true
		}
	}
	result.redact(r.target, link)
	headers := make(map[string]string, len(result.Headers)) // the connection has the others
	for name, value := range result.Headers {
		headers[name] = r.target.Redact(value)
	}
	result.Headers = headers
}

// redact removes credentials from what is stored of an answer. An answer may repeat the message,
// and a link in it is a credential; as JSON its & may be written in another way.
func (result *Result) redact(t *channels.Target, link string) {
	hide := func(text string) string {
		if _, code, found := strings.Cut(link, "#"); found {
			text = strings.ReplaceAll(text, code, redacted)
		} else if link != "" {
			text = strings.ReplaceAll(text, link[strings.LastIndexByte(link, '=')+1:], redacted)
		}
		return t.Redact(text)
	}
	result.Error = clean(hide(result.Error))
	if len(result.Body) > 0 {
		result.Body = []byte(hide(string(result.Body)))
	}
}

// verdictOf evaluates the row's expression. An answer that it cannot read says nothing beyond its
// status.
func (s *Sender) verdictOf(r *route, result *Result) (v verdict) {
	switch result.Outcome.Class {
	case policy.ClassNone, policy.ClassStatus4xx, policy.ClassStatus429, policy.ClassStatus5xx:
	default:
		return v // there is no whole answer
	}
	if r.target.Answer == "" || result.Outcome.Status == 0 {
		return v
	}
	t, err := r.transform(s, r.target.Answer)
	if err != nil {
		return v
	}
	in := struct {
		Status int             `json:"status"`
		Text   string          `json:"text"`
		JSON   json.RawMessage `json:"json"`
	}{Status: result.Outcome.Status, Text: clean(string(result.Body))}
	if json.Valid(result.Body) {
		in.JSON = result.Body
	}
	input, err := json.Marshal(in)
	if err != nil {
		return v
	}
	out, err := t.Apply(input)
	if err != nil || json.Unmarshal(out, &v) != nil {
		return verdict{}
	}
	return v
}

// request puts the lines and headers of an attempt's request into m.
func (r *route) request(m *message, start time.Time, d Delivery, body []byte, contentType string) error {
	if r.target != nil {
		return r.alertRequest(m, d, contentType)
	}
	signature, err := r.signer.Sign(d.Event.ID, start, body)
	if err != nil {
		return err
	}
	m.lines = r.lines
	r.header(&m.fields, start, d, contentType, signature)
	return nil
}

func (r *route) unusable(class policy.Class, problem string) *route {
	r.class, r.problem = class, problem
	return r
}

// bodyOf returns the body of a delivery, and its content type. An event has the shape that was in
// force when it was accepted. If that gives no body, nothing of the event was ever sent; a later
// redelivery, by a person or a replay, then gets the shape of its own time. So a transform can be
// repaired and the event delivered.
func (s *Sender) bodyOf(ctx context.Context, r *route, m *message, d Delivery) (body []byte, contentType string, err error) {
	if r.target != nil {
		return s.alertBody(ctx, r, d)
	}
	shape := r.endpoint.ShapeAt(d.Event.AcceptedAt)
	body, contentType, err = s.shaped(ctx, r, m, shape, d.Event)
	if _, failed := err.(*unsendable); !failed || !d.CreatedAt.After(d.Event.AcceptedAt) { //nolint:errorlint // it is made below
		return body, contentType, err
	}
	if later := r.endpoint.ShapeAt(d.CreatedAt); later.Transform != shape.Transform {
		return s.shaped(ctx, r, m, later, d.Event)
	}
	return nil, "", err
}
