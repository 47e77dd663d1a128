package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hold applies a rule to all files.
func hold(t *testing.T, rule func(source) []string) {
	t.Helper()
	t.Chdir(root)
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, fault := range rule(s) {
			t.Error(fault)
		}
	}
}

// A log message or an error begins with the thing or the verb, so that it can be found by the noun.
var clauseFirst = regexp.MustCompile(`(?i)^(what|which|who|whose|how|there|somebody|nobody|it)\b`)

func TestMessagesBeginWithTheThing(t *testing.T) { hold(t, nounFirst) }

func nounFirst(s source) (faults []string) {
	if forDevelopers(s) {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if text, ok := message(call); ok && clauseFirst.MatchString(text) {
				faults = append(faults, fmt.Sprintf("%s: %q begins with a clause; begin with what failed or happened", s.path, text))
			}
		}
		return true
	})
	return faults
}

var (
	logCalls   = []string{"Debug", "Info", "Warn", "Error"}
	errorCalls = []string{"errors.New", "fmt.Errorf", "grapnel.Errorf", "grapnel.Invalid"}
	ownPackage = regexp.MustCompile(`^[a-z0-9]+: `)
)

// forDevelopers says whether a file's texts are read only by a developer whose test has failed.
func forDevelopers(s source) bool {
	return s.test || s.dir == "internal/proof/sim" || strings.HasPrefix(s.dir, "internal/proof/sim/") ||
		s.dir == "internal/house" || s.dir == "internal/store/storetest" || s.dir == "receive/storetest" || s.dir == "internal/store/postgres/pgtest" || s.dir == "interop/libraries"
}

// message is the text of a call that logs or makes an error, without the package's name.
func message(call *ast.CallExpr) (string, bool) {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	of, _ := fun.X.(*ast.Ident)
	if !slices.Contains(logCalls, fun.Sel.Name) && (of == nil || !slices.Contains(errorCalls, of.Name+"."+fun.Sel.Name)) {
		return "", false
	}
	for _, arg := range call.Args {
		if text, ok := textOf(arg); ok && strings.Contains(text, " ") {
			return ownPackage.ReplaceAllString(text, ""), true
		}
	}
	return "", false
}

func textOf(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

var sql = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|LOCK|DROP|TRUNCATE|SET|PRAGMA)\b`)

func TestTextsForUsersUseSettledWords(t *testing.T) { hold(t, settledWords) }

func settledWords(s source) (faults []string) {
	if forDevelopers(s) {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		text, ok := textOf(n)
		if !ok || sql.MatchString(text) {
			return true
		}
		for _, w := range settled {
			if found := w.phrase.FindString(text); found != "" && s.path != w.except {
				faults = append(faults, fmt.Sprintf("%s: %q in %q: %s", s.path, found, text, w.use))
			}
		}
		return true
	})
	return faults
}
