package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The remedies for a clause or an indefinite person in the place of a noun.
const (
	nameThing = "name the thing that the clause describes"
	nameActor = "name the actor: an operator, a consumer, another node"
)

// settled are the phrases that texts for users must not contain, with the fault and its remedy.
// The one file in except may contain the phrase.
var settled = []struct {
	phrase *regexp.Regexp
	use    string
	except string
}{
	{regexp.MustCompile(`(?i)\b(is|are|was|were) over\b`), "say how it ended: finished, expired, ended", ""},
	{regexp.MustCompile(`(?i)\bwhat (waits|waited|comes|came|is|was|has|there)\b`), nameThing + ": pending deliveries, events, rows", ""},
	{regexp.MustCompile(`(?i)\b(nobody|somebody|everybody|whoever)\b`), nameActor, ""},
	{regexp.MustCompile(`(?i)\b(hands?|handed) out\b`), "say leases, is leased", ""},
	{regexp.MustCompile(`(?i)\b(given|gives|gave|giving) back\b`), "say returned, released", ""},
	{regexp.MustCompile(`(?i)\b(left alone|spared)\b`), "name the state: circuit open, paused", ""},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) gone\b`), "say by what: deleted, purged, expired", ""},
	{regexp.MustCompile(`(?i)\bthere is no such\b`), "say not found", ""},
	{regexp.MustCompile(`(?i)\b(is|are) there already\b`), "say already exists, is already in use", ""},
	{regexp.MustCompile(`(?i)\b(does|do|could) not (get|go) on\b`), "say what happened: failed; retrying", ""},
	{regexp.MustCompile(`(?i)\bcould not be made\b`), "name the action that failed: creating X failed", ""},
	{regexp.MustCompile(`(?i)(^|[^-\w])hooque\b`), "say queue", "policy/presets.go"},
}

// pagePhrases are the phrases that pages must not contain besides settled, with the words to use.
var pagePhrases = []struct {
	phrase *regexp.Regexp
	use    string
}{
	{regexp.MustCompile(`(?i)\b(these|this|those|it) (is|are) what\b|\bthat there (is|are)\b|\bwhat there (is|are)\b`), "name the thing"},
	{regexp.MustCompile(`(?i)(^|[.:;,] )who (is|has|can|does|sends|reads|gets|asks|takes)\b|\bto who\b|\bby whom\b`), "name the actor: a client, a consumer, an operator"},
	{regexp.MustCompile(`(?i)\bso (many|much|long)\b( (more|as|that|longer|in))?\b`), "give the number"},
	{regexp.MustCompile(`(?i)\b(goes|go|went) on being\b|\bin good order\b|\bto and fro\b|\bheld up\b|\bholds? up\b`), "use the plain verb: continues, delays"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) (made|kept) (anew|of before)\b|\bof before\b|\bas ever\b`), "say again, earlier, unchanged"},
	{regexp.MustCompile(`(?i)\bwho(se|m)? it is\b|\bwhat it is about\b`), "name the tenant, the owner, the subject"},
	{regexp.MustCompile(`(?i)\b(nothing|something) of (it|its|them|theirs|a tenant|the tenant)\b`), "name the thing: no row, no event, no delivery of it"},
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

// plain finds the phrases in the text of a page.
func plain(page, text string) (faults []string) {
	if slices.Contains(writtenPages, page) {
		return nil
	}
	for _, part := range notProse {
		text = part.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) + "…" })
	}
	for i, line := range strings.Split(text, "\n") {
		report := func(phrase *regexp.Regexp, use string) {
			if found := phrase.FindString(line); found != "" {
				faults = append(faults, fmt.Sprintf("%s:%d: %q: %s", page, i+1, strings.TrimSpace(found), use))
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
	return faults
}

// forContributors says whether a page is about the code. Its words are warnings.
func forContributors(page string) bool {
	return slices.Contains([]string{"ARCHITECTURE.md", "CONTRIBUTING.md", "docs/recipes.md", "docs/testing.md"}, page) ||
		strings.HasPrefix(page, "docs/architecture/") || strings.HasPrefix(page, "docs/decisions/")
}

// writtenPages are those that a command writes: their words are held where they are written.
var writtenPages = []string{"docs/providers.md", "docs/interop.md"}
