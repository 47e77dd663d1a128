package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// These tests compare the pages about the code with the code: the map in ARCHITECTURE.md,
// docs/architecture, docs/decisions and docs/recipes.md. They read text only.

const mapLines = 150

var (
	quoted    = regexp.MustCompile("`([^`]+)`")
	qualified = regexp.MustCompile(`^([a-z]\w*|[A-Z]\w*)\.([A-Z]\w*)$`)
)

// codePages are the pages that this file's tests hold.
func codePages(t *testing.T) []string {
	t.Helper()
	pages := []string{"ARCHITECTURE.md", "docs/recipes.md"}
	for _, pattern := range []string{"docs/architecture/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		pages = append(pages, found...)
	}
	return pages
}

// rowsOf returns the cells of the table rows of a page whose first cell is not the head's.
func rowsOf(text, head string) (rows [][]string) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == head {
			inside = true
			continue
		}
		if inside && strings.Trim(cells[0], "-") != "" {
			rows = append(rows, cells)
		}
	}
	return rows
}

// TestTheMapShowsEveryPackage: the table of ARCHITECTURE.md has the packages of this module, from
// the top wing to the ground, and every door exists.
func TestTheMapShowsEveryPackage(t *testing.T) {
	t.Chdir(root)
	shown, above := map[string]bool{}, len(wings)
	for _, cells := range rowsOf(read(t, "ARCHITECTURE.md"), "package") {
		dir := strings.Trim(cells[0], "`")
		shown[dir] = true
		wing, known := wingOf(dir)
		if !known || wing > above {
			t.Errorf("ARCHITECTURE.md: %s stands below a package of a lower wing (known: %t)", dir, known)
		}
		above = wing
		for _, door := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if !exists(door[1]) && !exists(path.Join(dir, door[1])) && !declares(dir, door[1]) {
				t.Errorf("ARCHITECTURE.md: the door of %s is %s, which does not exist", dir, door[1])
			}
		}
	}
	for _, s := range product(t) {
		if !shown[s.dir] && !nested(s.dir) && !tool(s.dir) {
			t.Errorf("ARCHITECTURE.md does not show %s: give it a row", s.dir)
			shown[s.dir] = true
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// vocabulary has the words of the product's packages, by directory: names in code, comments and
// texts.
var vocabulary = sync.OnceValue(func() map[string]map[string]bool {
	all, _ := sources() // every caller has already read them
	words := map[string]map[string]bool{}
	for _, s := range all {
		if s.test {
			continue
		}
		if words[s.dir] == nil {
			words[s.dir] = map[string]bool{}
		}
		for _, w := range strings.FieldsFunc(string(s.text), func(c rune) bool {
			return c != '_' && !unicode.IsLetter(c) &&
				!unicode.IsDigit(c)
		}) {
			words[s.dir][w] = true
		}
	}
	return words
})

// declares reports whether a package contains the words of a name such as store.Head or Core.Step.
// The package's own name counts as one of its words.
func declares(dir, name string) bool {
	first, second, _ := strings.Cut(name, ".")
	words := vocabulary()[dir]
	return (first == path.Base(dir) || words[first]) && words[second]
}

// TestTheMapIsShort: a newcomer reads ARCHITECTURE.md as a whole, and it leads to every page.
func TestTheMapIsShort(t *testing.T) {
	t.Chdir(root)
	text := read(t, "ARCHITECTURE.md")
	if n := strings.Count(text, "\n"); n > mapLines {
		t.Errorf("ARCHITECTURE.md has %d lines, more than %d: move text to docs/architecture", n, mapLines)
	}
	for _, page := range codePages(t) {
		if strings.HasPrefix(page, "docs/architecture/") && !strings.Contains(text, "("+page+")") {
			t.Errorf("ARCHITECTURE.md does not link to %s", page)
		}
	}
}

// TestPagesNameWhatExists: every file, and every name such as store.Head, that a page about the
// code mentions is in the tree.
func TestPagesNameWhatExists(t *testing.T) {
	t.Chdir(root)
	packages := map[string][]string{} // directories by the package's name
	var everywhere []string
	for dir := range vocabulary() {
		everywhere = append(everywhere, dir)
	}
	for _, s := range product(t) {
		if name := s.file.Name.Name; !slices.Contains(packages[name], s.dir) {
			packages[name] = append(packages[name], s.dir)
		}
	}
	found := func(first, second string) bool {
		dirs, isPackage := packages[first]
		if !isPackage {
			dirs = everywhere
		}
		return slices.ContainsFunc(dirs, func(dir string) bool {
			return (isPackage || vocabulary()[dir][first]) && vocabulary()[dir][second]
		})
	}
	named := 0
	for _, page := range codePages(t) {
		for _, m := range quoted.FindAllStringSubmatch(read(t, page), -1) {
			name := strings.TrimSuffix(m[1], "/")
			switch q := qualified.FindStringSubmatch(name); {
			case q != nil && (packages[q[1]] != nil || q[1] != strings.ToLower(q[1])):
				named++
				if !found(q[1], q[2]) {
					t.Errorf("%s names %s, which does not exist", page, name)
				}
			case regexp.MustCompile(`^[\w./-]+\.(go|sql|json|md|html)$`).MatchString(name), strings.HasPrefix(name, "internal/"):
				named++
				if !exists(name) && !somewhere(t, name) {
					t.Errorf("%s names %s, which does not exist", page, name)
				}
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d names: the pages have lost their places", named)
	}
}

// somewhere reports whether a path is the end of a file's path: pages shorten
// internal/send/engine/shards.go to shards.go.
func somewhere(t *testing.T, name string) bool {
	t.Helper()
	if path.Ext(name) != ".go" {
		found, err := filepath.Glob("internal/*/*/" + name)
		return err == nil && len(found) > 0
	}
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(s source) bool { return strings.HasSuffix(s.path, "/"+name) })
}

// TestDecisionsAreRecords: each decision has its parts, and the index lists all of them, with their
// titles and dates.
func TestDecisionsAreRecords(t *testing.T) {
	t.Chdir(root)
	const dir = "docs/decisions"
	records, err := filepath.Glob(dir + "/[0-9]*.md")
	if err != nil {
		t.Fatal(err)
	}
	index := rowsOf(read(t, dir+"/README.md"), "number")
	if len(index) != len(records) {
		t.Errorf("the index has %d records, there are %d", len(index), len(records))
	}
	shape := regexp.MustCompile(`(?s)^# (\d{4}): ([^\n]+)\n\nDate: (\d{4}-\d\d-\d\d)\. Status: [^\n]+\.\n\n## Context\n\n.+` +
		`\n\n## Decision\n\n.+\n\n## Consequences\n\n.+\n$`)
	for i, name := range records {
		text := read(t, name)
		m := shape.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("%s needs a title, Date, Status, and the parts Context, Decision and Consequences", name)
			continue
		}
		if n := strings.Count(text, "\n"); n < 15 || n > 40 {
			t.Errorf("%s has %d lines; a record has 15 to 40", name, n)
		}
		number := fmt.Sprintf("%04d", i+1)
		want := []string{number, fmt.Sprintf("[%s](%s)", m[2], filepath.Base(name)), m[3]}
		if m[1] != number || !strings.HasPrefix(filepath.Base(name), number+"-") {
			t.Errorf("%s is record %s; numbers have no gaps", name, number)
		} else if i < len(index) && !slices.Equal(index[i], want) {
			t.Errorf("the index has %q, want %q", index[i], want)
		}
	}
}

// TestRecipesNameWhatExists: the files of a recipe exist, contain the names that it gives, and are
// as many as it says. It ends with the command that shows a mistake, and its seconds.
func TestRecipesNameWhatExists(t *testing.T) {
	t.Chdir(root)
	count := regexp.MustCompile(`(?m)^Example: .* (\d+) places in (\d+)\s+files`)
	command := regexp.MustCompile(`\n    go test [^#\n]+ # \d+ s\s*$`)
	_, recipes, _ := strings.Cut(read(t, "docs/recipes.md"), "\n## ")
	for _, recipe := range strings.Split(recipes, "\n## ") {
		title, body, _ := strings.Cut(recipe, "\n")
		if !command.MatchString(body) {
			t.Errorf("%s: its last line has to be the command that shows a mistake, as in: go test ./internal/face/api -run Golden # 3 s", title)
		}
		rows, places := rowsOf(body, "file"), 0
		for _, cells := range rows {
			name := strings.Trim(cells[0], "`")
			n, err := strconv.Atoi(cells[1])
			places += n
			if err != nil || n < 1 {
				t.Errorf("%s: %s in %q places", title, name, cells[1])
			}
			info, err := os.Stat(name)
			if err != nil {
				t.Errorf("%s: there is no %s", title, name)
				continue
			}
			if info.IsDir() {
				continue
			}
			text := read(t, name)
			for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
				if !regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(m[1]) + `($|\W)`).MatchString(text) {
					t.Errorf("%s: %s does not contain %s", title, name, m[1])
				}
			}
		}
		said := count.FindStringSubmatch(body)
		if said == nil || said[1] != strconv.Itoa(places) || said[2] != strconv.Itoa(len(rows)) {
			t.Errorf("%s: the table has %d places in %d files; the text says %q", title, places, len(rows), said)
		}
	}
}
