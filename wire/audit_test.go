package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEveryVerbOfTheAuditIsDocumented: a generated client refuses a whole page of the audit if one
// of its verbs is not in the document.
func TestEveryVerbOfTheAuditIsDocumented(t *testing.T) {
	field, _ := reflect.TypeFor[Audit]().FieldByName("Verb")
	documented := strings.Split(field.Tag.Get("enum"), ",")
	file, err := parser.ParseFile(token.NewFileSet(), "../audit.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	verbs := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is {
			return true
		}
		if kind, named := spec.Type.(*ast.Ident); !named || kind.Name != "Verb" {
			return true
		}
		verb, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if verbs++; err != nil || !slices.Contains(documented, verb) {
			t.Errorf("the document does not name the verb %s: %v", verb, err)
		}
		return true
	})
	if verbs != len(documented) {
		t.Errorf("%d verbs are documented, %d exist", len(documented), verbs)
	}
}
