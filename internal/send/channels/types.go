package channels

import (
	"net/mail"

	"github.com/grapnelhq/grapnel"
)

// Service describes a service for people.
type Service struct {
	Name    string // the scheme of its URLs
	Title   string
	Form    string // of its URLs
	Example string // a URL that is read, with made up credentials
	Pasted  string // the same as the service shows it in its settings; empty: it shows none, or one that this server cannot tell from others
	Arrives string // what an alert becomes there
}

// Target is the destination of a channel, read from its URL.
type Target struct {
	Service string
	Masked  string // the URL without its credentials and without what only its owner may know
	Method  string
	Form    bool              // the body is sent as a form; its jq expression gives an object of texts
	Mail    *Mail             // not nil: the target is a mail server, and Method, Form, Answer are empty
	Body    string            // a jq expression over the input, see Input
	Answer  string            // a jq expression over the answer; empty: its status says everything
	Headers map[string]string // they may hold credentials
	reading                   // of the URL
	url     string            // with {names} of values
	closing string            // the same for alerts that are resolved; empty: url
}

// Mail is a mail server, and the envelope of the mails that it gets.
type Mail struct {
	Host     string // name or address
	Port     string
	User     string // empty: no AUTH
	Password grapnel.Secret
	Login    bool // AUTH LOGIN instead of PLAIN
	Implicit bool // TLS from the first byte
	Clear    bool // STARTTLS is not used
	Require  bool // without STARTTLS nothing is sent
	From     mail.Address
	To       []mail.Address
	Subject  string // put before the titles of alerts; empty: nothing
	Hello    string // the name said in EHLO
}

// A way is one of the forms that the URLs of a service have. Each part of the URL is a pattern:
// text, and {names} of values. {name!} is a credential, {name?} may be missing, {name*} takes any
// number of segments of a path.
type way struct {
	user, pass, host, path, query string

	url     string // of the request; see Target.URL
	closing string
	headers map[string]string // values hold {names}
}

// reading has the parts of a URL as a way reads them.
type reading struct {
	values map[string]string // by their names in the row
	secret map[string]bool   // those that are credentials
}
