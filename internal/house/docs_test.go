package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNamedTestsExist: a promise names its test, and the test exists.
func TestNamedTestsExist(t *testing.T) {
	t.Chdir(root)
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range function.FindAllStringSubmatch(string(source), -1) {
			declared[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*`)
	named := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range name.FindAllString(string(text), -1) {
			named++
			if !declared[test] {
				t.Errorf("%s names %s, which does not exist", page, test)
			}
		}
	}
	if named < 30 {
		t.Errorf("only %d tests are named: the pages have lost their proofs", named)
	}
}

// TestNamedMetricsExist: every metric that a page names is one that the program exports.
func TestNamedMetricsExist(t *testing.T) {
	t.Chdir(root)
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]bool{}
	quoted := regexp.MustCompile(`"(grapnel_[a-z_]+)"`)
	for _, s := range all {
		for _, found := range quoted.FindAllStringSubmatch(string(s.text), -1) {
			counted[found[1]] = counted[found[1]] || !s.test
		}
	}
	name := regexp.MustCompile(`\bgrapnel_[a-z_]+[a-z]\b`)
	functions := map[string]bool{"grapnel_publish": true} // in SQL
	named := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range name.FindAllStringIndex(string(text), -1) {
			metric := string(text[at[0]:at[1]])
			if family := strings.HasPrefix(string(text[at[1]:]), "_*"); family || functions[metric] {
				continue
			}
			named++
			if !counted[metric] && !counted[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count"), "_sum")] {
				t.Errorf("%s names %s, which is not counted", page, metric)
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d metrics are named", named)
	}
}

// TestNamedLogMessagesExist: a message that a page quotes from the log is one that the program
// writes, so a search for it finds the line.
func TestNamedLogMessagesExist(t *testing.T) {
	t.Chdir(root)
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, s := range all {
		if !s.test {
			code.Write(s.text)
		}
	}
	quoted := regexp.MustCompile("(?:\\blogs?(?: has)?|\\| (?:info|warn|error) \\|)(?: |\n *)`([^`]+)`")
	named := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range quoted.FindAllStringSubmatch(string(text), -1) {
			if named++; !strings.Contains(code.String(), `"`+found[1]) {
				t.Errorf("%s quotes the log message %q, which is not written", page, found[1])
			}
		}
	}
	if named < 8 {
		t.Errorf("only %d log messages are quoted", named)
	}
}

// TestPagesHaveNoMarksOfAMerge: the compiler finds them in code only.
func TestPagesHaveNoMarksOfAMerge(t *testing.T) {
	t.Chdir(root)
	for _, page := range append(pages(t), "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "<<<<<<< ") || strings.HasPrefix(line, ">>>>>>> ") {
				t.Errorf("%s has %q", page, line)
			}
		}
	}
}

// pages are the pages for users.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"GUARANTEES.md", "SECURITY.md", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

// TestDocumentedTestRuns: if a page gives a command that runs tests, the package, a test of that
// name and the flag exist.
func TestDocumentedTestRuns(t *testing.T) {
	t.Chdir(root)
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	of, apart := map[string]string{}, map[string]string{} // the tests of a package as one text, and those that need -tags prove
	needs := regexp.MustCompile(`(?m)^//go:build .*\bprove$`)
	for _, s := range all {
		if s.test {
			of[s.dir] += string(s.text)
			if needs.Match(s.text) {
				apart[s.dir] += string(s.text)
			}
		}
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)
	own := []string{"race", "v", "timeout", "count", "benchtime", "fuzztime", "run", "bench", "fuzz", "vet", "ldflags", "tags"}
	command := regexp.MustCompile(`\bgo test ([^#\x60\n]*)`)
	seen := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range command.FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(found[1])
			at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "./") })
			if at < 0 || strings.Contains(words[at], "...") {
				continue
			}
			seen++
			dir := strings.TrimPrefix(words[at], "./")
			if of[dir] == "" {
				t.Errorf("%s: %s: there are no tests in %s", page, found[0], dir)
			}
			for i, word := range words {
				name, isFlag := strings.CutPrefix(word, "-")
				if !isFlag {
					continue
				}
				name, _, _ = strings.Cut(name, "=")
				// of a library, which packages use through others
				rapid := strings.HasPrefix(name, "rapid.")
				if !slices.Contains(own, name) && !rapid && !regexp.MustCompile(`flag\.\w+\("`+regexp.QuoteMeta(name)+`"`).MatchString(of[dir]) {
					t.Errorf("%s: %s: there is no flag -%s", page, found[0], name)
				}
				if i+1 == len(words) || name != "run" && name != "bench" && name != "fuzz" {
					continue
				}
				// Names after a slash are created by the test.
				pattern, _, _ := strings.Cut(strings.Trim(words[i+1], "'"), "/")
				if pattern == "xxx" || pattern == "^$" {
					continue
				}
				wanted, err := regexp.Compile(pattern)
				if err != nil {
					t.Errorf("%s: %s: %v", page, found[0], err)
					continue
				}
				named := func(text string) bool {
					return slices.ContainsFunc(declared.FindAllStringSubmatch(text, -1), func(f []string) bool { return wanted.MatchString(f[1]) })
				}
				if !named(of[dir]) {
					t.Errorf("%s: %s: nothing in %s is called %s", page, found[0], dir, pattern)
				}
				if named(apart[dir]) && !slices.Contains(words, "prove") {
					t.Errorf("%s: %s: it needs -tags prove", page, found[0])
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d runs of tests are shown", seen)
	}
}

// TestThePageOnReceivingHasAllCases: its table leads from each case of torture to a way out.
func TestThePageOnReceivingHasAllCases(t *testing.T) {
	t.Chdir(root)
	cases := map[string][2]bool{}
	for i, page := range []string{"docs/torture.md", "docs/receiving-safely.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range regexp.MustCompile(`(?m)^\|.*\bT\d\d\b.*$`).FindAllString(string(text), -1) {
			for _, name := range regexp.MustCompile(`\bT\d\d\b`).FindAllString(row, -1) {
				on := cases[name]
				on[i] = true
				cases[name] = on
			}
		}
	}
	for name, pages := range cases {
		if pages != [2]bool{true, true} {
			t.Errorf("%s is not on both pages", name)
		}
	}
	if len(cases) < 26 {
		t.Errorf("there are only %d cases", len(cases))
	}
}

// TestThePageOnReceivingNamesWhatTheKitsHave: each name that its snippets take from a kit is one of
// that kit.
func TestThePageOnReceivingNamesWhatTheKitsHave(t *testing.T) {
	t.Chdir(root)
	text := func(files ...string) string {
		var all strings.Builder
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(source)
		}
		return all.String()
	}
	glob := func(pattern string) string {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		return text(files...)
	}
	typescript, python := "sdk/typescript/src/receive/", "sdk/python/src/grapnel/receive/"
	gate := glob("receive/gate/*.go")
	goKit := gate + glob("receive/*.go") + glob("receive/sqlstore/*.go") + glob("receive/provider/*.go") +
		glob("receive/redisstore/*.go")
	// A rule finds names in the snippets of a language, and says where each has to be defined.
	for _, rule := range []struct{ language, names, source, defined string }{
		{"go", `\b(?:receive|sqlstore|redisstore|provider|gate|kit|endpoint|inbox)\.([A-Z]\w*)`, goKit, `(?m)^(?:func (?:\(\w+ \*?\w+\) )?|type |\t?(?:var |const )?)%s\b`},
		{"go", `\bd\.([A-Z]\w*)`, text("receive/delivery.go"), `(?m)^(?:func \(d \*Delivery\) |\t)%s\b`},
		{"go", `[{ ]([A-Z]\w*): `, goKit, `(?m)^\t(?:\w+, )*%s\b`},
		{"typescript", `\b(\w+(?:Receiver|Store|Gate|Handler))\(`, text(typescript + "index.ts"), `\b%s\b`},
		{"typescript", `\bthrow (\w+)\(`, text(typescript + "index.ts"), `\b%s\b`},
		{"typescript", `\b(?:kit|inbox|hooks|states)\.(\w+)`, glob(typescript + "*.ts"), `(?m)^ +(?:async |get )?%s[(!:]`},
		{"typescript", `\bd\.(\w+)`, text(typescript + "delivery.ts"), `\b%s\b`},
		{"python", `\b(Receiver|\w+Store|\w+Gate|StateMachine|StandardWebhooks|canonical_body|raw_body)\b`, glob(python + "*.py"), `(?m)^(?:class|def) %s\b`},
		{"python", `\braise (\w+)\(`, text(python + "outcome.py"), `(?m)^class %s\b`},
		{"python", `\b(?:kit|hook)\.(\w+)`, text(python + "receiver.py"), `(?m)^    def %s\(`},
		{"python", `\bd\.(\w+)`, text(python + "delivery.py"), `(?m)^    (?:def )?%s\b`},
		{"python", `receive\.web import (\w+)`, text(python + "web.py"), `(?m)^def %s\(`},
	} {
		fence := regexp.MustCompile("(?s)```" + rule.language + "\n(.*?)```")
		seen := 0
		for _, snippet := range fence.FindAllStringSubmatch(text("docs/receiving-safely.md"), -1) {
			for _, name := range regexp.MustCompile(rule.names).FindAllStringSubmatch(snippet[1], -1) {
				seen++
				if defined := regexp.MustCompile(strings.ReplaceAll(rule.defined, "%s", name[1])); !defined.MatchString(rule.source) {
					t.Errorf("the page has %s in %s, which the kit does not have", name[1], rule.language)
				}
			}
		}
		if seen == 0 {
			t.Errorf("no snippet in %s has a name like %s", rule.language, rule.names)
		}
	}
}

// TestTheIndexLeadsToEveryPage: docs/README.md links each page for readers once, guides first, and a
// guide is short. Comments, and names of languages, are no words of a guide.
func TestTheIndexLeadsToEveryPage(t *testing.T) {
	t.Chdir(root)
	index := read(t, "docs/README.md")
	unseen := regexp.MustCompile("<!-- test.*?-->|```\\w*")
	guides := 0
	for _, page := range pages(t) {
		name, inside := strings.CutPrefix(page, "docs/")
		if !inside || page == "docs/README.md" {
			continue
		}
		guide := strings.HasPrefix(name, "guides/")
		if strings.Contains(name, "/") && !guide {
			continue
		}
		if n := strings.Count(index, "]("+name+")"); n != 1 {
			t.Errorf("docs/README.md links %s %d times", page, n)
		}
		if !guide {
			continue
		}
		guides++
		if words := len(strings.Fields(unseen.ReplaceAllString(read(t, page), ""))); words > 600 {
			t.Errorf("%s has %d words, more than 600", page, words)
		}
		if strings.Index(index, name) > strings.Index(index, "## Operation") {
			t.Errorf("%s stands behind the operation's pages", page)
		}
	}
	if guides < 10 {
		t.Errorf("there are only %d guides", guides)
	}
	readme := read(t, "README.md")
	if led := strings.Count(readme, "](docs/guides/"); led < 5 || !strings.Contains(readme, "](docs/README.md)") {
		t.Errorf("README leads to %d guides, or not to the index", led)
	}
}
