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

// TestEveryPromiseHasItsTest: docs/promises.md has every promise once, in order, and each that is
// kept or differs names a test that the named package has. A planned one names none.
func TestEveryPromiseHasItsTest(t *testing.T) {
	t.Chdir(root)
	text, err := os.ReadFile("docs/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| (.+) \| (\w+) \| (.*?) ?\| (.*?) ?\|$`)
	group := regexp.MustCompile("((?:`Test\\w+` )+)in `([\\w/.]+)`")
	declared := map[string]string{} // the test files of a package
	for i, r := range row.FindAllStringSubmatch(string(text), -1) {
		number, state, note, tests := r[1], r[3], r[4], r[5]
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			t.Fatalf("row %s comes where %d is due", number, i+1)
		}
		named := 0
		for _, g := range group.FindAllStringSubmatch(tests, -1) {
			if _, read := declared[g[2]]; !read {
				declared[g[2]] = testsOf(t, g[2])
			}
			for _, name := range strings.Fields(g[1]) {
				named++
				if name = strings.Trim(name, "`"); !strings.Contains(declared[g[2]], "\nfunc "+name+"(") {
					t.Errorf("%s: %s has no %s", number, g[2], name)
				}
			}
		}
		switch state {
		case "kept":
			if named == 0 {
				t.Errorf("%s is said to be kept and names no test", number)
			}
		case "differs":
			if named == 0 || note == "" {
				t.Errorf("%s differs: it needs a note and a test", number)
			}
		case "planned":
			if tests != "" || note == "" {
				t.Errorf("%s is planned: it needs a note, and has no test", number)
			}
		default:
			t.Errorf("%s: the state %q is none of kept, differs, planned", number, state)
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
