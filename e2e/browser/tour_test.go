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

// TestEveryPage: in each form no page is wider than its window, and axe-core finds nothing serious:
// names of controls, contrasts, structure. The dashboard and the portal are looked at side by side.
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

// look looks at the page in both themes and widths.
func (p *tab) look(pattern string, axe []byte) {
	p.t.Helper()
	value[string](p, string(axe)+`; ""`)
	for _, theme := range []string{"light", "dark"} {
		p.theme(theme)
		for _, width := range []int64{1440, 390} {
			p.size(width, 900)
			if wide := value[int64](p, `document.documentElement.scrollWidth`); wide > width {
				p.t.Errorf("%s is %d wide in a window of %d", pattern, wide, width)
			}
			if dir := os.Getenv("GRAPNEL_SHOTS"); dir != "" {
				p.shoot(filepath.Join(dir, shotName(pattern, width, theme)))
			}
			for _, fault := range value[[]string](p, audit) {
				p.t.Errorf("%s, %d wide, %s: %s", pattern, width, theme, fault)
			}
		}
	}
}

// axeSum is the checksum of axe.min.js as axe-core 4.14.1 publishes it.
const axeSum = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

// audit runs axe-core and returns what it found to be serious or critical.
const audit = `axe.run(document, { resultTypes: ["violations"] }).then(r => r.violations
	.filter(v => v.impact === "serious" || v.impact === "critical")
	.flatMap(v => v.nodes.map(n => v.id + " (" + v.impact + "): " + n.html.slice(0, 160) + ": " + (n.any[0] || n.all[0] || n.none[0] || {}).message)))`

func shotName(pattern string, width int64, theme string) string {
	name := strings.Trim(strings.NewReplacer("/", "-", "{$}", "overview", "{id}", "one").Replace(pattern), "-")
	return fmt.Sprintf("%s-%d-%s.png", name, width, theme)
}
