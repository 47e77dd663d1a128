package web

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// span is a part of a body with its class; empty: plain.
type span struct{ Class, Text string }

// colouredBytes bounds the bodies that are shown in colours; a longer one would make the page
// large.
const colouredBytes = 4 << 10

// readable is a body for people: JSON is indented, with its numbers and the order of its keys as
// they came; any other body stays as it is. A long one is cut, and says so.
func (v *visit) readable(body []byte) []span {
	var b bytes.Buffer
	if json.Indent(&b, body, "", "  ") == nil {
		body = b.Bytes()
		if len(body) <= colouredBytes {
			return coloured(string(body))
		}
	}
	most := v.web.Bounds.Body
	if len(body) <= most {
		return []span{{"", string(body)}}
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(body[cut]) {
		cut--
	}
	return []span{{"", string(body[:cut])}, {"k", "\n… " + many(len(body)-cut, "byte more", "bytes more")}}
}

// coloured takes valid JSON apart: names are soft, texts are coloured, the rest is plain.
func coloured(text string) (all []span) {
	plain := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		end := i + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end+1, len(text))
		class := "s"
		if strings.HasPrefix(text[end:], ":") {
			class = "k"
		}
		if i > plain {
			all = append(all, span{"", text[plain:i]})
		}
		all = append(all, span{class, text[i:end]})
		i, plain = end-1, end
	}
	if plain < len(text) {
		all = append(all, span{"", text[plain:]})
	}
	return all
}

// jsonText is a text as JSON.
func jsonText(text string) string {
	out, err := json.Marshal(text)
	if err != nil { // a string always can
		return `""`
	}
	return string(out)
}
