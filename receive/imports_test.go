package receive

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestTheCoreImportsTheStandardLibrary: a program that imports this package gets no dependency but
// Grapnel's own package sign, which has none.
func TestTheCoreImportsTheStandardLibrary(t *testing.T) {
	for _, dir := range []string{".", "../sign"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) < 3 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, imported := range file.Imports {
				path, _ := strconv.Unquote(imported.Path.Value)
				first, _, _ := strings.Cut(path, "/")
				if strings.Contains(first, ".") && path != "github.com/grapnelhq/grapnel/sign" {
					t.Errorf("%s imports %s", name, path)
				}
			}
		}
	}
}
