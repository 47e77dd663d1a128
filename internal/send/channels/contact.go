package channels

import (
	"errors"
	"net/mail"
	"net/url"
	"regexp"
	"strings"
)

// mailbox is the form of the addresses of contacts: those that stand in a command of SMTP and in a
// header as they are.
var mailbox = regexp.MustCompile("^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\\.[A-Za-z0-9-]{1,63})+$")

// IsMailbox says whether a text is the mail address of one mailbox.
func IsMailbox(text string) bool { return len(text) <= 254 && mailbox.MatchString(text) }

// To is the target of mails to one address by a mail server, whose URL is that of a channel of mails
// without recipients.
func To(server, address string) (*Target, error) {
	u, err := url.Parse(strings.TrimSpace(server))
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return nil, errors.New("must be the URL of a mail server: smtp://user:password@host:587/?fromaddress=sender@example.com")
	}
	q := u.Query()
	for name := range q {
		if is := strings.ToLower(name); is == "toaddresses" || is == "to" || is == "subject" {
			return nil, errors.New("has the parameter " + is + ", which each message has of its own")
		}
	}
	if !IsMailbox(address) {
		return nil, errors.New("is for an address that is none of one mailbox")
	}
	q.Set("toaddresses", address)
	u.RawQuery = q.Encode()
	t, err := Read(u.String())
	if err == nil {
		t.Mail.To = []mail.Address{{Address: address}}
	}
	return t, err
}
