package grapnel_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pagePhrases are the phrases that pages must not contain besides settled, with the words to use.
var pagePhrases = []struct {
	phrase *regexp.Regexp
	use    string
}{
	{regexp.MustCompile(`(?i)\b(these|this|those|it) (is|are) what\b|\bthat there (is|are)\b|\bwhat there (is|are)\b`), "the noun"},
	{regexp.MustCompile(`(?i)(^|[.:;,] )who (is|has|can|does|sends|reads|gets|asks|takes)\b|\bto who\b|\bby whom\b`), "the noun: a client, a consumer, an operator"},
	{regexp.MustCompile(`(?i)\bso (many|much|long)\b( (more|as|that|longer|in))?\b`), "the number"},
	{regexp.MustCompile(`(?i)\b(goes|go|went) on being\b|\bin good order\b|\bto and fro\b|\bheld up\b|\bholds? up\b`), "the plain verb: continues, delays"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) (made|kept) (anew|of before)\b|\bof before\b|\bas ever\b`), "again, earlier, unchanged"},
	{regexp.MustCompile(`(?i)\bwho(se|m)? it is\b|\bwhat it is about\b`), "the tenant, the owner, the subject"},
	{regexp.MustCompile(`(?i)\b(nothing|something) of (it|its|them|theirs|a tenant|the tenant)\b`), "no row, no event, no delivery of it"},
}

// notProse are the parts of a page that are not its prose: blocks and spans of code, links' targets
// and parts that a test or a command writes.
var notProse = []*regexp.Regexp{
	regexp.MustCompile("(?s)```.*?```"),
	regexp.MustCompile(`(?s)<!-- (\w+) -->.*?<!-- /\w+ -->`),
	regexp.MustCompile(`(?m)^(    |\t).*$`),
	regexp.MustCompile("`[^`\n]*`"),
	regexp.MustCompile(`\]\([^)]*\)`),
}

// TestPagesUsePlainWords: pages for people name the thing, in the settled words.
func TestPagesUsePlainWords(t *testing.T) {
	for _, page := range append(pages(t), "CHANGELOG.md") {
		if slices.Contains(writtenPages, page) {
			continue
		}
		text := read(t, page)
		for _, part := range notProse {
			text = part.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) + "…" })
		}
		for i, line := range strings.Split(text, "\n") {
			report := func(phrase *regexp.Regexp, use string) {
				if found := phrase.FindString(line); found != "" {
					t.Errorf("%s:%d: %q; use: %s", page, i+1, strings.TrimSpace(found), use)
				}
			}
			for _, w := range settled {
				if w.except == "" { // the others are names that a page may explain
					report(w.phrase, w.use)
				}
			}
			for _, w := range pagePhrases {
				report(w.phrase, w.use)
			}
		}
	}
}

// writtenPages are those that a command writes: their words are held where they are written.
var writtenPages = []string{"docs/providers.md", "docs/interop.md"}
