package main

import (
	"bytes"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// These are the rules of the house about structure. They read the source as text and syntax only,
// so they are quick and need no services.

const module = "github.com/grapnelhq/grapnel"

// wings are the parts of the product from the ground up. A package imports packages of its own wing
// and of lower ones, so no low part ever depends on a high one; within a wing the compiler refuses
// circles. A package is in the wing whose directory it is in: an internal one needs no entry here.
var wings = []string{
	"policy", "sign", ".", "wire", "client", "outbox",
	"internal/house", "internal/base", "internal/store", "internal/nodes", "internal/send", "internal/inbound", "internal/tell",
	"internal/face", "internal/proof",
	"receive", "internal/server", "embed", "cmd",
}

// wingOf returns the place of a package's wing among wings.
func wingOf(dir string) (int, bool) {
	at := slices.IndexFunc(wings, func(w string) bool { return dir == w || strings.HasPrefix(dir, w+"/") })
	return at, at >= 0
}

// longFiles may exceed the budget, each for the given reason.
var longFiles = map[string]string{}

const (
	lineBudget = 500
	badNames   = "util utils common helper helpers misc manager shared base"
)

// root is the module's, whose files the tests name. A test goes there by t.Chdir: in a TestMain it
// would not be noted among the inputs of the tests, and a stored result would count after a change.
const root = "../.."

// product are the sources of the built programs.
func product(t *testing.T) []source {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(slices.Clone(all), func(s source) bool { return s.test })
}

func TestEveryPackageHasADoorComment(t *testing.T) {
	t.Chdir(root)
	door := map[string]string{}
	packages := map[string]string{}
	for _, s := range product(t) {
		packages[s.dir] = s.file.Name.Name
		if s.file.Doc != nil {
			door[s.dir] += s.file.Doc.Text()
		}
	}
	for dir, name := range packages {
		opening := "Package " + name + " "
		if name == "main" {
			opening = "Command " + path.Base(dir) + " "
		}
		if !strings.HasPrefix(door[dir], opening) {
			t.Errorf("%s: its doc comment should open with %q and say its job, what holds and what it does not promise", dir, opening)
		} else if len(door[dir]) < 120 {
			t.Errorf("%s: its doc comment says next to nothing", dir)
		}
	}
}

func TestImportsGoDownTheWings(t *testing.T) {
	t.Chdir(root)
	used := map[string]bool{}
	for _, s := range product(t) {
		if nested(s.dir) || tool(s.dir) {
			continue
		}
		mine, ok := wingOf(s.dir)
		if !ok {
			t.Errorf("%s is in no wing: move it into one of internal/, or give it a place in internal/house/house_test.go", s.dir)
			continue
		}
		used[wings[mine]] = true
		for _, imported := range s.file.Imports {
			room, ours := room(strings.Trim(imported.Path.Value, `"`))
			if !ours {
				continue
			}
			if theirs, known := wingOf(room); known && theirs > mine {
				t.Errorf("%s: %s imports %s, which is in a higher wing", s.path, s.dir, room)
			}
		}
	}
	for _, w := range wings {
		if !used[w] {
			t.Errorf("the wing %s has no package", w)
		}
	}
}

// borrows are the internal packages that a public one uses. No exported name of it has their types.
var borrows = map[string][]string{
	"receive/provider":    {"internal/base/scheme", "internal/base/canonical"},
	"receive/receivetest": {"internal/proof/torture"},
}

// Some imports are forbidden although they go down.
func TestImportsThatWouldBeShortcuts(t *testing.T) {
	t.Chdir(root)
	const everybodyElse = "*"
	// A forbidden path that ends in a slash stands for the packages inside it, not for the package
	// itself.
	for _, rule := range []struct{ who, never, why string }{
		{"internal/send/core", "internal/store/", "the core speaks of what is stored, and knows no store"},
		{"internal/send/engine", "internal/store/", "the engine asks for a store; it does not choose one"},
		{"client", "internal", "it is for programs outside this repository"},
		{"wire", "internal", "it is for programs outside this repository"},
		{"sign", "internal", "it is for programs outside this repository"},
		{"outbox", "internal", "it is for programs outside this repository"},
		{"receive", "internal", "it is for programs outside this repository"},
		{"policy", "internal", "it is for programs outside this repository"},
		{"internal/store", "internal/send/core", "what is durable does not depend on who decides"},
		{"internal/face/api", "internal/send/core", "faces talk to the engine"},
		{"internal/face/api", "internal/send/engine", "faces say what they need as interfaces of their own"},
		{"internal/server", "internal/proof/sim", "what simulates is no part of what runs"},
		{everybodyElse, "internal/face/api", "only the server puts a face on"},
		{everybodyElse, "internal/face/web", "only the server puts a face on"},
		{"internal/face/web", "internal/store", "pages know what the public API answers, and nothing else"},
	} {
		for _, s := range product(t) {
			if nested(s.dir) || tool(s.dir) {
				continue
			}
			applies := s.dir == rule.who || strings.HasPrefix(s.dir, rule.who+"/")
			if rule.who == everybodyElse {
				applies = s.dir != "internal/server" && s.dir != rule.never && !strings.HasPrefix(s.dir, rule.never+"/")
			}
			if !applies {
				continue
			}
			for _, imported := range s.file.Imports {
				room, ours := room(strings.Trim(imported.Path.Value, `"`))
				if !ours || slices.Contains(borrows[s.dir], room) {
					continue
				}
				if room == rule.never || strings.HasPrefix(room, strings.TrimSuffix(rule.never, "/")+"/") {
					t.Errorf("%s imports %s: %s", s.path, room, rule.why)
				}
			}
		}
	}
}

// room turns an import path into a directory of this repository.
func room(imported string) (dir string, ours bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// nested says whether a directory belongs to a module of its own, with its own rules and
// dependencies.
func nested(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// tool says whether a directory contains programs that test, measure or show the product.
func tool(dir string) bool {
	first, _, _ := strings.Cut(dir, "/")
	return first == "bench" || first == "e2e" || first == "tools" || first == "examples"
}

func TestNoSleepInTheProduct(t *testing.T) {
	t.Chdir(root)
	for _, s := range product(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || call.Sel.Name != "Sleep" {
				return true
			}
			if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == "time" {
				t.Errorf("%s sleeps: wait for what is to happen, with a context", s.path)
			}
			return true
		})
	}
}

func TestFilesAreShort(t *testing.T) {
	t.Chdir(root)
	for _, s := range product(t) {
		if _, allowed := longFiles[s.path]; s.lines > lineBudget && !allowed {
			t.Errorf("%s has %d lines, more than %d: there is a second concept hiding in it", s.path, s.lines, lineBudget)
		}
	}
	for name := range longFiles {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("longFiles names %s, which does not exist", name)
		}
	}
}

// TestTextIsText: git shows no difference of a file with control bytes, so a golden file that has
// one cannot be reviewed. Such a byte is escaped where the file is written.
func TestTextIsText(t *testing.T) {
	t.Chdir(root)
	written := []string{".go", ".md", ".json", ".txt", ".html", ".css", ".js", ".svg", ".sql", ".sh", ".py", ".ts", ".yml", ".yaml", ".toml"}
	seen := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"node_modules", "bin"}, d.Name())) {
			return filepath.SkipDir
		}
		foreign := strings.HasSuffix(name, ".min.js")
		if d.IsDir() || foreign || !slices.Contains(written, filepath.Ext(name)) {
			return nil
		}
		seen++
		text, err := os.ReadFile(name)
		if at := bytes.IndexFunc(text, func(c rune) bool { return c < ' ' && !strings.ContainsRune("\t\n\r", c) }); at >= 0 {
			t.Errorf("%s has the byte %#02x at %d: escape it where the file is written", name, text[at], at)
		}
		return err
	})
	if err != nil || seen < 1000 {
		t.Errorf("%d files, %v", seen, err)
	}
}

func TestNamesSayWhatIsInside(t *testing.T) {
	t.Chdir(root)
	bad := strings.Fields(badNames)
	for _, s := range product(t) {
		stem := strings.TrimSuffix(path.Base(s.path), ".go")
		if slices.Contains(bad, s.file.Name.Name) || slices.Contains(bad, stem) {
			t.Errorf("%s: a name like that has no home yet; find out what it holds", s.path)
		}
	}
}

func TestModulesAreOurs(t *testing.T) {
	t.Chdir(root)
	declared := regexp.MustCompile(`(?m)^module (\S+)$`)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "go.mod" {
			return err
		}
		want := module
		if dir := filepath.ToSlash(filepath.Dir(name)); dir != "." {
			want += "/" + dir
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if m := declared.FindSubmatch(text); m == nil || string(m[1]) != want {
			t.Errorf("%s should declare module %s", name, want)
		}
		if regexp.MustCompile(`(?m)^(toolchain|replace .* => [./~])`).Match(text) && filepath.Dir(name) == "." {
			t.Errorf("%s: no toolchain line and no replacement by a directory in the product's module", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLicence(t *testing.T) {
	t.Chdir(root)
	text := read(t, "LICENSE")
	if !strings.Contains(text, "Apache License") || !strings.Contains(text, "Version 2.0, January 2004") {
		t.Error("LICENSE is not the Apache License, version 2.0")
	}
}

func TestReadmeCommandsExist(t *testing.T) {
	t.Chdir(root)
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	for _, doc := range documents(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^ *(?:\\$ )?|`)make ([a-z][a-z-]*)").FindAllStringSubmatch(read(t, doc), -1) {
			if !targets[m[1]] {
				t.Errorf("%s speaks of make %s, which the Makefile does not have", doc, m[1])
			}
		}
	}
	for _, needed := range []string{"run", "build", "test", "soak", "bench", "lint"} {
		if !targets[needed] {
			t.Errorf("the Makefile has no target %s", needed)
		}
	}
	for _, needed := range []string{"make run", "make test"} {
		if !strings.Contains(read(t, "README.md"), needed) {
			t.Errorf("README.md does not mention %s", needed)
		}
	}
}

func TestLinksInDocumentsResolve(t *testing.T) {
	t.Chdir(root)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, doc := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, doc), -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			there := doc
			if target != "" {
				there = path.Join(path.Dir(doc), target)
			}
			if _, err := os.Stat(there); err != nil {
				t.Errorf("%s links to %s, which does not exist", doc, m[1])
				continue
			}
			if fragment != "" && strings.HasSuffix(there, ".md") && !slices.Contains(anchors(read(t, there)), fragment) {
				t.Errorf("%s links to %s, and there is no such heading", doc, m[1])
			}
		}
	}
}

// documents are all Markdown files.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if !slices.Contains(all, "README.md") {
		t.Fatal("there is no README.md")
	}
	return all
}

// anchors are the names under which a document's headings can be linked to.
func anchors(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#{1,6} (.+)$`).FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(strings.TrimSpace(m[1]))
		name = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(name, "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
