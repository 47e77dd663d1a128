//go:build prove

package sim

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutantVariable says which rule a binary of buildMutants leaves out: its number in the list, from
// 1.
const mutantVariable = "GRAPNEL_CORE_MUTANT"

// chosenMutant is a file added to the core.
const chosenMutant = `package core

import (
	"os"
	"strconv"
)

var chosenMutant, _ = strconv.Atoi(os.Getenv("` + mutantVariable + `"))
`

// buildMutants builds this package's tests with a core from which each rule can be left out. One
// binary has all mutants, since building takes longer than finding most of them: the function
// around a mutant's line exists a second time, with the mutant, and the original begins by calling
// it if that mutant is chosen.
func buildMutants(t *testing.T, mutants []coreMutant) (binary string) {
	t.Helper()
	dir := t.TempDir()
	core, err := filepath.Abs(filepath.Join("..", "..", "send", "core"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	add := func(name, text string) {
		files[filepath.Join(core, name)] = filepath.Join(dir, name)
		write(t, filepath.Join(dir, name), []byte(text))
	}
	add("chosenmutant.go", chosenMutant)
	names, err := filepath.Glob(filepath.Join(core, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	places := make([]int, len(mutants))
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		numbered := map[int]coreMutant{}
		for n, m := range mutants {
			if found := strings.Count(string(source), m.line); found > 0 && !strings.HasSuffix(name, "_test.go") {
				places[n] += found
				numbered[n+1] = m
			}
		}
		if len(numbered) > 0 {
			add(filepath.Base(name), withMutants(t, string(source), numbered))
		}
	}
	for n, m := range mutants {
		if places[n] != 1 {
			t.Fatalf("%s: the line is in the core %d times, not once", m.rule, places[n])
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), overlay)
	binary = filepath.Join(dir, "sim.test")
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags", "-s -w", "-overlay", filepath.Join(dir, "overlay.json"),
		"-o", binary, ".").CombinedOutput(); err != nil { //nolint:gosec // our own toolchain
		t.Fatalf("the mutants do not build: %v\n%s", err, out)
	}
	return binary
}

// withMutants is a file to which the mutants' functions are added. Functions of mutants end with
// the mutant's number.
func withMutants(t *testing.T, source string, numbered map[int]coreMutant) string {
	t.Helper()
	var added strings.Builder
	calls := map[int]string{} // by the offset of the body that they begin
	for n, m := range numbered {
		at := strings.Index(source, m.line)
		fn := functionAt(t, source, at)
		if fn == nil || at+len(m.line) > int(fn.End())-1 {
			t.Fatalf("%s: the line is not inside of one function", m.rule)
		}
		// The text before the function is the same in both, so the function begins at the same offset.
		mutated := strings.Replace(source, m.line, m.mutant, 1)
		mutant := functionAt(t, mutated, int(fn.Pos())-1)
		text := mutated[mutant.Pos()-1 : mutant.End()-1]
		name := int(mutant.Name.End() - mutant.Pos())
		fmt.Fprintf(&added, "\n%s_%d%s\n", text[:name], n, text[name:])
		calls[int(fn.Body.Lbrace)] += fmt.Sprintf(" if chosenMutant == %d { %s }; ", n, callOf(t, fn, fmt.Sprintf("_%d", n)))
	}
	var all strings.Builder
	for i := range len(source) {
		all.WriteString(calls[i])
		all.WriteByte(source[i])
	}
	return all.String() + added.String()
}

// functionAt is the function around an offset of a file. Positions are offsets plus one.
func functionAt(t *testing.T, source string, offset int) *ast.FuncDecl {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		if fn, is := d.(*ast.FuncDecl); is && int(fn.Pos())-1 <= offset && offset < int(fn.End())-1 {
			return fn
		}
	}
	return nil
}

// callOf calls the twin of a function with its own arguments, and returns what it returns.
func callOf(t *testing.T, fn *ast.FuncDecl, suffix string) string {
	t.Helper()
	names := func(fields *ast.FieldList) (of []string) {
		for _, f := range fields.List {
			if len(f.Names) == 0 {
				t.Fatalf("%s has a parameter without a name", fn.Name.Name)
			}
			for _, name := range f.Names {
				of = append(of, name.Name)
			}
		}
		return of
	}
	call := fn.Name.Name + suffix + "(" + strings.Join(names(fn.Type.Params), ", ") + ")"
	if fn.Recv != nil {
		call = names(fn.Recv)[0] + "." + call
	}
	if fn.Type.Results != nil {
		return "return " + call
	}
	return call + "; return"
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
