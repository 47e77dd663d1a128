package oidc

import (
	"crypto/subtle"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

// checkFor checks that a token is by this issuer, for this server, and of this flow.
func (p *Provider) checkFor(c Claims, nonce string) error {
	issuer, _ := c.Text("iss")
	audience, party := c.Texts("aud"), c.Texts("azp")
	told, _ := c.Text("nonce")
	switch {
	case issuer != p.Issuer:
		return fault(BadToken, "the ID token is of the issuer %q", cut(issuer))
	case !slices.Contains(audience, p.ClientID):
		return fault(BadToken, "the ID token is for another client")
	case c["azp"] != nil && !slices.Equal(party, []string{p.ClientID}), len(audience) > 1 && len(party) == 0:
		return fault(BadToken, "the ID token was issued to another client")
	case nonce == "" || subtle.ConstantTimeCompare([]byte(nonce), []byte(told)) != 1:
		return fault(BadToken, "the ID token is of another sign-in")
	case c.Subject() == "" || len(c.Subject()) > mostSubject:
		return fault(BadToken, "the ID token has no subject, or one of more than %d bytes", mostSubject)
	}
	return nil
}

// mostSubject is the longest subject that OpenID Connect allows.
const mostSubject = 255

// checkTimes checks when a token is valid, within Bounds.Skew.
func (p *Provider) checkTimes(c Claims) error {
	now := p.Clock()
	ends, ok := c.Time("exp")
	issued, known := c.Time("iat")
	if !ok || !known {
		return fault(BadToken, "the ID token does not say when it was issued and until when it is valid")
	}
	begins, limited := c.Time("nbf")
	if _, given := c["nbf"]; given && !limited {
		return fault(BadToken, "nbf of the ID token is no time")
	}
	for _, ahead := range []time.Time{issued, begins} {
		if by := ahead.Sub(now); by > p.Bounds.Skew && !ahead.IsZero() {
			return fault(Clocks, "the ID token is valid in %v only: the issuer's clock is ahead, or this server's behind", by.Round(time.Second))
		}
	}
	if by := now.Sub(ends); by >= p.Bounds.Skew {
		return fault(Clocks, "the ID token ended %v ago: this server's clock is ahead, or the issuer's behind", by.Round(time.Second))
	}
	return nil
}

// Claims is what the issuer says about a person. Names are compared exactly.
type Claims map[string]json.RawMessage

// Subject is the issuer's name for the person; it never changes, and no other person gets it.
func (c Claims) Subject() string {
	text, _ := c.Text("sub")
	return text
}

// Email is the person's address, if the issuer says that it belongs to the person: by an address
// that anybody may enter, one could take the role of another.
func (c Claims) Email() (string, bool) {
	email, ok := c.Text("email")
	switch string(c["email_verified"]) {
	case "true", `"true"`: // some issuers write text
		return email, ok && strings.Count(email, "@") == 1
	}
	return "", false
}

// Text is a claim that is one text.
func (c Claims) Text(name string) (text string, ok bool) {
	value, found := c.find(name)
	return text, found && value[0] == '"' && json.Unmarshal(value, &text) == nil
}

// Texts is a claim that is a text or a list of texts.
func (c Claims) Texts(name string) []string {
	if text, ok := c.Text(name); ok {
		return []string{text}
	}
	value, found := c.find(name)
	var all []string
	if !found || json.Unmarshal(value, &all) != nil {
		return nil
	}
	return all
}

// Time is a claim that is seconds since 1970.
func (c Claims) Time(name string) (time.Time, bool) {
	var seconds float64
	value, found := c[name]
	if !found || json.Unmarshal(value, &seconds) != nil || !(seconds > 0 && seconds < 1e11) {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*1e9)), true
}

// find looks a claim up by its name, or else by a path through objects, such as realm_access.roles.
func (c Claims) find(name string) (json.RawMessage, bool) {
	if value, found := c[name]; found {
		return value, len(value) > 0
	}
	for i := range len(name) {
		var inner Claims
		if name[i] != '.' || json.Unmarshal(c[name[:i]], &inner) != nil {
			continue
		}
		if value, found := inner.find(name[i+1:]); found {
			return value, true
		}
	}
	return nil, false
}

// cut shortens text of the issuer for the log.
func cut(text string) string {
	if len(text) > 200 {
		return text[:200]
	}
	return text
}
