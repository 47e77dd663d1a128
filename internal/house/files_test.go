package main

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

// fileWings are the beginnings of files' names in packages that are too large for one list, from
// the ground up. A file uses files of its own wing and of lower ones.
var fileWings = map[string][]string{"internal/store/sqlite": {"rows", "write", "read", "keep"}}

// TestFilesUseEachOtherDownwards: no file of a package uses another that uses it in turn, directly
// or through others. The compiler refuses circles of imports, but not circles of files.
func TestFilesUseEachOtherDownwards(t *testing.T) {
	t.Chdir(root)
	packages := listed(t, "./...")
	found := 0
	for _, p := range packages {
		if p.Standard || p.Module == nil || p.Module.Path != module || p.DepOnly {
			continue
		}
		dir, _ := room(p.ImportPath)
		t.Run(dir, func(t *testing.T) {
			uses := usesOfFiles(t, p, packages)
			found += len(uses)
			for pair, name := range uses {
				if upwards(fileWings[dir], pair) {
					t.Errorf("%s uses %s of %s, which is in a higher wing of files", pair[0], name, pair[1])
				}
			}
			for _, circle := range circles(uses) {
				t.Errorf("files use each other in a circle; move what one of them takes from another to where both find it below them:\n%s",
					strings.Join(circle, "\n"))
			}
		})
	}
	if found < 1000 {
		t.Errorf("only %d uses between files were found", found)
	}
}

// upwards says whether the first of two files is in a lower wing than the second, which it uses.
func upwards(wings []string, pair [2]string) bool {
	wing := func(file string) int {
		first, _, _ := strings.Cut(file, "_")
		return slices.Index(wings, first)
	}
	from, to := wing(pair[0]), wing(pair[1])
	return from >= 0 && from < to
}

// listing is a package as the go command lists it.
type listing struct {
	ImportPath, Export, Dir string
	GoFiles                 []string
	Standard, DepOnly       bool
	Module                  *struct{ Path string }
}

// listed returns the packages of a pattern and all that they import, by import path.
func listed(t *testing.T, pattern string) map[string]listing {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles,Dir,Standard,DepOnly,Module", pattern)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]listing{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listing
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
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
	if len(found) != 2 || len(found[0]) != 2 || len(found[1]) != 3 {
		t.Errorf("not a circle of two and one of three: %v", found)
	}
}

// usesOfFiles maps pairs of files of a package to a name: the first file uses this declaration of
// the second.
func usesOfFiles(t *testing.T, p listing, packages map[string]listing) map[[2]string]string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(packages[path].Export)
	})}
	pkg, err := config.Check(p.ImportPath, fset, files, info)
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

// circles returns, for each set of files that reach each other, the shortest way from a file of the
// set back to itself.
func circles(uses map[[2]string]string) (found [][]string) {
	below := map[string][]string{}
	for _, pair := range slices.SortedFunc(maps.Keys(uses), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		below[pair[0]] = append(below[pair[0]], pair[1])
	}
	reported := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(below)) {
		way := wayBack(below, file)
		if way == nil || slices.ContainsFunc(way, func(f string) bool { return reported[f] }) {
			continue
		}
		var circle []string
		for n, from := range way {
			to := way[(n+1)%len(way)]
			circle = append(circle, fmt.Sprintf("  %s uses %s of %s", from, uses[[2]string{from, to}], to))
			reported[from] = true
		}
		found = append(found, circle)
	}
	return found
}

// wayBack is the shortest way from a file back to it, without its end; nil: there is none.
func wayBack(below map[string][]string, file string) []string {
	ways, seen := [][]string{{file}}, map[string]bool{}
	for len(ways) > 0 {
		way := ways[0]
		ways = ways[1:]
		for _, next := range below[way[len(way)-1]] {
			if next == file {
				return way
			}
			if !seen[next] {
				seen[next] = true
				ways = append(ways, append(slices.Clone(way), next))
			}
		}
	}
	return nil
}
