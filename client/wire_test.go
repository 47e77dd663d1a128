package client

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The JSON of the API is in package wire, of which the server's answers and its document are made.
// A type of this package with JSON tags would be held by nothing.
func TestNoTypeOfThisPackageHasTags(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	aliases := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			types, ok := decl.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			for _, spec := range types.Specs {
				spec := spec.(*ast.TypeSpec)
				if spec.Assign.IsValid() {
					aliases++
				}
				if body, ok := spec.Type.(*ast.StructType); ok && slices.ContainsFunc(body.Fields.List, tagged) {
					t.Errorf("%s: %s has JSON tags; declare it in package wire, and an alias here", name, spec.Name.Name)
				}
			}
		}
	}
	if aliases < 40 {
		t.Errorf("only %d types are those of package wire", aliases)
	}
}

func tagged(f *ast.Field) bool { return f.Tag != nil && strings.Contains(f.Tag.Value, "json:") }
