package reference

import (
	"embed"
	"html/template"
	"regexp"
	"strings"
)

//go:embed texts/*.md
var textFiles embed.FS

// home is the address of a server in the texts, in whose place the address of this one is put.
const home = "https://hooks.example.com"

// texts are the pages that no operation is on, in the order of the menu.
func texts() (all []*Page) {
	for _, name := range []string{Index, "requests", "problems", "webhooks", "operational-events"} {
		text, err := textFiles.ReadFile("texts/" + name + ".md")
		if err != nil {
			panic("reference: " + err.Error()) // they are in the binary
		}
		title, rest, _ := strings.Cut(string(text), "\n")
		about, rest, _ := strings.Cut(strings.TrimSpace(rest), "\n\n")
		all = append(all, &Page{Name: name, Title: strings.TrimPrefix(title, "# "), About: strings.ReplaceAll(about, "\n", " "), Text: rest})
	}
	return all
}

var (
	codeSpan = regexp.MustCompile("`([^`]+)`")
	mdLink   = regexp.MustCompile(`\[([^\]]+)\]\(([a-z-]+)\.md(#[a-z_-]+)?\)`)
	boldSpan = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// drawText draws the Markdown of a text: headings of the second level, paragraphs, lists, tables,
// code between fences; in a line code, bold words and links to other pages.
func drawText(text, base string) template.HTML {
	var b strings.Builder
	in := "" // the element that is open
	enter := func(name string) {
		if in == name {
			return
		}
		if in != "" {
			b.WriteString("</" + in + ">\n")
		}
		if in = name; name != "" {
			b.WriteString("<" + strings.Replace(name, "table", `table class="members"`, 1) + ">")
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		fence := strings.HasPrefix(line, "```")
		cells, isRow := strings.CutPrefix(line, "| ")
		item, isItem := strings.CutPrefix(line, "* ")
		title, isTitle := strings.CutPrefix(line, "## ")
		switch {
		case in == "pre" && fence:
			enter("")
		case in == "pre":
			b.WriteString(template.HTMLEscapeString(line) + "\n")
		case fence:
			enter("pre")
		case line == "":
			enter("")
		case isTitle:
			enter("")
			b.WriteString(`<h2 id="` + slug(title) + `">` + spans(title, base) + "</h2>\n")
		case strings.HasPrefix(line, "|-"):
		case isRow:
			enter("table")
			b.WriteString("<tr><td>" + strings.ReplaceAll(spans(strings.TrimSuffix(cells, " |"), base), " | ", "</td><td>") + "</td></tr>\n")
		case isItem:
			enter("ul")
			b.WriteString("<li>" + spans(item, base))
		case in == "ul":
			b.WriteString(" " + spans(strings.TrimSpace(line), base))
		default:
			enter("p")
			b.WriteString(spans(line, base) + " ")
		}
	}
	enter("")
	return template.HTML(b.String()) // of this package's own texts
}

// spans draws what can stand in a line.
func spans(line, base string) string {
	line = codeSpan.ReplaceAllString(template.HTMLEscapeString(line), "<code>$1</code>")
	line = boldSpan.ReplaceAllString(line, "<b>$1</b>")
	return mdLink.ReplaceAllString(line, `<a class="link" href="`+template.HTMLEscapeString(base)+`/docs/$2$3">$1</a>`)
}
