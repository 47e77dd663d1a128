package catalogue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// oracle compiles a schema with another implementation; nil: it refuses the schema.
func oracle(schema []byte) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		return nil
	}
	return s
}

// drawer makes random schemas and values that have much to do with each other: few names, few
// numbers, few texts.
type drawer struct {
	*rand.Rand
	budget int
}

func (d *drawer) pick(all ...string) string { return all[d.IntN(len(all))] }

func (d *drawer) scalar() string {
	return d.pick("null", "true", "false", "0", "1", "1.0", "2", "2.5", "-1", "10e-1", `""`, `"a"`, `"ab"`, `"b"`)
}

func (d *drawer) value(depth int) string {
	switch n := d.IntN(6); {
	case depth == 0 || n < 2:
		return d.scalar()
	case n < 4:
		var items []string
		for range d.IntN(4) {
			items = append(items, d.value(depth-1))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	members := map[string]json.RawMessage{}
	for range d.IntN(4) {
		members[d.pick("a", "b", "ab", "c")] = json.RawMessage(d.value(depth - 1))
	}
	text, _ := json.Marshal(members)
	return string(text)
}

func (d *drawer) schema(depth int) string {
	if d.budget--; depth == 0 || d.budget < 0 {
		return d.pick("true", "true", "false", "{}", `{"type":"string"}`, `{"type":["integer","null"]}`, `{"const":1}`, `{"enum":["a",1,null]}`,
			`{"minimum":1}`, `{"type":"object"}`)
	}
	sub := func() string { return d.schema(depth - 1) }
	subs := func() string {
		all := []string{sub()}
		for range d.IntN(3) {
			all = append(all, sub())
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	members := func(names ...string) string {
		all := []string{}
		for _, name := range names {
			if d.IntN(2) == 0 {
				all = append(all, fmt.Sprintf("%q:%s", name, sub()))
			}
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	parts := map[string]string{}
	for range d.IntN(4) {
		switch d.IntN(26) {
		case 0:
			parts["type"] = d.pick(`"string"`, `"number"`, `"integer"`, `"object"`, `"array"`, `"null"`, `["object","array"]`)
		case 1:
			parts["enum"] = "[" + d.value(1) + "," + d.value(1) + "]"
		case 2:
			parts["const"] = d.value(1)
		case 3:
			parts[d.pick("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")] = d.pick("0", "1", "1.5", "2", "-1")
		case 4:
			parts["multipleOf"] = d.pick("0.5", "1", "2")
		case 5:
			parts[d.pick("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")] = d.pick("0", "1", "2", "1.0")
		case 6:
			parts["pattern"] = d.pick(`"a"`, `"^a$"`, `"^b"`)
		case 7, 8:
			parts["properties"] = members("a", "b", "c")
		case 9:
			parts["patternProperties"] = members("a", "^b$")
		case 10:
			parts["additionalProperties"] = sub()
		case 11:
			parts["required"] = d.pick(`["a"]`, `["a","b"]`, `[]`)
		case 12:
			parts["dependentRequired"] = d.pick(`{"a":["b"]}`, `{"b":["a","c"]}`)
		case 13:
			parts["dependentSchemas"] = members("a", "b")
		case 14:
			parts["propertyNames"] = sub()
		case 15:
			parts["items"] = sub()
		case 16:
			parts["prefixItems"] = subs()
		case 17:
			parts["contains"] = sub()
			if d.IntN(2) == 0 {
				parts[d.pick("minContains", "maxContains")] = d.pick("0", "1", "2")
			}
		case 18:
			parts["uniqueItems"] = "true"
		case 19:
			parts["allOf"] = subs()
		case 20:
			parts["anyOf"] = subs()
		case 21:
			parts["oneOf"] = subs()
		case 22:
			parts["not"] = sub()
		case 23:
			parts["if"] = sub()
			parts[d.pick("then", "else")] = sub()
		case 24:
			parts["$ref"] = d.pick(`"#/$defs/one"`, `"#/$defs/two"`, `"#anchored"`)
		case 25:
			parts[d.pick("unevaluatedProperties", "unevaluatedItems")] = d.pick("false", sub())
		}
	}
	all := []string{}
	for _, name := range names(parts) {
		all = append(all, fmt.Sprintf("%q:%s", name, parts[name]))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// document is a schema with definitions for its references.
func (d *drawer) document() string {
	d.budget = 40
	body := d.schema(3)
	defs := fmt.Sprintf(`"$defs":{"one":%s,"two":%s,"three":{"$anchor":"anchored","properties":{"a":{"$ref":"#/$defs/one"}}}}`,
		d.schema(1), d.schema(2))
	if body == "true" || body == "false" {
		return body
	}
	if body == "{}" {
		return "{" + defs + "}"
	}
	return body[:len(body)-1] + "," + defs + "}"
}

// seeds is how many drawn schemas are compared, with -short a quarter.
func seeds() uint64 {
	if testing.Short() {
		return 100
	}
	return 400
}

// FuzzCheckAgrees compares verdicts with those of another implementation.
func FuzzCheckAgrees(f *testing.F) {
	for seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		d := &drawer{Rand: rand.New(rand.NewPCG(seed, 1))}
		for range 20 {
			text := d.document()
			other := oracle([]byte(text))
			s, faults := Compile([]byte(text))
			if s == nil {
				// References of the definitions to each other may go round in place.
				if !strings.Contains(faults[0].Detail, "refers to itself") {
					t.Fatalf("%s is refused: %v", text, faults)
				}
				continue
			}
			if other == nil {
				t.Fatalf("%s is refused by the other implementation only", text)
			}
			for range 10 {
				data := d.value(3)
				v, _ := jsonschema.UnmarshalJSON(strings.NewReader(data))
				faults, err := s.Check([]byte(data), plenty())
				if want := other.Validate(v); err != nil || (want == nil) != (len(faults) == 0) {
					t.Fatalf("%s of %s: %v %v, and the other says %v", data, text, faults, err, want)
				}
				if len(faults) > 0 && faults[0].Detail == "" {
					t.Fatalf("%s of %s: a fault without words", data, text)
				}
			}
		}
	})
}

// FuzzCompile shows that no text makes the compiler or a check panic.
func FuzzCompile(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{}}`)
	f.Add(`{"enum":[1e999999999,-0],"multipleOf":1e-9}`, `1E+9`)
	f.Fuzz(func(t *testing.T, schema, data string) {
		s, faults := Compile([]byte(schema))
		if (s == nil) == (len(faults) == 0) {
			t.Fatalf("%q: %v %v", schema, s, faults)
		}
		if s != nil {
			_, _ = s.Check([]byte(data), NewMeter(100_000, nil))
		}
	})
}
