package statuspage

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
)

//go:embed status.html
var source string

//go:embed status.css
var style string

// policy allows the page its own style and nothing else.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
}()

var page = template.Must(template.New("status").Funcs(template.FuncMap{
	"style": func() template.CSS { return template.CSS(style) }, // our own file
	"bars":  Bars, "word": word, "clock": clock, "iso": iso, "sign": sign, "names": named, "span": span, "meter": meter,
	"lower": strings.ToLower,
}).Parse(source))

func (p *Page) html() ([]byte, error) {
	var b bytes.Buffer
	err := page.Execute(&b, p)
	return b.Bytes(), err
}

// Bars draws the days of a component, a bar for each. State is colour and height, so it is seen
// without colours too.
func Bars(label string, days []Day) template.HTML {
	const wide, gap, high = 12, 4, 36
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="daybars" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`,
		len(days)*(wide+gap)-gap, high,
		template.HTMLEscapeString(label))
	for i, d := range days {
		top := map[State]int{Operational: 0, Degraded: 9, Outage: 18, Unknown: 32}[d.State]
		fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"><title>%s</title></rect>`, d.State, i*(wide+gap), top, wide,
			high-top, template.HTMLEscapeString(d.Says))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // escaped above
}

// meter draws the part of a budget that is left.
func meter(p Promise) template.HTML {
	text := fmt.Sprintf(`<svg class="meter" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="%s">`+
		`<rect class="rest" width="100" height="4"/><rect class="%s" width="%s" height="4"/></svg>`,
		template.HTMLEscapeString(p.Budget), p.State, strconv.FormatFloat(100*p.Left, 'f', 1, 64))
	return template.HTML(text) // escaped above
}

// word is a state or a status as people read it.
func word(of any) string {
	status := fmt.Sprint(of)
	if w, known := map[string]string{"operational": "Operational", "maintenance": "Maintenance", "degraded": "Degraded", "outage": "Outage",
		"unknown": "Not measured", "underway": "Under way", "none": "No impact"}[status]; known {
		return w
	}
	if status == "" {
		return ""
	}
	return strings.ToUpper(status[:1]) + status[1:]
}

// sign is a state's picture, so that colour is never alone.
func sign(s State) string {
	return map[State]string{Operational: "✓", Maintenance: "◷", Degraded: "▲", Outage: "✕", Unknown: "–"}[s]
}

func iso(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// span is the time of an incident in words.
func span(in Incident) string {
	if in.To.IsZero() {
		return "since " + clock(in.From)
	}
	if in.From.Format(time.DateOnly) == in.To.Format(time.DateOnly) {
		return in.From.Format("2 January, 15:04") + " to " + in.To.Format("15:04 UTC")
	}
	return clock(in.From) + " to " + clock(in.To)
}

// named are the names of components by their ids.
func named(ids []string) string {
	all := make([]string, 0, len(ids))
	for _, id := range ids {
		if name := Names()[id]; name != "" {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}
