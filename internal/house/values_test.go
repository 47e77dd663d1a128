package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// lists are the places that have to name every value of a type, or every field of one: no compiler
// sees a value that such a place leaves out. A place is a file, or a declaration in it.
var lists = []struct {
	kind, in, places, except string
}{
	{"Status", "delivery.go", "delivery.go:Statuses internal/store/sqlite/rows/columns.go internal/face/api/reason.go", ""},
	{"ReasonCode", "delivery.go", "internal/face/words/delivery.go:reasons internal/base/search/search.go:Reasons stats.go", "ReasonNone ReasonTest ReasonLater"},
	{"Trigger", "delivery.go", "internal/store/codec/fields.go:Triggers", ""},
	{"HealthState", "health.go", "health.go:HealthStates internal/face/words/overview.go wire/overview.go", ""},
	{"Class", "policy/policy.go", "policy/policy.go:Classes internal/store/codec/fields.go:Classes", ""},
	{"Class", "policy/policy.go", "internal/face/words/failure.go:failures internal/base/search/search.go:Classes", "ClassNone ClassInternal"},
	{"Decision", "policy/policy.go", "internal/store/codec/fields.go:decisions", ""},
	{"Scope", "key.go", "key.go:Scopes role.go:Roles", "ScopeOperate ScopeEndpointsWrite ScopeSecretsReveal ScopePayloadRead ScopeAlertsRead ScopePortalOpen"},
	{"Code", "error.go", "internal/face/api/problem.go", ""},
	{"ReplayStatus", "replay.go", "internal/face/web/replay.go internal/send/replay/metrics.go", ""},
	{"effect", "internal/send/core/input.go", "internal/proof/sim/life.go", ""},
	// The random histories of the stores: what they never set, no store is asked to keep. The others
	// have cases of their own in the suite.
	{"Change", "internal/store/store.go", "internal/store/storetest/machineactions.go:records", "Identity Answer Epoch"},
}

// TestEveryValueIsNamed: a new value of a type is at every place that lists them.
func TestEveryValueIsNamed(t *testing.T) {
	t.Chdir(root)
	for _, n := range lists {
		values := slices.DeleteFunc(valuesOf(parsed(t, n.in), n.kind), func(name string) bool {
			return slices.Contains(strings.Fields(n.except), name)
		})
		if len(values) < 4 {
			t.Errorf("%s has only the values %v of %s", n.in, values, n.kind)
		}
		for _, place := range strings.Fields(n.places) {
			file, declaration, _ := strings.Cut(place, ":")
			has := identifiers(parsed(t, file), declaration)
			for _, name := range values {
				if !has[name] {
					t.Errorf("%s does not name %s, a %s of %s", place, name, n.kind, n.in)
				}
			}
		}
	}
}

func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s source) bool { return s.path == path })
	if i < 0 {
		t.Fatalf("there is no %s", path)
	}
	return all[i].file
}

// valuesOf are the constants of a type in a file, the fields of a struct, or the types with a
// method.
func valuesOf(file *ast.File, kind string) (names []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil && n.Name.Name == kind {
				names = append(names, strings.TrimLeft(types.ExprString(n.Recv.List[0].Type), "*"))
			}
		case *ast.ValueSpec:
			if is, ok := n.Type.(*ast.Ident); ok && is.Name == kind {
				for _, name := range n.Names {
					names = append(names, name.Name)
				}
			}
		case *ast.TypeSpec:
			if is, ok := n.Type.(*ast.StructType); ok && n.Name.Name == kind {
				for _, field := range is.Fields.List {
					for _, name := range field.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
		return true
	})
	return names
}

// identifiers are those of a file outside of its constants, or of one declaration.
func identifiers(file *ast.File, declaration string) map[string]bool {
	found := map[string]bool{}
	for _, d := range file.Decls {
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				return n.Tok != token.CONST
			case *ast.FuncDecl:
				return declaration == "" || n.Name.Name == declaration
			case *ast.ValueSpec:
				return declaration == "" || n.Names[0].Name == declaration
			case *ast.Ident:
				found[n.Name] = true
			}
			return true
		})
	}
	return found
}
