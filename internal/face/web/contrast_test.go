package web

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// luminance is the relative luminance of a colour such as #1c7a4a, as WCAG 2.2 defines it.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	part := func(at int) float64 {
		n, err := strconv.ParseUint(hex[at:at+2], 16, 8)
		if err != nil {
			t.Fatalf("the colour %s: %v", hex, err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(1) + 0.7152*part(3) + 0.0722*part(5)
}

// TestContrast: text can be read on every ground that it stands on, in both themes (4.5 to 1), and
// the parts of pictures and the ring of focus can be told from theirs (3 to 1).
func TestContrast(t *testing.T) {
	css, err := assetFiles.ReadFile("assets/app.css")
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)`).FindAllSubmatch(css, -1) {
		tokens[string(m[1])] = [2]string{string(m[2]), string(m[3])}
	}
	if len(tokens) < 15 {
		t.Fatalf("%d tokens were found", len(tokens))
	}
	grounds := []string{"bg", "panel", "sunk"}
	check := func(ink, ground string, least float64) {
		for i, theme := range []string{"light", "dark"} {
			a, b := luminance(t, tokens[ink][i]), luminance(t, tokens[ground][i])
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < least {
				t.Errorf("%s on %s, %s: the contrast is %.2f, less than %.1f", ink, ground, theme, ratio, least)
			}
		}
	}
	for _, ground := range grounds {
		for _, ink := range []string{"ink", "soft", "faint", "accent", "ok", "wait", "bad", "hold"} {
			check(ink, ground, 4.5)
		}
	}
	for _, tone := range []string{"ok", "wait", "bad", "hold"} {
		check(tone, tone+"-bg", 4.5)
	}
	check("soft", "none-bg", 4.5)
}
