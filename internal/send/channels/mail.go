package channels

import (
	"errors"
	"net"
	"net/mail"
	"regexp"
	"strings"

	"github.com/grapnelhq/grapnel"
)

// maxRecipients bounds the recipients of one channel.
const maxRecipients = 20

var helloName = regexp.MustCompile(`^[A-Za-z0-9.-]{1,253}$`)

// mail reads the parts of a URL of a mail server.
func (t *Target) mail(implicit bool) (*Mail, error) {
	v := t.values
	m := &Mail{User: v["user"], Password: grapnel.Secret{Text: v["password"]}, Subject: v["subject"], Hello: v["clienthost"]}
	m.Host, m.Port = v["host"], "587"
	if implicit {
		m.Port = "465"
	}
	if host, port, err := net.SplitHostPort(v["host"]); err == nil {
		m.Host, m.Port = host, port
	}
	m.Host = strings.Trim(m.Host, "[]")
	switch strings.ToLower(v["auth"]) {
	case "", "plain", "unknown":
	case "login":
		m.Login = true
	case "none":
		m.User, m.Password = "", grapnel.Secret{}
	default:
		return nil, errors.New("has an auth that is not supported; use plain, login or none")
	}
	switch strings.ToLower(v["encryption"]) {
	case "", "auto":
		m.Implicit = implicit || m.Port == "465"
	case "implicittls":
		m.Implicit = true
	case "explicittls":
		m.Require = !implicit
		m.Implicit = implicit
	case "none":
		m.Implicit, m.Clear = implicit, !implicit
	default:
		return nil, errors.New("has an encryption that is not supported; use auto, implicittls, explicittls or none")
	}
	if no := strings.ToLower(v["usestarttls"]); no == "no" || no == "false" {
		m.Clear = true
	}
	m.Require = m.Require || truth(v["requirestarttls"])
	if m.Hello == "" || strings.EqualFold(m.Hello, "auto") {
		m.Hello = "localhost"
	}
	if !helloName.MatchString(m.Hello) {
		return nil, errors.New("has a clienthost that is no host name")
	}
	return m, m.addresses(v["from"], v["fromname"], v["recipients"])
}

// addresses reads the sender and the recipients. A plus sign of an address reads as a space if it
// was not escaped, so a space is one.
func (m *Mail) addresses(from, name, to string) error {
	read := func(text string) (mail.Address, error) {
		a, err := mail.ParseAddress(strings.ReplaceAll(strings.TrimSpace(text), " ", "+"))
		if err != nil || a.Name != "" || len(a.Address) > 254 ||
			strings.ContainsFunc(a.Address, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
			return mail.Address{}, errors.New("is no mail address of the form name@example.com")
		}
		return *a, nil
	}
	sender, err := read(from)
	if err != nil {
		return errors.New("has a fromaddress that " + err.Error())
	}
	m.From = mail.Address{Name: name, Address: sender.Address}
	for text := range strings.SplitSeq(to, ",") {
		a, err := read(text)
		if err != nil {
			return errors.New("has a recipient in toaddresses that " + err.Error())
		}
		m.To = append(m.To, a)
	}
	if len(m.To) > maxRecipients {
		return errors.New("has more than 20 recipients")
	}
	return nil
}
