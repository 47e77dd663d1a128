package egress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/netip"
	"net/smtp"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/policy"
)

// An attempt of a channel whose service is a mail server: one connection, one mail, one deadline
// for both. The server is as hostile as any receiver: its address is checked at the socket, and at
// most maxMailAnswers bytes of it are read.
//
// A mail may arrive twice: a connection that breaks after the text was sent leaves open whether
// the server has it. Both have the same Message-ID, by which mail programs know a repetition.

// maxMailAnswers are the bytes that a mail server may send in all, its certificates included.
const maxMailAnswers = 64 << 10

// letter is a mail before it is written: the result of the row's expression.
type letter struct {
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Thread  string `json:"thread"`
}

// sendMail makes the attempt.
func (s *Sender) sendMail(ctx context.Context, r *route, a *attempt, d Delivery, body []byte, result *Result) {
	a.mail = true
	m := r.target.Mail
	var l letter
	if err := json.Unmarshal(body, &l); err != nil {
		result.fail(policy.ClassInternal, "the mail cannot be made: "+err.Error())
		return
	}
	header, text := written(m, &l, d.Event, a.start)
	session := mailSession{sender: s, route: r, attempt: a, mail: m}
	err := session.run(ctx, text)
	if err != nil {
		s.explainMail(ctx, r, a, err, result)
	} else {
		result.Outcome.Class = policy.ClassNone
		result.Body = []byte(clean(session.answer))
		if len(session.refused) > 0 {
			result.Error = cut("the mail was sent, but not to " + strings.Join(session.refused, "; "))
		}
	}
	if a.wroteAt.Load() != 0 {
		result.Sent = header
	}
	result.redact(r.target, d.Link)
	result.Phases, result.Peer = a.phases(s.opts.Now().Sub(a.start)), a.peer
	if a.stage.Load() >= int32(stageSend) {
		s.counters.fresh.Add(1)
	}
}

// explainMail classifies: a reply 4yz of a mail server asks to try again later, 5yz is final.
func (s *Sender) explainMail(ctx context.Context, r *route, a *attempt, err error, result *Result) {
	var reply *textproto.Error
	if !errors.As(err, &reply) || ctx.Err() != nil || s.closing.Err() != nil || time.Until(a.deadline) <= 0 {
		s.explain(ctx, r, a, err, result)
		if result.Outcome.Class == policy.ClassProtocol {
			result.Error = "the answer is not valid SMTP, or longer than 64 KiB"
		}
		return
	}
	class := policy.ClassProtocol
	switch reply.Code / 100 {
	case 4:
		class = policy.ClassStatus5xx
	case 5:
		class = policy.ClassReject
	}
	result.fail(class, cut(fmt.Sprintf("the mail server answered %d %s", reply.Code, reply.Msg)))
	result.Body = []byte(clean(fmt.Sprintf("%d %s", reply.Code, reply.Msg)))
}

// mailSession is the conversation of one attempt.
type mailSession struct {
	sender  *Sender
	route   *route
	attempt *attempt
	mail    *channels.Mail

	answer  string   // to the text
	refused []string // recipients that the server does not take, with its replies
}

// run sends the text, or returns why the server does not have it.
func (m *mailSession) run(ctx context.Context, text []byte) error {
	s, a := m.sender, m.attempt
	ctx, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	to := &route{address: m.route.address, via: m.route.via}
	if m.mail.Implicit {
		to.tls = m.route.tls
	}
	c, err := s.dial(ctx, to, a)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	c.serve(a)
	if err := c.SetDeadline(a.deadline); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(longAgo) })()
	c.headerLeft = maxMailAnswers
	a.enter(stageSend)
	if a.still != nil && !a.still() {
		return errWithdrawn
	}
	client, err := smtp.NewClient(c, m.mail.Host)
	if err != nil {
		return err
	}
	return m.converse(client, c, text)
}

// converse goes through the commands of one mail.
func (m *mailSession) converse(client *smtp.Client, c *conn, text []byte) error {
	if err := client.Hello(m.mail.Hello); err != nil {
		return err
	}
	secure, err := m.secure(client)
	if err != nil {
		return err
	}
	if m.mail.User != "" {
		if !secure && !onLoopback(c.below) {
			return &dialError{class: policy.ClassTLS, text: "the mail server offers no TLS; the password is not sent without it"}
		}
		if err := client.Auth(&auth{m.mail}); err != nil {
			return err
		}
	}
	if err := client.Mail(m.mail.From.Address); err != nil {
		return err
	}
	if err := m.recipients(client); err != nil {
		return err
	}
	if a := m.attempt; a.still != nil && !a.still() {
		return errWithdrawn
	}
	return m.data(client, text)
}

// secure begins TLS if the server offers it, and says whether the connection has it.
func (m *mailSession) secure(client *smtp.Client) (bool, error) {
	offered, _ := client.Extension("STARTTLS")
	switch {
	case m.mail.Implicit:
		return true, nil
	case offered && !m.mail.Clear:
		if err := client.StartTLS(m.route.tls); err != nil {
			if _, ok := errors.AsType[*textproto.Error](err); ok {
				return false, err
			}
			return false, &dialError{class: policy.ClassTLS, text: tlsText(err), err: err}
		}
		return true, nil
	case m.mail.Require:
		return false, &dialError{class: policy.ClassTLS, text: "the mail server offers no TLS, which the channel requires"}
	}
	return false, nil
}

// recipients names the recipients. One that the server refuses for good does not keep the mail
// from the others. One that it refuses for now does: the others would get the mail again with each
// retry.
func (m *mailSession) recipients(client *smtp.Client) error {
	var last error
	for _, to := range m.mail.To {
		err := client.Rcpt(to.Address)
		var reply *textproto.Error
		switch {
		case err == nil:
		case errors.As(err, &reply) && reply.Code/100 == 5:
			last = err
			m.refused = append(m.refused, fmt.Sprintf("%s: %d %s", to.Address, reply.Code, reply.Msg))
		default:
			return err
		}
	}
	if len(m.refused) == len(m.mail.To) {
		return last
	}
	return nil
}

// data sends the text and reads the reply to it.
func (m *mailSession) data(client *smtp.Client, text []byte) error {
	if err := command(client, 354, "DATA"); err != nil {
		return err
	}
	w := client.Text.DotWriter()
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	code, msg, err := client.Text.ReadResponse(250)
	if err != nil {
		return err
	}
	m.answer = fmt.Sprintf("%d %s", code, msg)
	_ = client.Text.PrintfLine("QUIT") // the mail is accepted; nothing depends on the goodbye
	return nil
}

func command(client *smtp.Client, want int, line string) error {
	id, err := client.Text.Cmd("%s", line)
	if err != nil {
		return err
	}
	client.Text.StartResponse(id)
	defer client.Text.EndResponse(id)
	_, _, err = client.Text.ReadResponse(want)
	return err
}

// auth is AUTH PLAIN, or LOGIN for servers that know no other. Whether the connection is secure has
// been judged before.
type auth struct{ mail *channels.Mail }

func (a *auth) Start(server *smtp.ServerInfo) (string, []byte, error) {
	plain := slices.ContainsFunc(server.Auth, func(offered string) bool { return strings.EqualFold(offered, "PLAIN") })
	if a.mail.Login || !plain && len(server.Auth) > 0 {
		return "LOGIN", nil, nil
	}
	return "PLAIN", []byte("\x00" + a.mail.User + "\x00" + a.mail.Password.Text), nil
}

func (a *auth) Next(question []byte, more bool) ([]byte, error) {
	switch text := strings.ToLower(string(question)); {
	case !more:
		return nil, nil
	case strings.HasPrefix(text, "user"):
		return []byte(a.mail.User), nil
	case strings.HasPrefix(text, "pass"):
		return []byte(a.mail.Password.Text), nil
	}
	return nil, errors.New("the mail server asks for something else than a user name and a password")
}

func onLoopback(c net.Conn) bool {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// written is the text of a mail, and the headers that the attempt keeps. Every value is encoded or
// made of checked parts, so no text of an alert can begin a header.
func written(m *channels.Mail, l *letter, e *grapnel.Event, now time.Time) (kept []grapnel.Header, text []byte) {
	_, domain, _ := strings.Cut(m.From.Address, "@")
	id := func(part string) string { return "<" + strings.Map(atom, part) + "@" + strings.Map(atom, domain) + ">" }
	to := make([]string, len(m.To))
	for i := range m.To {
		to[i] = m.To[i].String()
	}
	from := mail.Address{Name: oneLine(m.From.Name), Address: m.From.Address}
	kept = []grapnel.Header{
		{Name: "Date", Value: now.UTC().Format(time.RFC1123Z)},
		{Name: "From", Value: from.String()},
		{Name: "To", Value: strings.Join(to, ",\r\n ")},
		{Name: "Subject", Value: mime.QEncoding.Encode("utf-8", oneLine(l.Subject))},
		{Name: "Message-Id", Value: id(e.ID)},
		{Name: "References", Value: id(l.Thread)}, // the mails of one alert have one ancestor
		{Name: "Auto-Submitted", Value: "auto-generated"},
		{Name: "Mime-Version", Value: "1.0"},
		{Name: "Content-Type", Value: "text/plain; charset=utf-8"},
		{Name: "Content-Transfer-Encoding", Value: "quoted-printable"},
	}
	var b bytes.Buffer
	for _, h := range kept {
		fmt.Fprintf(&b, "%s: %s\r\n", h.Name, h.Value)
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write([]byte(strings.ReplaceAll(strings.ReplaceAll(l.Text, "\r\n", "\n"), "\n", "\r\n"))) // a buffer takes all
	_ = w.Close()
	for i := range kept {
		kept[i].Value = strings.ReplaceAll(kept[i].Value, "\r\n", "")
	}
	return kept, b.Bytes()
}

// oneLine replaces the characters that would end a header.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, clean(text))
}

// atom keeps the characters of an id.
func atom(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
		return c
	}
	return -1
}
