package torture

import (
	"bytes"
	_ "embed"
	"html/template"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/say"
)

//go:embed report.html
var reportPage string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"picture": picture,
	"round":   round,
	"mark": func(v Verdict) string {
		return map[Verdict]string{Passed: "✓ passed", Failing: "✗ failed", NotJudged: "– not judged"}[v]
	},
	"time":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
	"invariant": func(name string) string { return Invariants[name] },
	"effects": func(r *Result) string {
		if n, read := r.Effects(); read {
			return say.Many(n, "effect", "effects")
		}
		return ""
	},
}).Parse(reportPage))

// HTML is the report as one page without resources of others.
func (r *Report) HTML() ([]byte, error) {
	var out bytes.Buffer
	err := page.Execute(&out, r)
	return out.Bytes(), err
}
