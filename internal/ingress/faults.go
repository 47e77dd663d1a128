package ingress

import (
	"fmt"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/match"
)

// Fault is an error in a source's settings. Field is its place with the names of the API: "secret",
// "tolerance" in CheckVerify; "verify/secret", "dedupe/window", "type" in CheckSource.
type Fault struct{ Field, Detail string }

// Limits of a source's settings.
const (
	MinTolerance    = time.Second
	MaxTolerance    = 24 * time.Hour
	MinDedupeWindow = time.Second
	MaxDedupeWindow = 90 * 24 * time.Hour
)

// faults gathers them.
type faults []Fault

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, Fault{field, fmt.Sprintf(format, args...)})
}

// CheckVerify returns all faults in how a source verifies.
func CheckVerify(v *grapnel.Verify) []Fault {
	var f faults
	r := find(v.Scheme)
	if r == nil {
		var all []string
		for _, r := range rows {
			all = append(all, r.Name)
		}
		f.add("scheme", "is none of %s", strings.Join(all, ", "))
		return f
	}
	f.secrets(r, v.Secrets)
	f.unread(r, v)
	f.headers(r, v)
	if v.Tolerance != 0 && (v.Tolerance < MinTolerance || v.Tolerance > MaxTolerance) {
		f.add("tolerance", "is between %s and %s", MinTolerance, MaxTolerance)
	}
	if v.Scheme == "hmac" {
		f.custom(v)
	}
	if v.Scheme == "basic" && (v.Username == "" || strings.Contains(v.Username, ":")) {
		f.add("username", "is needed for basic authentication, and has no colon")
	}
	return f
}

func (f *faults) secrets(r *row, secrets []grapnel.Secret) {
	switch {
	case r.proof == byNothing:
		if len(secrets) > 0 {
			f.add("secret", "is not used by the scheme %s", r.Name)
		}
		return
	case len(secrets) == 0:
		if !r.mayWait() {
			f.add("secret", "is needed: %s", r.Needs)
		}
		return
	case len(secrets) > maxSecrets:
		f.add("secrets", "are at most %d", maxSecrets)
		return
	}
	for i, s := range secrets {
		if _, err := r.prepare(s); err != nil {
			field := "secret"
			if len(secrets) > 1 {
				field = fmt.Sprintf("secrets/%d", i)
			}
			f.add(field, "%s", err)
		}
	}
}

// unread finds settings that are set and have no effect, which the operator does not expect.
func (f *faults) unread(r *row, v *grapnel.Verify) {
	for _, s := range []struct {
		field string
		set   bool
	}{
		{"header", v.Header != ""}, {"algorithm", v.Algorithm != ""}, {"encoding", v.Encoding != ""}, {"prefix", v.Prefix != ""},
		{"signed", v.Signed != ""}, {"timestamp_header", v.TimestampHeader != ""}, {"id_header", v.IDHeader != ""},
		{"type_header", v.TypeHeader != ""}, {"username", v.Username != ""}, {"tolerance", v.Tolerance != 0 && !r.timed()},
	} {
		if s.set && !slices.Contains(r.Settings, s.field) {
			f.add(s.field, "is not used by the scheme %s", r.Name)
		}
	}
}

func (f *faults) headers(r *row, v *grapnel.Verify) {
	for _, h := range []struct{ field, name string }{
		{"header", v.Header}, {"timestamp_header", v.TimestampHeader}, {"id_header", v.IDHeader}, {"type_header", v.TypeHeader},
	} {
		if h.name != "" && slices.Contains(r.Settings, h.field) && !validHeader(h.name) {
			f.add(h.field, "is not the name of a header")
		}
	}
	if len(v.Prefix) > 64 || strings.ContainsFunc(v.Prefix, func(c rune) bool { return c < ' ' || c > '~' }) {
		f.add("prefix", "has at most 64 printable characters")
	}
}

// custom checks a scheme that the source describes itself.
func (f *faults) custom(v *grapnel.Verify) {
	if v.Header == "" {
		f.add("header", "is needed: where the signature is")
	}
	if v.Algorithm != "" && hashOf(v.Algorithm) == nil {
		f.add("algorithm", "is none of sha1, sha256, sha512")
	}
	if v.Encoding != "" && v.Encoding != "hex" && v.Encoding != "base64" {
		f.add("encoding", "is neither hex nor base64")
	}
	if v.Signed == "" {
		return
	}
	t, err := parseTemplate(v.Signed)
	switch {
	case len(v.Signed) > 256:
		f.add("signed", "has at most 256 characters")
	case err != nil:
		f.add("signed", "%s", err)
	case t.has(tokenField):
		f.add("signed", "{%s} is none of {%s}", tokenField, strings.Join(fieldsOfTemplates, "}, {"))
	case !t.has("body"):
		f.add("signed", "has no {body}: a body that is not signed can be changed by an attacker")
	case t.has("timestamp") && v.TimestampHeader == "":
		f.add("timestamp_header", "is needed: {timestamp} is part of the signed text")
	case t.has("id") && v.IDHeader == "":
		f.add("id_header", "is needed: {id} is part of the signed text")
	}
}

func validHeader(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c <= ' ' || c > '~' || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return textproto.CanonicalMIMEHeaderKey(name) != "Host" // which Go keeps elsewhere
}

// CheckSource returns the faults of a source: of its verification, its deduplication and its
// expressions.
func CheckSource(s *grapnel.Source) []Fault {
	var f faults
	for _, fault := range CheckVerify(&s.Verify) {
		f.add("verify/"+fault.Field, "%s", fault.Detail)
	}
	// An existing source with this fault keeps working; it only cannot be saved again.
	if v := &s.Verify; v.Scheme == "hmac" && v.TimestampHeader != "" && !strings.Contains(v.Signed, "{timestamp}") {
		f.add("verify/timestamp_header", "has no effect without {timestamp} in signed: an old signature would pass with a new time")
	}
	f.dedupe(&s.Dedupe, find(s.Verify.Scheme))
	for _, e := range []struct {
		field, text string
		check       func(string) error
	}{{"type", s.Type, match.CheckExpression}, {"key", s.Key, match.CheckExpression}, {"event_id", s.EventID, match.CheckID}} {
		if e.text == "" {
			continue
		}
		if err := e.check(e.text); err != nil {
			f.add(e.field, "%s", err)
		}
	}
	if s.OnUnverified != "" && s.OnUnverified != grapnel.RejectUnverified && s.OnUnverified != grapnel.Quarantine {
		f.add("on_unverified", "is neither %s nor %s", grapnel.RejectUnverified, grapnel.Quarantine)
	}
	if s.OnUnverified == grapnel.Quarantine && s.Verify.Scheme == "discord" {
		f.add("on_unverified", "is reject for Discord, which sometimes sends wrong signatures and drops addresses that do not answer 401")
	}
	if s.PublicURL != "" {
		u, err := url.Parse(s.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "" || u.User != nil {
			f.add("public_url", "is not an address that starts with https:// or http://")
		}
	}
	// not "<", which a NaN is not
	if l := s.RateLimit; l != nil && (!(l.PerSecond >= grapnel.MinPerSecond) || l.Burst < 0) {
		f.add("rate_limit", "is at least %v a second, and its burst is not negative", grapnel.MinPerSecond)
	}
	if s.MaxBody < 0 {
		f.add("max_body", "is not negative")
	}
	return f
}

func (f *faults) dedupe(d *grapnel.Dedupe, r *row) {
	for i, by := range d.By {
		if by != grapnel.ByEventID && by != grapnel.ByDeliveryID && by != grapnel.ByContent {
			f.add(fmt.Sprintf("dedupe/by/%d", i), "is none of %s, %s, %s", grapnel.ByEventID, grapnel.ByDeliveryID, grapnel.ByContent)
		} else if slices.Index(d.By, by) != i {
			f.add(fmt.Sprintf("dedupe/by/%d", i), "is there twice")
		}
	}
	if d.Window != 0 {
		switch least := leastWindow(r); {
		case d.Window < MinDedupeWindow || d.Window > MaxDedupeWindow:
			f.add("dedupe/window", "is between %s and %s", MinDedupeWindow, MaxDedupeWindow)
		case len(d.By) > 0 && d.Window < least:
			f.add("dedupe/window", "is shorter than %s: %s retries for %s, and a request after the window counts as new",
				least, r.Title, r.RetriesFor)
		}
	}
	if len(d.Ignore) > maxIgnored {
		f.add("dedupe/ignore", "has at most %d paths", maxIgnored)
		return
	}
	for i, path := range d.Ignore {
		if _, err := parsePath(path); err != nil {
			f.add(fmt.Sprintf("dedupe/ignore/%d", i), "%s", err)
		}
	}
}

// leastWindow is the shortest allowed deduplication window: a quarter longer than the provider
// retries, because attempts take time and clocks differ.
func leastWindow(r *row) time.Duration {
	if r == nil {
		return 0
	}
	return r.RetriesFor + r.RetriesFor/4
}
