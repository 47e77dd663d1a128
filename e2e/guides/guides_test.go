//go:build linux

package guides

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuides executes each page of docs/guides as its reader would.
func TestGuides(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(tree(t), "docs/guides/*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("there are %d guides: %v", len(pages), err)
	}
	for _, page := range pages {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel()
			goes(t, page, read(t, page))
		})
	}
}

// TestREADME executes what README says of the first minute, of the first server and of receiving.
func TestREADME(t *testing.T) {
	t.Parallel()
	text := read(t, filepath.Join(tree(t), "README.md"))
	text, _, found := strings.Cut(text, "\n## And then")
	if !found {
		t.Fatal("README has no ## And then")
	}
	goes(t, "README.md", text)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
