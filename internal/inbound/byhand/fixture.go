// Package byhand is for webhooks by hand: it makes requests that look like those of providers,
// reads requests from files, and finds out why a request does not verify.
//
// Its guarantees:
//
//   - Fixtures are data: a file for each provider, with types, headers and bodies. Ids and times
//     are new in each request; a value that a body repeats is the same at each of its places.
//   - An override changes a value that is there and keeps its JSON type; any other is an error.
//   - Whether a request verifies is asked of package scheme alone, whatever was changed in it.
//
// It does not promise that a fixture has every field that its provider sends.
package byhand

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

//go:embed fixtures/*.json
var files embed.FS

// Fixture is a request of one type, as a template.
type Fixture struct {
	Type    string            `json:"type"`
	About   string            `json:"about"`
	Names   map[string]any    `json:"names"` // values that occur several times
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	Form    json.RawMessage   `json:"form"` // fields in the order of the provider

	indent bool
}

// provider is a file of fixtures: what its types have in common, and the types.
type provider struct {
	Schemes       []string                     `json:"schemes"`
	Names         map[string]any               `json:"names"`
	Headers       map[string]string            `json:"headers"`
	SchemeHeaders map[string]map[string]string `json:"scheme_headers"`
	Indent        bool                         `json:"indent"` // the provider's JSON has lines
	Types         []Fixture                    `json:"types"`
}

// all are the fixtures of each scheme.
var all = sync.OnceValues(func() (map[string][]Fixture, error) {
	of := map[string][]Fixture{}
	entries, err := files.ReadDir("fixtures")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		text, err := files.ReadFile("fixtures/" + entry.Name())
		if err != nil {
			return nil, err
		}
		var p provider
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		d.UseNumber()
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("fixtures/%s: %w", entry.Name(), err)
		}
		for _, name := range p.Schemes {
			for _, f := range p.Types {
				f.indent, f.Names = p.Indent, merged(p.Names, f.Names)
				f.Headers = merged(p.Headers, p.SchemeHeaders[name], f.Headers)
				of[name] = append(of[name], f)
			}
		}
	}
	return of, nil
})

// merged are the entries of several maps; later ones win.
func merged[V any](all ...map[string]V) map[string]V {
	into := map[string]V{}
	for _, m := range all {
		maps.Copy(into, m)
	}
	return into
}

// Fixtures are those of a scheme.
func Fixtures(name string) ([]Fixture, error) {
	of, err := all()
	return of[name], err
}

// Request makes a request of a fixture, for an address.
func (f *Fixture) Request(to string, now time.Time, random io.Reader, overrides []Override) (*scheme.Webhook, error) {
	body := cmp.Or(string(f.Body), string(f.Form))
	r := rendering{now: now, random: random, names: merged(f.Names, map[string]any{"type": f.Type}), values: map[string]string{}}
	for _, o := range overrides {
		changed, err := r.override(body, o)
		if err != nil {
			return nil, err
		}
		body = changed
	}
	made := &scheme.Webhook{Method: http.MethodPost, URL: to, Header: http.Header{}}
	for name, value := range f.Headers {
		made.Header.Set(name, r.expand(value, plain))
	}
	var text bytes.Buffer
	whole := []byte(r.expand(body, inJSON))
	if f.Form != nil {
		made.Body = form(whole)
		made.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return made, r.err
	}
	err := json.Compact(&text, whole)
	if f.indent {
		text.Reset()
		err = json.Indent(&text, whole, "", "  ")
	}
	made.Body = text.Bytes()
	return made, cmp.Or(r.err, err)
}

// form encodes the members of an object as a form, in their order. A value that is no text is JSON.
func form(object []byte) []byte {
	var pairs []string
	for name, value := range canonical.Root(object).Members() {
		text, is := value.Text()
		if !is {
			text = string(compact(value.Raw))
		}
		pairs = append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(text))
	}
	return []byte(strings.Join(pairs, "&"))
}

// expand fills in a text. escape is for values of references.
func (r *rendering) expand(text string, escape func(string) string) string {
	return filled.ReplaceAllStringFunc(text, func(found string) string {
		switch parts := filled.FindStringSubmatch(found); {
		case parts[1] != "":
			return r.expand(parts[1], plain)
		case parts[2] != "":
			return escape(r.value(parts[2], parts[3]))
		default:
			n, _ := strconv.Atoi(parts[5]) // digits; none: a UUID
			return r.fresh(parts[4][0], n)
		}
	})
}

func plain(text string) string { return text }

// inJSON is a text as it is between the quotes of JSON.
func inJSON(text string) string {
	quoted, _ := json.Marshal(text) // texts cannot fail
	return string(quoted[1 : len(quoted)-1])
}

// value is that of a name, or a time, which offset moves by seconds.
func (r *rendering) value(name, offset string) string {
	seconds, _ := strconv.Atoi(offset) // digits, or none
	at := r.now.Add(time.Duration(seconds) * time.Second).UTC()
	switch name {
	case "unix":
		return strconv.FormatInt(at.Unix(), 10)
	case "millis":
		return strconv.FormatInt(at.UnixMilli(), 10)
	case "rfc3339":
		return at.Format(time.RFC3339)
	}
	if known, is := r.values[name]; is {
		return known
	}
	raw, is := r.names[name]
	if !is {
		r.err = cmp.Or(r.err, fmt.Errorf("the fixture has no name %s", name))
	}
	r.values[name] = r.expand(fmt.Sprint(raw), plain)
	return r.values[name]
}

// alphabets are the characters of new ids. Those of b and B are in order of time in real ids.
var alphabets = map[byte]string{
	'a': "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", 'A': "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
	'b': "0123456789abcdefghjkmnpqrstvwxyz", 'B': "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 'd': "0123456789", 'h': "0123456789abcdef",
	'H': "0123456789ABCDEF",
}

// fresh is a new text of n characters of a kind, or for u a UUID.
func (r *rendering) fresh(kind byte, n int) string {
	raw := make([]byte, max(n, 16))
	if _, err := io.ReadFull(r.random, raw); err != nil {
		r.err = cmp.Or(r.err, err)
	}
	if kind == 'u' {
		raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
		return fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:16])
	}
	letters := alphabets[kind]
	for i := range raw {
		raw[i] = letters[int(raw[i])%len(letters)]
	}
	if kind == 'd' && raw[0] == '0' { // it may be a number
		raw[0] = '1'
	}
	return string(raw[:n])
}
