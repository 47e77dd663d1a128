package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// schemaRow is one member that a JSON Schema describes.
type schemaRow struct {
	Name   string // with the members around it: customer.address.city, items[].sku
	Type   string
	Needed bool
	Rules  string
	What   string
}

// Bounds of the table of a schema; the JSON beside it has the rest.
const (
	schemaDepth    = 5
	mostSchemaRows = 100
)

// schemaRows is a schema as a table, in its own order. Parts that a table cannot show, such as
// oneOf, are named in Rules.
func schemaRows(schema json.RawMessage) (rows []schemaRow) {
	describe(gjson.ParseBytes(schema), "", 0, &rows)
	return rows
}

func describe(schema gjson.Result, prefix string, depth int, rows *[]schemaRow) {
	var needed []string
	schema.Get("required").ForEach(func(_, name gjson.Result) bool {
		needed = append(needed, name.String())
		return true
	})
	schema.Get("properties").ForEach(func(name, is gjson.Result) bool {
		if len(*rows) >= mostSchemaRows {
			return false
		}
		at := prefix + name.String()
		*rows = append(*rows, schemaRow{Name: at, Type: typeWords(is), Needed: slices.Contains(needed, name.String()),
			Rules: ruleWords(is), What: is.Get("description").String()})
		if depth < schemaDepth {
			describe(is, at+".", depth+1, rows)
			describe(is.Get("items"), at+"[].", depth+1, rows)
		}
		return true
	})
}

// typeWords is the type of a member in words.
func typeWords(is gjson.Result) string {
	t := is.Get("type")
	var all []string
	if t.IsArray() {
		t.ForEach(func(_, one gjson.Result) bool { all = append(all, one.String()); return true })
	} else if t.Exists() {
		all = []string{t.String()}
	}
	text := strings.Join(all, " or ")
	if text == "array" {
		if of := typeWords(is.Get("items")); of != "" {
			return "list of " + of
		}
		return "list"
	}
	return text
}

// plainRules are the rules that a table shows as they are, with their words.
var plainRules = []struct{ name, words string }{
	{"minimum", "at least %s"}, {"maximum", "at most %s"}, {"exclusiveMinimum", "more than %s"}, {"exclusiveMaximum", "less than %s"},
	{"multipleOf", "a multiple of %s"}, {"minLength", "at least %s characters"}, {"maxLength", "at most %s characters"},
	{"pattern", "like %s"},
	{"format", "%s"}, {"minItems", "at least %s items"}, {"maxItems", "at most %s items"}, {"const", "always %s"}, {"$ref", "see %s"},
}

// ruleWords are the rules of a member in words.
func ruleWords(is gjson.Result) string {
	var all []string
	if enum := is.Get("enum"); enum.IsArray() {
		var values []string
		enum.ForEach(func(_, one gjson.Result) bool { values = append(values, one.Raw); return len(values) < 12 })
		all = append(all, "one of "+strings.Join(values, ", "))
	}
	for _, rule := range plainRules {
		if value := is.Get(gjson.Escape(rule.name)); value.Exists() {
			all = append(all, fmt.Sprintf(rule.words, value.String()))
		}
	}
	for _, name := range []string{"oneOf", "anyOf", "allOf", "not", "if"} {
		if is.Get(name).Exists() {
			all = append(all, "with "+name+"; see the JSON")
		}
	}
	return strings.Join(all, "; ")
}

// keepForm is a transform that makes the data of one schema out of those of another, as far as
// names tell: members that the later form does not have become null, for an operator to fill in.
func keepForm(earlier, later json.RawMessage) string {
	has := gjson.ParseBytes(later).Get("properties")
	known := map[string]bool{}
	has.ForEach(func(name, _ gjson.Result) bool { known[name.String()] = true; return true })
	var parts []string
	gjson.ParseBytes(earlier).Get("properties").ForEach(func(name, _ gjson.Result) bool {
		quoted := jsonText(name.String())
		value := "null"
		if known[name.String()] {
			value = ".data[" + quoted + "]"
		}
		parts = append(parts, quoted+": "+value)
		return len(parts) < mostSchemaRows
	})
	if len(parts) == 0 {
		return ""
	}
	return "{id, type, timestamp, data: {" + strings.Join(parts, ", ") + "}}"
}
