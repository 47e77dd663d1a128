package cli

import (
	"net/url"
	"strings"
)

// Store is a flag for the database of a server.
type Store string

// Set refuses nothing, because pflag repeats a refused text and a database's URL has a password in
// it.
func (s *Store) Set(text string) error { *s = Store(text); return nil }

// String is the database's place: no user, no password, no parameters, which can have either. A
// text of another form is not shown.
func (s *Store) String() string {
	if path, ok := strings.CutPrefix(string(*s), "sqlite:"); ok {
		path, _, _ = strings.Cut(path, "?")
		return "sqlite:" + path
	}
	u, err := url.Parse(string(*s))
	switch {
	case *s == "":
		return ""
	case err != nil || u.Scheme == "" || u.Host == "":
		return "another database"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Type names the kind of value in help texts.
func (*Store) Type() string { return "string" }

// Proxy is a flag for the URL of a forward proxy, which may have a password in it.
type Proxy string

// Set refuses nothing, because pflag repeats a refused text.
func (p *Proxy) Set(text string) error { *p = Proxy(text); return nil }

// String is the proxy's place.
func (p *Proxy) String() string {
	u, err := url.Parse(string(*p))
	switch {
	case *p == "":
		return ""
	case err != nil || u.Host == "":
		return "a proxy"
	}
	return u.Scheme + "://" + u.Host
}

// Type names the kind of value in help texts.
func (*Proxy) Type() string { return "url" }
