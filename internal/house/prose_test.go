package main

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestWarningsSayWhatIsWrong: a warning has the place, the words, and the remedy.
func TestWarningsSayWhatIsWrong(t *testing.T) {
	text := "package x\n\n// f is for whoever calls.\nfunc f() {}\n\n// g reads what is there.\nfunc g() {}\n\n// " + strings.Repeat("long ", 20) + "\n"
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	s := source{path: "x.go", file: file, text: []byte(text)}
	got := slices.Concat(named(s), narrow(s), plain("x.md", "They are for everybody.\n"), wide("x.md", strings.Repeat("w", 121)))
	want := []string{
		`x.go: "whoever" in the comment "f is for whoever calls.": name the actor: an operator, a consumer, another node`,
		`x.go: "what is" in the comment "g reads what is there.": name the thing that the clause describes`,
		`x.go:9 has 103 columns; the limit is 100`,
		`x.md:1: "everybody": name the actor: an operator, a consumer, another node`,
		`x.md:1 has 121 columns; wrap it at 120`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
