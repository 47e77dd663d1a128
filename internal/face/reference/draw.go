package reference

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"regexp"
	"strings"
	textual "text/template"
)

//go:embed page.html
var pageSource string

//go:embed page.md
var markdownSource string

var (
	pages     = template.Must(template.New("page").Funcs(template.FuncMap{"text": drawText, "part": partOf}).Parse(pageSource))
	markdowns = textual.Must(textual.New("page").Funcs(textual.FuncMap{"words": words, "cell": cell}).Parse(markdownSource))
)

// At is where a reader reaches the server, and what the reader may do there.
type At struct {
	Base   string // the path before every link
	Server string // the address that commands name
	Try    bool   // requests can be tried
}

type drawing struct {
	*Page
	At
}

// part is a thing in a page, with where the page is.
type part struct {
	It any
	At At
}

func partOf(it any, at At) part { return part{it, at} }

// address is what a server's address looks like. It comes from a request, and commands have it
// between quotation marks.
var address = regexp.MustCompile(`^https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9._~/-]*)?$`)

func (p *Page) at(at At) drawing {
	if !address.MatchString(at.Server) {
		at.Server = home
	}
	own := *p
	own.Text = strings.ReplaceAll(p.Text, home, at.Server)
	return drawing{&own, at}
}

// HTML draws the page, without its frame.
func (p *Page) HTML(at At) (template.HTML, error) {
	var b bytes.Buffer
	err := pages.Execute(&b, p.at(at))
	return template.HTML(b.String()), err // a template drew it
}

// Markdown writes the page's twin.
func (p *Page) Markdown(at At) (string, error) {
	var b bytes.Buffer
	err := markdowns.Execute(&b, p.at(at))
	return blanks.ReplaceAllString(strings.TrimSpace(b.String()), "\n\n") + "\n", err
}

var blanks = regexp.MustCompile(`\n{3,}`)

// words are pieces as one text.
func words(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// cell is a field as the last cells of a row.
func cell(f Field) string {
	kind := words(f.Kind)
	for _, more := range []string{f.In, f.Limits, map[bool]string{true: "required"}[f.Required]} {
		if more != "" {
			kind += ", " + more
		}
	}
	return strings.ReplaceAll(fmt.Sprintf("%s | %s", kind, f.About), "\n", " ")
}
