package scheme

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"time"
)

// Fault is an error in settings. Field is its place with the names of the API: "secret",
// "tolerance".
type Fault struct{ Field, Detail string }

// Limits of the tolerance.
const (
	MinTolerance = time.Second
	MaxTolerance = 24 * time.Hour
)

// Faults gathers them.
type Faults []Fault

// Add adds a fault, whose detail is written as by fmt.Sprintf.
func (f *Faults) Add(field, format string, args ...any) {
	*f = append(*f, Fault{field, fmt.Sprintf(format, args...)})
}

// Faults returns all faults in the settings.
func (s *Settings) Faults() []Fault {
	var f Faults
	r := Find(s.Scheme)
	if r == nil {
		var all []string
		for _, r := range rows {
			all = append(all, r.Name)
		}
		f.Add("scheme", "is none of %s", strings.Join(all, ", "))
		return f
	}
	f.secrets(r, s.Secrets)
	f.unread(r, s)
	f.headers(r, s)
	if s.Tolerance != 0 && (s.Tolerance < MinTolerance || s.Tolerance > MaxTolerance) {
		f.Add("tolerance", "is between %s and %s", MinTolerance, MaxTolerance)
	}
	if s.Scheme == "hmac" {
		f.custom(s)
	}
	if s.Scheme == "basic" && (s.Username == "" || strings.Contains(s.Username, ":")) {
		f.Add("username", "is needed for basic authentication, and has no colon")
	}
	return f
}

func (f *Faults) secrets(r *Row, secrets []Secret) {
	switch {
	case r.Proof == ByNothing:
		if len(secrets) > 0 {
			f.Add("secret", "is not used by the scheme %s", r.Name)
		}
		return
	case len(secrets) == 0:
		if !r.MayWait() {
			f.Add("secret", "is needed: %s", r.Needs)
		}
		return
	case len(secrets) > maxSecrets:
		f.Add("secrets", "are at most %d", maxSecrets)
		return
	}
	for i, s := range secrets {
		if _, err := r.prepare(s); err != nil {
			field := "secret"
			if len(secrets) > 1 {
				field = fmt.Sprintf("secrets/%d", i)
			}
			f.Add(field, "%s", err)
		}
	}
}

// unread finds settings that are set and have no effect, which the operator does not expect.
func (f *Faults) unread(r *Row, v *Settings) {
	for _, s := range []struct {
		field string
		set   bool
	}{
		{"header", v.Header != ""}, {"algorithm", v.Algorithm != ""}, {"encoding", v.Encoding != ""}, {"prefix", v.Prefix != ""},
		{"signed", v.Signed != ""}, {"timestamp_header", v.TimestampHeader != ""}, {"id_header", v.IDHeader != ""},
		{"type_header", v.TypeHeader != ""}, {"username", v.Username != ""}, {"tolerance", v.Tolerance != 0 && !r.timed()},
	} {
		if s.set && !slices.Contains(r.Settings, s.field) {
			f.Add(s.field, "is not used by the scheme %s", r.Name)
		}
	}
}

func (f *Faults) headers(r *Row, v *Settings) {
	for _, h := range []struct{ field, name string }{
		{"header", v.Header}, {"timestamp_header", v.TimestampHeader}, {"id_header", v.IDHeader}, {"type_header", v.TypeHeader},
	} {
		if h.name != "" && slices.Contains(r.Settings, h.field) && !ValidHeader(h.name) {
			f.Add(h.field, "is not the name of a header")
		}
	}
	if len(v.Prefix) > 64 || strings.ContainsFunc(v.Prefix, func(c rune) bool { return c < ' ' || c > '~' }) {
		f.Add("prefix", "has at most 64 printable characters")
	}
}

// custom checks a scheme that the source describes itself.
func (f *Faults) custom(v *Settings) {
	if v.Header == "" {
		f.Add("header", "is needed: where the signature is")
	}
	if v.Algorithm != "" && hashOf(v.Algorithm) == nil {
		f.Add("algorithm", "is none of sha1, sha256, sha512")
	}
	if v.Encoding != "" && v.Encoding != "hex" && v.Encoding != "base64" {
		f.Add("encoding", "is neither hex nor base64")
	}
	if v.Signed == "" {
		return
	}
	t, err := parseTemplate(v.Signed)
	switch {
	case len(v.Signed) > 256:
		f.Add("signed", "has at most 256 characters")
	case err != nil:
		f.Add("signed", "%s", err)
	case t.has(tokenField):
		f.Add("signed", "{%s} is none of {%s}", tokenField, strings.Join(fieldsOfTemplates, "}, {"))
	case !t.has("body"):
		f.Add("signed", "has no {body}: a body that is not signed can be changed by an attacker")
	case t.has("timestamp") && v.TimestampHeader == "":
		f.Add("timestamp_header", "is needed: {timestamp} is part of the signed text")
	case t.has("id") && v.IDHeader == "":
		f.Add("id_header", "is needed: {id} is part of the signed text")
	}
}

// ValidHeader says whether a header may have the name.
func ValidHeader(name string) bool {
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
