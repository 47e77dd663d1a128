package web

import (
	"bufio"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// TestTemplateLinesAreShort: a change of a template can be read as a difference of lines, because
// an element that would exceed 160 columns goes on in the next line.
func TestTemplateLinesAreShort(t *testing.T) {
	const limit = 160
	files := []string{"../../tell/statuspage/status.html", "../reference/page.html"}
	own, err := filepath.Glob("templates/*.html")
	if err != nil || len(own) < 40 {
		t.Fatal(len(own), err)
	}
	for _, name := range append(files, own...) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			if columns := utf8.RuneCountInString(lines.Text()); columns > limit {
				t.Errorf("%s:%d has %d columns; the limit is %d: break it before an action ({{-) or behind one (-}})", name, n, columns, limit)
			}
		}
		if err := lines.Err(); err != nil {
			t.Error(err)
		}
		_ = f.Close()
	}
}
