package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// promised is the number of promises in the documents of docs/promises.md.
const promised = 118

// TestEveryPromiseHasItsTest: docs/promises.md has every promise once, in order, and each names a
// test that the named package has, also one that differs, which says how.
func TestEveryPromiseHasItsTest(t *testing.T) {
	t.Chdir(root)
	text, err := os.ReadFile("docs/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| (.+) \| (.*?) ?\|$`)
	test := regexp.MustCompile("`([\\w/]+)\\.(Test\\w+)`")
	declared := map[string]string{} // the test files of a package
	for i, r := range row.FindAllStringSubmatch(string(text), -1) {
		number, note, tests := r[1], r[2], r[3]
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			t.Fatalf("row %s comes where %d is due", number, i+1)
		}
		named := 0
		for _, found := range test.FindAllStringSubmatch(tests, -1) {
			named++
			dir, name := found[1], found[2]
			if _, read := declared[dir]; !read {
				declared[dir] = testsOf(t, dir)
			}
			if !strings.Contains(declared[dir], "\nfunc "+name+"(") {
				t.Errorf("%s: %s has no %s", number, dir, name)
			}
		}
		if named == 0 {
			t.Errorf("%s names no test", number)
		}
		if regexp.MustCompile(`(?i)differs\*\*(: )?$`).MatchString(note) {
			t.Errorf("%s differs: it has to say how", number)
		}
		if i+1 == promised {
			return
		}
	}
	t.Errorf("docs/promises.md has fewer than %d rows", promised)
}

// testsOf is the text of all test files of a package.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s has no tests: %v", dir, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("\n")
		all.Write(text)
	}
	return all.String()
}
