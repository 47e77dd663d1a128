package main

import (
	"bytes"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// TestTheWalkCanBeFollowed holds docs/architecture/walk.md against the code: every file of a step
// exists and declares the step's function, and the word to follow is in this declaration and in the
// next one of the table. So a reader who stands in one function finds the next by that word,
// without going back.
func TestTheWalkCanBeFollowed(t *testing.T) {
	t.Chdir(root)
	const page = "docs/architecture/walk.md"
	text := read(t, page)
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]source{}
	for _, s := range all {
		of[s.path] = s
	}
	walks, steps := 0, 0
	for part := range strings.SplitSeq(text, "\n## ") {
		title, _, _ := strings.Cut(part, "\n")
		rows := rowsOf(part, "file")
		if len(rows) > 0 {
			walks++
		}
		var before, word, place string
		for _, cells := range rows {
			steps++
			file, name := "internal/"+strings.Trim(cells[0], "`"), strings.Trim(cells[1], "`")
			s, there := of[file]
			if !there {
				t.Errorf("%s: %s: there is no file %s", page, title, file)
				continue
			}
			now := declaration(s, name)
			if now == "" {
				t.Errorf("%s: %s: %s does not declare %s", page, title, file, name)
			}
			if word != "" && now != "" && before != "" && (!hasWord(before, word) || !hasWord(now, word)) {
				t.Errorf("%s: %s: %q leads from %s to %s; it has to be in both (%t, %t)", page, title, word, place, name,
					hasWord(before, word), hasWord(now, word))
			}
			before, word, place = now, strings.Trim(cells[3], "`"), name
			for _, m := range quoted.FindAllStringSubmatch(linkedTo.ReplaceAllString(cells[2], ""), -1) {
				last := lastPart(m[1])
				if identifier.MatchString(m[1]) && !hasWord(now, last) && !declares(s.dir, last+"."+last) {
					t.Errorf("%s: %s: %s says %s, which neither the function nor its package has", page, title, name, m[1])
				}
			}
		}
	}
	if walks < 4 || steps < 70 {
		t.Errorf("the page has %d walks with %d steps", walks, steps)
	}
}

var identifier = regexp.MustCompile(`^[\w.]+$`)

// declaration is the source text of a function with its comment; the name of a method begins with
// its receiver's type. Empty: there is none.
func declaration(s source, name string) string {
	receiver, method, is := strings.Cut(name, ".")
	if !is {
		receiver, method = "", name
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != method || receiverOf(f) != receiver {
			continue
		}
		from := f.Pos()
		if f.Doc != nil {
			from = f.Doc.Pos()
		}
		return string(bytes.TrimSpace(s.text[from-s.file.FileStart : f.End()-s.file.FileStart]))
	}
	return ""
}

// receiverOf is the name of a method's type; empty: it is a function.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if pointer, is := of.(*ast.StarExpr); is {
		of = pointer.X
	}
	if name, is := of.(*ast.Ident); is {
		return name.Name
	}
	return ""
}

func hasWord(text, word string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(text)
}

// lastPart is Step of Core.Step.
func lastPart(name string) string { return name[strings.LastIndex(name, ".")+1:] }
