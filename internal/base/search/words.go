package search

import (
	"slices"
	"strings"
	"unicode"
)

// Token is a word of a search; Name is empty for text.
type Token struct{ Name, Value string }

// Tokens splits a search at spaces outside quotation marks. A name counts only before an unquoted
// colon, so that "status:failed" in quotation marks is text. A colon before a slash ends no name,
// so that an address is text too.
func Tokens(text string) (all []Token) {
	var word strings.Builder
	name, quoted, inside := "", false, false
	end := func() {
		if word.Len() > 0 || name != "" {
			all = append(all, Token{name, word.String()})
		}
		word.Reset()
		name, quoted = "", false
	}
	for i, c := range text {
		switch {
		case c == '"':
			inside, quoted = !inside, true
		case c == ' ' && !inside:
			end()
		case c == ':' && !inside && !quoted && name == "" && isName(word.String(), text[i+1:]):
			name = word.String()
			word.Reset()
		default:
			word.WriteRune(c)
		}
	}
	end()
	return all
}

// longestName is longer than any name, and shorter than most text before a colon.
const longestName = 16

func isName(word, rest string) bool {
	if slices.Contains(Names, word) {
		return true
	}
	letters := strings.IndexFunc(word, func(r rune) bool { return r != '_' && !unicode.IsLower(r) }) < 0
	return letters && len(word) > 1 && len(word) <= longestName && !strings.HasPrefix(rest, "/")
}

// String writes the word as it would be typed.
func (t Token) String() string {
	value := strings.ReplaceAll(t.Value, `"`, "")
	if strings.ContainsAny(value, ` :`) && t.Name == "" || strings.Contains(value, " ") || strings.HasPrefix(value, "/") {
		value = `"` + value + `"`
	}
	if t.Name == "" {
		return value
	}
	return t.Name + ":" + value
}

// With is a search with one condition in the place of those of the same name, and without the
// conditions that drop names. An empty value only removes.
func With(text, name, value string, drop ...string) string {
	var words []string
	for _, t := range Tokens(text) {
		if t.Name == "" || t.Name != name && !slices.Contains(drop, t.Name) {
			words = append(words, t.String())
		}
	}
	if value != "" {
		words = append(words, Token{name, value}.String())
	}
	return strings.Join(words, " ")
}

// Named is a thing that has an id and a name.
type Named struct{ ID, Name string }

const mostNamed = 3 // things that a fault lists

// One finds the id of a thing by typed text: an id, a whole name, or a part of one name only.
// Letters may be small or capital. says is the fault, if there is not exactly one.
func One(kind, typed string, all []Named) (id, says string) {
	var part []Named
	lower := strings.ToLower(typed)
	for _, n := range all {
		switch name := strings.ToLower(n.Name); {
		case n.ID == typed:
			return n.ID, ""
		case name == lower:
			part = append([]Named{n}, part...)
		case strings.Contains(name, lower):
			part = append(part, n)
		}
	}
	whole := slices.IndexFunc(part, func(n Named) bool { return !strings.EqualFold(n.Name, typed) })
	switch {
	case len(part) == 1 || whole == 1:
		return part[0].ID, ""
	case len(part) == 0:
		return "", "no " + kind + " has this id or name"
	}
	var names []string
	for _, n := range part[:min(len(part), mostNamed)] {
		names = append(names, n.ID+" ("+n.Name+")")
	}
	return "", "several " + kind + "s have this name; use the id: " + strings.Join(names, ", ")
}

// Names can stand before a colon, in the order of the help.
var Names = []string{"status", "endpoint", "source", "type", "key", "code", "error", "reason", "took", "replayed", "attempts", "tenant", "since", "from", "to"}
