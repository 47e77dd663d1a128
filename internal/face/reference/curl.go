package reference

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// Curl is the operation's example as a command for a server. The key is a variable of the shell:
// no page has a key in it.
func (o *Operation) Curl(server string) string {
	target := server + o.target(o.values)
	var b strings.Builder
	b.WriteString("curl ")
	if o.Method != http.MethodGet {
		b.WriteString("-X " + o.Method + " ")
	}
	b.WriteString(quoted(target))
	if o.Scope != "" {
		b.WriteString(" \\\n  -H \"Authorization: Bearer $GRAPNEL_KEY\"")
	}
	if o.Request != "" {
		b.WriteString(" \\\n  -H 'Content-Type: application/json' \\\n  -d " + quoted(o.Request))
	}
	return b.String()
}

// quoted makes one word for a shell out of any text.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Target is the path and query of a request to the operation, with these values for its
// parameters. Others, and empty ones, are left out; false: one that is needed is missing.
func (o *Operation) Target(given url.Values) (string, bool) {
	values := map[string]string{}
	for _, f := range o.Fields {
		value := given.Get(f.Name)
		if f.Required && f.In != "header" && value == "" {
			return "", false
		}
		values[f.Name] = value
	}
	return o.target(values), true
}

func (o *Operation) target(values map[string]string) string {
	path, query := o.Path, url.Values{}
	for _, f := range o.Fields {
		switch value := values[f.Name]; {
		case f.In == "path":
			path = strings.ReplaceAll(path, "{"+f.Name+"}", url.PathEscape(value))
		case f.In == "query" && value != "":
			query.Set(f.Name, value)
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// readable is an example as people read it: indented JSON, or a text as it is.
func readable(example json.RawMessage) string {
	var text string
	if len(example) == 0 || json.Unmarshal(example, &text) == nil {
		return strings.TrimSpace(text)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(example); err != nil {
		return string(example)
	}
	return strings.TrimSpace(b.String())
}
