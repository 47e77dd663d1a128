package byhand

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// largestUnpacked bounds what a packed body may become.
const largestUnpacked = 16 << 20

// changes are what proxies and frameworks do to bodies, and how to undo it. nil: it was not done.
var changes = []struct {
	detail string
	undo   func([]byte) []byte
}{
	{"the body that was signed ends with a line break: it was cut off", func(b []byte) []byte {
		return append(bytes.Clone(b), '\n')
	}},
	{"the body that was signed ends with CR and LF: they were cut off", func(b []byte) []byte { return append(bytes.Clone(b), "\r\n"...) }},
	{"the body has white space at its end or beginning that was not signed", bytes.TrimSpace},
	{"the body's line breaks are CR LF, and LF was signed", func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	}},
	{"the body's line breaks are LF, and CR LF was signed", func(b []byte) []byte {
		return bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	}},
	{"the body begins with a byte order mark that was not signed", func(b []byte) []byte {
		return bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	}},
	{"the body that was signed begins with a byte order mark: it was removed", func(b []byte) []byte {
		return append([]byte("\xef\xbb\xbf"), b...)
	}},
	{"the body was read as Latin-1 and written as UTF-8", toLatin1},
	{"the body was written in Latin-1, and UTF-8 was signed", fromLatin1},
	{"the body is in quotes: it was put into JSON as a text", func(b []byte) []byte {
		var text string
		if json.Unmarshal(b, &text) != nil {
			return nil
		}
		return []byte(text)
	}},
	{"the body is in base64, as gateways write it", func(b []byte) []byte {
		raw, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(string(b))) // else it is none
		return raw
	}},
	{"the body is compressed, and the plain one was signed", func(b []byte) []byte {
		packed, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil
		}
		raw, _ := io.ReadAll(io.LimitReader(packed, largestUnpacked)) // else it is cut off
		return raw
	}},
}

// layouts are how serialisers lay JSON out.
var layouts = []struct {
	said  string
	apply func([]byte) []byte
}{
	{"without spaces", compact},
	{"with lines and 2 spaces", func(b []byte) []byte { return indented(b, "  ") }},
	{"with lines and 4 spaces", func(b []byte) []byte { return indented(b, "    ") }},
	{"with lines and tabs", func(b []byte) []byte { return indented(b, "\t") }},
	{"with a space after , and :", func(b []byte) []byte { return outsideTexts(compact(b), ",", ", ", ":", ": ") }},
	{"as it is", bytes.Clone},
}

// escapes are how serialisers write characters.
var escapes = []struct {
	said  string
	apply func([]byte) []byte
}{
	{"", bytes.Clone},
	{" and characters as \\u…", ascii},
	{" and characters as they are", unicoded},
	{" and < > & as \\u…", func(b []byte) []byte {
		return []byte(strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(string(b)))
	}},
	{" and / as \\/", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("/"), []byte(`\/`)) }},
	{" and / as \\/, characters as \\u…", func(b []byte) []byte { return bytes.ReplaceAll(ascii(b), []byte("/"), []byte(`\/`)) }},
	{" and / as it is", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`\/`), []byte("/")) }},
}

// bodies undoes changes of the body.
func bodies(a attempt) (all []attempt) {
	seen := map[string]bool{string(a.request.Body): true}
	try := func(body []byte, detail string) {
		if len(body) == 0 || seen[string(body)] {
			return
		}
		seen[string(body)] = true
		one := a.with("body", detail, rawBytes)
		one.request.Body = body
		all = append(all, one)
	}
	for _, c := range changes {
		try(c.undo(a.request.Body), c.detail)
	}
	if !json.Valid(a.request.Body) {
		return all
	}
	for _, end := range []string{"", "\n"} {
		for _, l := range layouts {
			for _, e := range escapes {
				said := fmt.Sprintf("the body was parsed and written again; signed was JSON %s%s", l.said, e.said)
				if end != "" {
					said += ", with a line break at its end"
				}
				try(append(e.apply(l.apply(a.request.Body)), end...), said)
			}
		}
	}
	return all
}

func compact(body []byte) []byte {
	var into bytes.Buffer
	_ = json.Compact(&into, body) // it is JSON
	return into.Bytes()
}

func indented(body []byte, by string) []byte {
	var into bytes.Buffer
	_ = json.Indent(&into, body, "", by) // bodies has checked it
	return into.Bytes()
}

// texts are those of JSON.
var texts = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// outsideTexts replaces characters that are not in texts.
func outsideTexts(body []byte, pairs ...string) []byte {
	replacer, at := strings.NewReplacer(pairs...), 0
	var into strings.Builder
	for _, where := range texts.FindAllIndex(body, -1) {
		into.WriteString(replacer.Replace(string(body[at:where[0]])))
		into.Write(body[where[0]:where[1]])
		at = where[1]
	}
	into.WriteString(replacer.Replace(string(body[at:])))
	return []byte(into.String())
}

// ascii writes characters outside of ASCII as \u….
func ascii(body []byte) []byte {
	var into []byte
	for _, c := range string(body) {
		if c < utf8.RuneSelf {
			into = append(into, byte(c))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, c) {
			into = fmt.Appendf(into, `\u%04x`, unit)
		}
	}
	return into
}

// escaped are characters that are written as \u…, of a pair both.
var escaped = regexp.MustCompile(`\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}`)

// unicoded writes them as they are, where JSON allows that.
func unicoded(body []byte) []byte {
	return escaped.ReplaceAllFunc(body, func(found []byte) []byte {
		var text string
		_ = json.Unmarshal([]byte(`"`+string(found)+`"`), &text) // the pattern has checked it
		if text < " " || text == `"` || text == `\` {
			return found
		}
		return []byte(text)
	})
}

func toLatin1(body []byte) []byte {
	var into []byte
	for _, c := range string(body) {
		if c > 0xff {
			return nil
		}
		into = append(into, byte(c))
	}
	return into
}

func fromLatin1(body []byte) []byte {
	var into []byte
	for _, c := range body {
		into = utf8.AppendRune(into, rune(c))
	}
	return into
}

// undoings are the faults that can be undone, by kinds. An undoing returns an attempt for each form
// of the fault.
var undoings = []func(attempt) []attempt{headers, encodings, keys, bodies, addresses, contents}
