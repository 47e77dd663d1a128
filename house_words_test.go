package grapnel_test

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// plain are the files whose language is held to the rules below: a directory with everything in it
// (ending in a slash), or a pattern of path.Match. A package joins the list when it passes. When all
// have joined, the list goes.
var plain = []string{
	"bench/",
	"internal/bounds/",
	"internal/cells/",
	"internal/core/",
	"internal/demo/",
	"internal/peer/",
	"internal/queue/",
	"internal/replay/",
	"internal/sim/",
	"internal/store/*.go",
	"internal/store/codec/",
	"internal/store/commits/",
	"internal/store/memory/",
	"internal/store/postgres/days*.go",
	"internal/store/postgres/move*.go",
	"internal/store/postgres/purge*.go",
	"internal/store/postgres/seal*.go",
	"internal/store/schema/",
	"internal/store/sqlite/",
	"internal/store/storetest/",
	"interop/libraries/ingress_test.go",
	"interop/libraries/standardwebhooks_test.go",
	"outbox/",
}

// plainButTests are held as plain is, without their tests.
var plainButTests = []string{
	"*.go",
	"client/",
	"internal/configuration/",
	"internal/egress/",
	"internal/engine/",
	"internal/ingress/",
	"internal/match/",
	"internal/ownership/",
	"internal/relay/",
	"internal/server/",
	"internal/transform/",
	"policy/[a-oq-z]*.go",
	"policy/p[ao]*.go",
	"sign/",
}

const (
	commentWidth = 100
	codeWidth    = 140
)

// plainSources are the files in plain.
func plainSources(t *testing.T) (held []source) {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	for i, pattern := range slices.Concat(plain, plainButTests) {
		before := len(held)
		for _, s := range all {
			if s.test && i >= len(plain) {
				continue
			}
			if matched, _ := path.Match(pattern, s.path); matched || strings.HasSuffix(pattern, "/") && strings.HasPrefix(s.path, pattern) {
				held = append(held, s)
			}
		}
		if len(held) == before {
			t.Errorf("plain names %s, which matches no file", pattern)
		}
	}
	return held
}

// Comments fit into 100 columns and code into 140; a tab counts as one. A line whose text cannot be
// wrapped is exempt: it is inside a string literal, or a string literal crosses the limit.
func TestLinesAreNarrow(t *testing.T) {
	for _, s := range plainSources(t) {
		literal := unwrappable(s)
		for i, line := range strings.Split(string(s.text), "\n") {
			limit, text := codeWidth, strings.TrimSpace(line)
			if prose, comment := strings.CutPrefix(text, "// "); comment && !literal[i+1] {
				limit = commentWidth
				if !strings.Contains(prose, " ") {
					continue // an address
				}
			}
			if n := utf8.RuneCountInString(
				line,
			); n > limit && !literal[i+1] && !strings.HasPrefix(text, "//\t") &&
				!strings.HasPrefix(text, "//go:") {
				t.Errorf("%s:%d has %d columns; the limit is %d", s.path, i+1, n, limit)
			}
		}
	}
}

// unwrappable are the lines of a file, from 1, that are inside a string literal, or on which a string
// literal crosses the limit.
func unwrappable(s source) map[int]bool {
	lines := map[int]bool{}
	starts := []int{0}
	for i, c := range s.text {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	at := func(p token.Pos) (line, column int) {
		offset := int(p - s.file.FileStart)
		line, _ = slices.BinarySearch(starts, offset+1)
		return line, utf8.RuneCount(s.text[starts[line-1]:offset])
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			first, _ := at(lit.Pos())
			last, column := at(lit.End())
			for line := first; line < last; line++ {
				lines[line] = true
			}
			if last > first || column > codeWidth {
				lines[last] = true
			}
		}
		return true
	})
	return lines
}

// A log message or an error begins with the thing or the verb, so that it can be found by the noun.
var clauseFirst = regexp.MustCompile(`(?i)^(what|which|who|whose|how|there|somebody|nobody|it)\b`)

func TestMessagesBeginWithTheThing(t *testing.T) {
	for _, s := range plainSources(t) {
		if forDevelopers(s) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if text, ok := message(call); ok && clauseFirst.MatchString(text) {
					t.Errorf("%s: %q begins with a clause; begin with what failed or happened", s.path, text)
				}
			}
			return true
		})
	}
}

var (
	logCalls   = []string{"Debug", "Info", "Warn", "Error"}
	errorCalls = []string{"errors.New", "fmt.Errorf", "grapnel.Errorf", "grapnel.Invalid"}
	ownPackage = regexp.MustCompile(`^[a-z0-9]+: `)
)

// forDevelopers says whether a file's texts are read only by a developer whose test has failed.
func forDevelopers(s source) bool {
	return s.test || s.dir == "internal/sim" || strings.HasPrefix(s.dir, "internal/sim/") || s.dir == "internal/store/storetest"
}

// message is the text of a call that logs or makes an error, without the package's name.
func message(call *ast.CallExpr) (string, bool) {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	of, _ := fun.X.(*ast.Ident)
	if !slices.Contains(logCalls, fun.Sel.Name) && (of == nil || !slices.Contains(errorCalls, of.Name+"."+fun.Sel.Name)) {
		return "", false
	}
	for _, arg := range call.Args {
		if text, ok := textOf(arg); ok && strings.Contains(text, " ") {
			return ownPackage.ReplaceAllString(text, ""), true
		}
	}
	return "", false
}

func textOf(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// settled are the phrases that texts for users must not contain, with the words to use.
var settled = []struct {
	phrase *regexp.Regexp
	use    string
}{
	{regexp.MustCompile(`(?i)\b(is|are|was|were) over\b`), "finished, expired or ended"},
	{regexp.MustCompile(`(?i)\bwhat (waits|waited|comes|came|is|was|has|there)\b`), "the noun: pending deliveries, events, rows"},
	{regexp.MustCompile(`(?i)\b(nobody|somebody|everybody|whoever)\b`), "the actor: an operator, a consumer, another node"},
	{regexp.MustCompile(`(?i)\b(hands?|handed) out\b`), "leases, is leased"},
	{regexp.MustCompile(`(?i)\b(given|gives|gave|giving) back\b`), "returned, released"},
	{regexp.MustCompile(`(?i)\b(left alone|spared)\b`), "circuit open, paused"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) gone\b`), "deleted, purged or expired"},
	{regexp.MustCompile(`(?i)\bthere is no such\b`), "not found"},
	{regexp.MustCompile(`(?i)\b(is|are) there already\b`), "already exists, is already in use"},
	{regexp.MustCompile(`(?i)\b(does|do|could) not (get|go) on\b`), "failed; retrying"},
	{regexp.MustCompile(`(?i)\bcould not be made\b`), "creating X failed"},
	{regexp.MustCompile(`(?i)\bhooque\b`), "queue"},
}

var sql = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|LOCK|DROP|TRUNCATE|SET|PRAGMA)\b`)

func TestTextsForUsersUseSettledWords(t *testing.T) {
	for _, s := range plainSources(t) {
		if forDevelopers(s) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			text, ok := textOf(n)
			if !ok || sql.MatchString(text) {
				return true
			}
			for _, w := range settled {
				if found := w.phrase.FindString(text); found != "" {
					t.Errorf("%s: %q in %q; use: %s", s.path, found, text, w.use)
				}
			}
			return true
		})
	}
}

// A comment names the thing: no clause or indefinite person stands in the place of a noun.
var clauses = regexp.MustCompile(
	`(?i)\b(nobody|somebody|everybody|whoever)\b|\bwhat (is|was|are|were|has|have|comes|came|waits|waited|there)\b`,
)

func TestCommentsNameThings(t *testing.T) {
	for _, s := range plainSources(t) {
		for _, group := range s.file.Comments {
			if found := clauses.FindString(group.Text()); found != "" {
				t.Errorf("%s: %q in the comment %q; name the thing", s.path, found, firstLine(group.Text()))
			}
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// pagePhrases are those that pages must not contain beside settled and clauses, with the words to
// use.
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

// notProse are the parts of a page that are not its prose: blocks and spans of code, links' targets,
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
			for _, w := range append(slices.Clone(settled), pagePhrases...) {
				report(w.phrase, w.use)
			}
			report(clauses, "name the thing")
		}
	}
}

// writtenPages are those that a command writes: their words are held where they are written.
var writtenPages = []string{"docs/providers.md", "docs/interop.md"}
