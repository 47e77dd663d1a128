package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// source is one Go file of the product or its tests.
type source struct {
	path  string // with slashes, from the root of the repository
	dir   string
	test  bool
	lines int
	file  *ast.File
	text  []byte
}

// sources are all Go files outside of test data and of the dependencies of nested modules. They are
// parsed once.
var sources = sync.OnceValues(func() (all []source, err error) {
	set := token.NewFileSet()
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." &&
			(strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "bin", "grapnel-data"}, d.Name())) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(name)
		all = append(all, source{path: slashed, dir: path.Dir(slashed), test: strings.HasSuffix(name, "_test.go"),
			lines: strings.Count(string(text), "\n"), file: file, text: text})
		return nil
	})
	if err == nil && len(all) < 20 {
		err = fmt.Errorf("found only %d Go files: the test does not look where it should", len(all))
	}
	return all, err
})
