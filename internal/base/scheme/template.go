package scheme

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// fieldsOfTemplates are the fields that a source may name. Rows may also name {token}, which only
// one provider has.
var fieldsOfTemplates = []string{"body", "timestamp", "id", "url", "method", "path"}

// parseTemplate parses a template of the signed text.
func parseTemplate(text string) (template, error) {
	var t template
	for text != "" {
		open := strings.IndexByte(text, '{')
		if open < 0 {
			open = len(text)
		}
		if open > 0 {
			t = append(t, part{literal: text[:open]})
			text = text[open:]
			continue
		}
		name, rest, closed := strings.Cut(text[1:], "}")
		if !closed {
			return nil, fmt.Errorf("a brace is not closed")
		}
		if name != tokenField && !slices.Contains(fieldsOfTemplates, name) {
			return nil, fmt.Errorf("{%.20s} is none of {%s}", name, strings.Join(fieldsOfTemplates, "}, {"))
		}
		t = append(t, part{field: name})
		text = rest
	}
	return t, nil
}

const tokenField = "token"

// has says whether a field is part of the signed text.
func (t template) has(field string) bool {
	return slices.ContainsFunc(t, func(p part) bool { return p.field == field })
}

// signed has the values of fields in one request.
type signed struct{ timestamp, id, token, url string }

// write writes the signed text.
func (t template) write(w io.Writer, in *Request, s signed) {
	for _, p := range t {
		switch p.field {
		case "":
			_, _ = io.WriteString(w, p.literal) // hashes and buffers never fail
		case "body":
			_, _ = w.Write(in.body)
		case "timestamp":
			_, _ = io.WriteString(w, s.timestamp)
		case "id":
			_, _ = io.WriteString(w, s.id)
		case tokenField:
			_, _ = io.WriteString(w, s.token)
		case "url":
			_, _ = io.WriteString(w, s.url)
		case "method":
			_, _ = io.WriteString(w, in.r.Method)
		case "path":
			_, _ = io.WriteString(w, in.r.URL.RequestURI())
		}
	}
}
