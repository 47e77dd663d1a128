package grapnel_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ordered lists the packages whose files use each other downwards only: no file uses another that
// uses it in turn, directly or through others. The compiler refuses circles of imports, but not
// circles of files.
var ordered = []string{"internal/api", "internal/engine", "cmd/grapnel"}

func TestFilesUseEachOtherDownwards(t *testing.T) {
	for _, dir := range ordered {
		t.Run(dir, func(t *testing.T) {
			uses := usesOfFiles(t, dir)
			for _, circle := range circles(uses) {
				t.Errorf("files use each other in a circle; move what one of them takes from another to where both find it below them:\n%s",
					strings.Join(circle, "\n"))
			}
		})
	}
}

// TestCirclesAreFound: two files that use each other, and three in a ring, are reported; a chain is
// not.
func TestCirclesAreFound(t *testing.T) {
	found := circles(map[[2]string]string{{"a", "b"}: "x", {"b", "c"}: "x", {"a", "c"}: "x"})
	if len(found) != 0 {
		t.Errorf("a chain is a circle: %v", found)
	}
	found = circles(map[[2]string]string{{"a", "b"}: "x", {"b", "a"}: "y", {"b", "c"}: "x", {"c", "d"}: "x", {"d", "e"}: "x", {"e", "c"}: "x"})
	if len(found) != 2 {
		t.Errorf("%d circles instead of 2: %v", len(found), found)
	}
}

// usesOfFiles maps pairs of files of a package to a name: the first file uses this declaration of
// the second.
func usesOfFiles(t *testing.T, dir string) map[[2]string]string {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles,Dir", "./"+dir)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	var last struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		last.GoFiles = nil
		if err := d.Decode(&last); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[last.ImportPath] = last.Export // the package itself comes last
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range last.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(last.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	pkg, err := config.Check(last.ImportPath, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	uses := map[[2]string]string{}
	for id, obj := range info.Uses {
		_, method := obj.(*types.Func)
		if obj.Pkg() != pkg || obj.Parent() != pkg.Scope() && !method {
			continue // of another package, local, or a field: it belongs to its type, which is used anyhow
		}
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(obj.Pos()).Filename)
		if from != to {
			uses[[2]string{from, to}] = obj.Name()
		}
	}
	return uses
}

// circles returns the uses within each set of files that reach each other.
func circles(uses map[[2]string]string) (found [][]string) {
	reach := map[string]map[string]bool{}
	for pair := range uses {
		for _, file := range pair {
			if reach[file] == nil {
				reach[file] = map[string]bool{}
			}
		}
		reach[pair[0]][pair[1]] = true
	}
	for via := range reach {
		for from := range reach {
			if reach[from][via] {
				maps.Copy(reach[from], reach[via])
			}
		}
	}
	done := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(reach)) {
		if !reach[file][file] || done[file] {
			continue
		}
		var circle []string
		for _, pair := range slices.SortedFunc(maps.Keys(uses), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
			if reach[file][pair[0]] && reach[pair[0]][file] && reach[file][pair[1]] && reach[pair[1]][file] {
				circle = append(circle, fmt.Sprintf("  %s uses %s of %s", pair[0], uses[pair], pair[1]))
				done[pair[0]], done[pair[1]] = true, true
			}
		}
		found = append(found, circle)
	}
	return found
}
