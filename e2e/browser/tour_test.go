//go:build linux

package browser

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/grapnelhq/grapnel/internal/face/web"
)

// patterns are those of pages, out of a list with methods.
func patterns(paths []string) (all []string) {
	for _, pattern := range paths {
		if path, page := strings.CutPrefix(pattern, "GET "); page {
			all = append(all, path)
		}
	}
	return all
}

// TestEveryPage: in each form no page is wider than its window, no word of a choice is cut, and
// axe-core finds nothing serious: names of controls, contrasts, structure. The dashboard and the
// portal are looked at side by side.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	axe := axeCore(t)
	s := serve(t)
	c := populate(t, s)
	t.Run("dashboard", func(t *testing.T) {
		t.Parallel()
		p := openTab(t, s.url())
		p.visit("/login")
		p.look("/login", axe)
		p.signIn(adminKey)
		for _, pattern := range patterns(web.Paths()) {
			p.visit(c.fill(pattern))
			p.look(pattern, axe)
		}
		p.allow("status of 404")
		p.visit("/deliveries/dlv_none")
		p.look("/deliveries/none", axe)
		p.visit("/endpoints/new")
		p.fill("input[name=url]", "https://example.com/hooks")
		p.press(kb.Enter)
		p.sees("shown now, and never again")
		p.look("a new secret", axe)
		p.allow("status of 422")
		for path, press := range map[string]string{"/policies/new": "Add the policy", "/playground": "Send to this endpoint", "/sources/new?scheme=stripe": "Add the source"} {
			p.visit(path)
			value[bool](p, `document.querySelectorAll("form.form input, form.form textarea").forEach(i => { if (i.type === "text") i.value = "{" }) || true`)
			p.allow("A real request goes to this endpoint")
			p.leaves(func() { p.click("form.form button", press) })
			p.has("[aria-invalid]")
			p.look(path+" with faults", axe)
		}
	})
	t.Run("portal", func(t *testing.T) {
		t.Parallel()
		p := openTab(t, s.url())
		p.enterPortal(s)
		for _, pattern := range patterns(web.PortalPaths()) {
			p.visit(c.fill(pattern))
			p.look(pattern, axe)
		}
	})
}

// enterPortal opens the portal of the default tenant with all rights.
func (p *tab) enterPortal(s *server) {
	p.t.Helper()
	p.visit(s.portalLink("default", "read", "replay", "endpoints:write", "secrets:reveal", "payload:read", "alerts:read"))
	p.until("the portal is open", `location.pathname.startsWith("/portal/") && document.querySelector("#live-main")`)
}

// axeCore is the script of axe-core.
func axeCore(t *testing.T) []byte {
	t.Helper()
	axe := ok(os.ReadFile("testdata/axe.min.js"))(t)
	if sum := fmt.Sprintf("%x", sha256.Sum256(axe)); sum != axeSum {
		t.Fatalf("testdata/axe.min.js has the checksum %s, not that of axe-core 4.14.1", sum)
	}
	return axe
}

// views are a theme and a width each. Every page is seen in both themes and at both widths, and of
// two pages one in each pair. All four views of each page would take a processor for two minutes.
var views = [2][2]struct {
	theme string
	width int64
}{{{"light", 1440}, {"dark", 390}}, {{"dark", 1440}, {"light", 390}}}

// look looks at the page in both themes and widths, as two views.
func (p *tab) look(pattern string, axe []byte) {
	p.t.Helper()
	p.looks++
	value[string](p, string(axe)+`; document.querySelectorAll("details.group").forEach(d => d.open = true); ""`)
	for i, now := range views[p.looks%2] {
		theme, width := now.theme, now.width
		p.theme(theme)
		p.size(width, 900)
		if wide := value[int64](p, `document.documentElement.scrollWidth`); wide > width {
			p.t.Errorf("%s is %d wide in a window of %d", pattern, wide, width)
		}
		for _, name := range value[[]string](p, cut) {
			p.t.Errorf("%s, %d wide: the words of the choice %s are cut", pattern, width, name)
		}
		if dir := os.Getenv("GRAPNEL_SHOTS"); dir != "" {
			p.shoot(filepath.Join(dir, shotName(pattern, width, theme)))
		}
		for _, fault := range value[[]string](p, audit, p.looks > 1, i > 0) {
			p.t.Errorf("%s, %d wide, %s: %s", pattern, width, theme, fault)
		}
	}
}

// cut names the choices of which a word is wider than its box, whose arrow takes 20 pixels.
const cut = `[...document.querySelectorAll("select")].filter(s => {
	const style = getComputedStyle(s), pen = document.createElement("canvas").getContext("2d")
	pen.font = style.font
	const room = s.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 20
	return s.offsetParent && [...s.options].some(o => pen.measureText(o.text).width > room)
}).map(s => s.name)`

// axeSum is the checksum of axe.min.js as axe-core 4.14.1 publishes it.
const axeSum = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

// audit runs the rules of axe-core that find serious and critical faults, and returns these. The
// first argument says to leave out the navigation and the list of keys, which are the same on all
// pages, the second to run only the rules whose result depends on colours and widths.
const audit = `axe.run(%s ? { exclude: ["nav", "#keys"] } : document, { resultTypes: ["violations"], preload: false, runOnly: { type: "rule",
	values: axe._audit.rules.filter(r => r.enabled && !r.tags.includes("experimental") && (r.impact === "serious" || r.impact === "critical"))
		.map(r => r.id).filter(id => !%s || ["color-contrast", "target-size", "link-in-text-block", "scrollable-region-focusable"].includes(id)) } })
	.then(r => r.violations
	.filter(v => v.impact === "serious" || v.impact === "critical")
	.flatMap(v => v.nodes.map(n => v.id + " (" + v.impact + "): " + n.html.slice(0, 160) + ": " + (n.any[0] || n.all[0] || n.none[0] || {}).message)))`

func shotName(pattern string, width int64, theme string) string {
	name := strings.Trim(strings.NewReplacer("/", "-", "{$}", "overview", "{id}", "one").Replace(pattern), "-")
	return fmt.Sprintf("%s-%d-%s.png", name, width, theme)
}
