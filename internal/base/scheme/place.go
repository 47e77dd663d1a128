package scheme

import (
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
)

const (
	inHeader where = iota
	inBody
	inForm
	inPayload // JSON in the field payload of a form
)

func header(name string) Place {
	return Place{in: inHeader, name: textproto.CanonicalMIMEHeaderKey(name)}
}
func body(path string) Place    { return Place{in: inBody, name: path} }
func field(name string) Place   { return Place{in: inForm, name: name} }
func payload(path string) Place { return Place{in: inPayload, name: path} }
func (p Place) given(path string) Place {
	p.with = path
	return p
}

// String names the place for people.
func (p Place) String() string {
	switch p.in {
	case inHeader:
		return "header " + p.name
	case inForm:
		return "form field " + p.name
	case inPayload:
		return "$." + p.name + " of the form field payload"
	default:
		return "$." + p.name
	}
}

func names(places []Place) string {
	var all []string
	for _, p := range places {
		all = append(all, p.String())
	}
	return strings.Join(all, ", else ")
}

// Find returns the value at the first place that has one.
func (in *Request) Find(places []Place) string {
	for _, p := range places {
		if text := in.at(p); text != "" && len(text) <= in.v.Longest {
			return text
		}
	}
	return ""
}

func (in *Request) at(p Place) string {
	switch p.in {
	case inHeader:
		// of two values it is unknown which one counts
		if values := in.header[p.name]; len(values) == 1 {
			return values[0]
		}
		return ""
	case inForm:
		return in.form().Get(p.name)
	case inPayload:
		text := []byte(in.form().Get("payload"))
		if !new(canonical.Ignored).Read(text).JSON {
			return ""
		}
		return canonical.Get(text, p.name).Scalar()
	default:
		if !in.Document().JSON || p.with != "" && !canonical.Get(in.body, p.with).Exists() {
			return ""
		}
		return canonical.Get(in.body, p.name).Scalar()
	}
}

// form is the body read as a form; empty if it is none.
func (in *Request) form() url.Values {
	if in.fields != nil {
		return in.fields
	}
	in.fields = url.Values{}
	if media, err := in.v.Media(in.header.Get("Content-Type")); err == nil && media == "application/x-www-form-urlencoded" {
		if values, err := url.ParseQuery(string(in.body)); err == nil {
			in.fields = values
		}
	}
	return in.fields
}

// single returns the only value of a header; else wrong says the fault. Two values are refused,
// because receivers differ in the one they use.
func single(h http.Header, name string) (value, wrong string) {
	values := h[name]
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", "header " + name + isMissing
	case len(values) > 1:
		return "", "header " + name + " is there more than once"
	}
	return values[0], ""
}

// Media parses a Content-Type. A provider nearly always sends the same one, so the last one is
// cached.
func (v *Verifier) Media(text string) (kind string, err error) {
	if last := v.last.Load(); last != nil && last.text == text {
		return last.kind, last.err
	}
	kind, _, err = mime.ParseMediaType(text)
	// a clone, because text is part of a larger string
	v.last.Store(&media{strings.Clone(text), kind, err})
	return kind, err
}
