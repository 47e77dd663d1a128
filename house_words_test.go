package grapnel_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	commentWidth = 100
	codeWidth    = 140
)

// hold applies a rule to all files.
func hold(t *testing.T, rule func(source) []string) {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, fault := range rule(s) {
			t.Error(fault)
		}
	}
}

// Comments fit into 100 columns and code into 140; a tab counts as one. A line whose text cannot be
// wrapped is exempt: it is inside a string literal, a string literal crosses the limit, or it is
// the output of an example.
func TestLinesAreNarrow(t *testing.T) { hold(t, narrow) }

func narrow(s source) (faults []string) {
	literal, output := unwrappable(s), false
	for i, line := range strings.Split(string(s.text), "\n") {
		limit, text := codeWidth, strings.TrimSpace(line)
		prose, comment := strings.CutPrefix(text, "// ")
		output = comment && (output || strings.HasPrefix(prose, "Output:"))
		if literal[i+1] || output || strings.HasPrefix(text, "//\t") || strings.HasPrefix(text, "//go:") {
			continue
		}
		if comment {
			limit = commentWidth
			if !strings.Contains(prose, " ") {
				continue // an address
			}
		}
		if n := utf8.RuneCountInString(line); n > limit {
			faults = append(faults, fmt.Sprintf("%s:%d has %d columns; the limit is %d", s.path, i+1, n, limit))
		}
	}
	return faults
}

// unwrappable are the lines of a file, from 1, that are inside a string literal, or on which a
// string literal crosses the limit.
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

func TestMessagesBeginWithTheThing(t *testing.T) { hold(t, nounFirst) }

func nounFirst(s source) (faults []string) {
	if forDevelopers(s) {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if text, ok := message(call); ok && clauseFirst.MatchString(text) {
				faults = append(faults, fmt.Sprintf("%s: %q begins with a clause; begin with what failed or happened", s.path, text))
			}
		}
		return true
	})
	return faults
}

var (
	logCalls   = []string{"Debug", "Info", "Warn", "Error"}
	errorCalls = []string{"errors.New", "fmt.Errorf", "grapnel.Errorf", "grapnel.Invalid"}
	ownPackage = regexp.MustCompile(`^[a-z0-9]+: `)
)

// forDevelopers says whether a file's texts are read only by a developer whose test has failed.
func forDevelopers(s source) bool {
	return s.test || s.dir == "internal/sim" || strings.HasPrefix(s.dir, "internal/sim/") ||
		s.dir == "internal/store/storetest" || s.dir == "receive/storetest" || s.dir == "internal/store/postgres/pgtest" || s.dir == "interop/libraries"
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
// The one file in except may contain the phrase.
var settled = []struct {
	phrase *regexp.Regexp
	use    string
	except string
}{
	{regexp.MustCompile(`(?i)\b(is|are|was|were) over\b`), "finished, expired or ended", ""},
	{regexp.MustCompile(`(?i)\bwhat (waits|waited|comes|came|is|was|has|there)\b`), "the noun: pending deliveries, events, rows", ""},
	{regexp.MustCompile(`(?i)\b(nobody|somebody|everybody|whoever)\b`), "the actor: an operator, a consumer, another node", ""},
	{regexp.MustCompile(`(?i)\b(hands?|handed) out\b`), "leases, is leased", ""},
	{regexp.MustCompile(`(?i)\b(given|gives|gave|giving) back\b`), "returned, released", ""},
	{regexp.MustCompile(`(?i)\b(left alone|spared)\b`), "circuit open, paused", ""},
	{regexp.MustCompile(`(?i)\b(is|are|was|were) gone\b`), "deleted, purged or expired", ""},
	{regexp.MustCompile(`(?i)\bthere is no such\b`), "not found", ""},
	{regexp.MustCompile(`(?i)\b(is|are) there already\b`), "already exists, is already in use", ""},
	{regexp.MustCompile(`(?i)\b(does|do|could) not (get|go) on\b`), "failed; retrying", ""},
	{regexp.MustCompile(`(?i)\bcould not be made\b`), "creating X failed", ""},
	{regexp.MustCompile(`(?i)(^|[^-\w])hooque\b`), "queue", "policy/presets.go"},
}

var sql = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|LOCK|DROP|TRUNCATE|SET|PRAGMA)\b`)

func TestTextsForUsersUseSettledWords(t *testing.T) { hold(t, settledWords) }

func settledWords(s source) (faults []string) {
	if forDevelopers(s) {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		text, ok := textOf(n)
		if !ok || sql.MatchString(text) {
			return true
		}
		for _, w := range settled {
			if found := w.phrase.FindString(text); found != "" && s.path != w.except {
				faults = append(faults, fmt.Sprintf("%s: %q in %q; use: %s", s.path, found, text, w.use))
			}
		}
		return true
	})
	return faults
}

// A comment names the thing: no clause or indefinite person stands in the place of a noun.
var clauses = regexp.MustCompile(
	`(?i)\b(nobody|somebody|everybody|whoever)\b|\bwhat (is|was|are|were|has|have|comes|came|waits|waited|there)\b`,
)

func TestCommentsNameThings(t *testing.T) { hold(t, named) }

func named(s source) (faults []string) {
	for _, group := range s.file.Comments {
		if found := clauses.FindString(group.Text()); found != "" {
			faults = append(faults, fmt.Sprintf("%s: %q in the comment %q; name the thing", s.path, found, firstLine(group.Text())))
		}
	}
	return faults
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
