package search

import (
	"slices"
	"strings"
	"unicode"
)

// Word is a word that names are searched for, in small letters.
type Word string

// NewWord makes a word of typed text: letters may be small or capital.
func NewWord(typed string) Word { return Word(strings.ToLower(strings.TrimSpace(typed))) }

// In says whether a thing matches: a text of it contains the word, or its id begins with it. The
// empty word matches everything.
func (w Word) In(id string, texts ...string) bool {
	return w.begins(id) || slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), string(w)) })
}

func (w Word) begins(id string) bool {
	return len(id) >= len(w) && strings.EqualFold(id[:len(w)], string(w))
}

// Ranks of names, the best first.
const (
	Exact    = iota // the name or the id itself
	Whole           // a whole word of the name
	Begins          // the name begins with the word
	Contains        // the name, or the beginning of the id
	Differs         // none of these
)

// Rank says how well a name matches.
func (w Word) Rank(id, name string) int {
	lower := strings.ToLower(name)
	switch {
	case !strings.Contains(lower, string(w)) && !w.begins(id):
		return Differs
	case lower == string(w) || strings.EqualFold(id, string(w)):
		return Exact
	case slices.Contains(strings.FieldsFunc(lower, apart), string(w)):
		return Whole
	case strings.HasPrefix(lower, string(w)):
		return Begins
	}
	return Contains
}

// apart says whether a character stands between the words of a name.
func apart(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != '.'
}
