package catalogue

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func plenty() *Meter { return NewMeter(10_000_000, nil) }

func compiled(t testing.TB, text string) *Schema {
	t.Helper()
	s, faults := Compile([]byte(text))
	if faults != nil {
		t.Fatalf("%.200s: %v", text, faults)
	}
	return s
}

// TestFaults has data that do not satisfy a schema, with the first fault.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ schema, data, pointer, detail string }{
		{`{"type":"object","properties":{"amount":{"type":"integer","minimum":1}},"required":["amount"]}`, `{"amount":0}`, "/amount", "must be at least 1"},
		{`{"type":"object","properties":{"amount":{"type":"integer"}}}`, `{"amount":"7"}`, "/amount", "must be an integer, not a string"},
		{`{"type":"integer"}`, `1.5`, "", "must be an integer, not a number"},
		{`{"required":["a/b"]}`, `{}`, "/a~1b", "is required"},
		{`{"type":["string","null"]}`, `5`, "", "must be a string or null, not an integer"},
		{`{"properties":{"a":true},"additionalProperties":false}`, `{"b":1}`, "/b", "is not known in this version of the event type"},
		{`{"items":{"enum":["a","b"]}}`, `["a","c"]`, "/1", `must be one of "a", "b"`},
		{`{"const":{"a":1}}`, `{"a":2}`, "", `must be {"a":1}`},
		{`{"uniqueItems":true}`, `[1,2,1.0]`, "/2", "must differ from the other items; item 0 is the same"},
		{`{"multipleOf":0.01}`, `1.005`, "", "must be a multiple of 0.01"},
		{`{"maxLength":2}`, `"äöü"`, "", "must have at most 2 characters, and has 3"},
		{`{"pattern":"^a+$"}`, `"b"`, "", "must match the pattern ^a+$"},
		{`{"anyOf":[{"type":"null"},{"type":"object","required":["id"]}]}`, `{}`, "/id", "is required"},
		{`{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`, "", "must have exactly one of the forms in oneOf, and has those at 0 and 1"},
		{`{"not":{"type":"string"}}`, `"a"`, "", "has a form that the schema excludes"},
		{`{"$defs":{"m":{"exclusiveMaximum":1e3}},"properties":{"a":{"$ref":"#/$defs/m"}}}`, `{"a":1000.0}`, "/a", "must be less than 1000"},
		{`{"properties":{"a":true},"allOf":[{"properties":{"b":true}}],"unevaluatedProperties":false}`, `{"a":1,"b":1,"c":1}`, "/c", "is not allowed here"},
		{`{"contains":{"type":"null"},"minContains":2}`, `[null,1]`, "", "must have at least 2 items of the form that contains says, and has 1"},
		{`{"dependentRequired":{"card":["cvc"]}}`, `{"card":1}`, "/cvc", "is required with card"},
		{`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, "/ab", "has a name that is not allowed here"},
		{`{"if":{"properties":{"kind":{"const":"a"}}},"then":{"required":["x"]}}`, `{"kind":"a"}`, "/x", "is required"},
		{`{"prefixItems":[{"type":"string"}],"items":false}`, `["a",1]`, "/1", "is not allowed here"},
		{`false`, `1`, "", "is not allowed here"},
	} {
		faults, err := compiled(t, c.schema).Check([]byte(c.data), plenty())
		if err != nil || len(faults) == 0 || faults[0] != (Fault{c.pointer, c.detail}) {
			t.Errorf("%s of %s: %v %v, want %q %q", c.data, c.schema, faults, err, c.pointer, c.detail)
		}
	}
}

// TestNumbersKeepTheirDigits compares numbers that no binary form holds.
func TestNumbersKeepTheirDigits(t *testing.T) {
	for _, c := range []struct {
		schema, data string
		right        bool
	}{
		{`{"maximum":9007199254740992}`, `9007199254740993`, false},
		{`{"const":1e400}`, `10e399`, true},
		{`{"minimum":1e1000000000000000000000}`, `1e999999999999999999999999`, true},
		{`{"type":"integer"}`, `1e1000000000`, true},
		{`{"type":"integer"}`, `1e-1000000000`, false},
		{`{"multipleOf":7}`, `7e1000000000`, true},
		{`{"multipleOf":7}`, `8e1000000000`, false},
		{`{"multipleOf":0.1}`, `-0.3`, true},
		{`{"enum":[-0]}`, `0.0`, true},
		{`{"exclusiveMinimum":-1.5}`, `-1.50`, false},
	} {
		faults, err := compiled(t, c.schema).Check([]byte(c.data), plenty())
		if err != nil || (len(faults) == 0) != c.right {
			t.Errorf("%s of %s: %v %v", c.data, c.schema, faults, err)
		}
	}
}

// TestRefusedSchemas has schemas that do not compile, with the place of the fault.
func TestRefusedSchemas(t *testing.T) {
	deep := strings.Repeat(`{"not":`, 70) + "true" + strings.Repeat("}", 70)
	long := `{"properties":{"` + strings.Repeat("a", 48<<10) + `":{"anyOf":[` + strings.Repeat("true,", 2900) + `true]}}}`
	for schema, pointer := range map[string]string{
		`1`: "", `{`: "", `{} {}`: "", `"` + strings.Repeat("a", MaxSchema) + `"`: "",
		`{"type":"text"}`: "/type", `{"type":[]}`: "/type", `{"enum":[]}`: "/enum", `{"enum":1}`: "/enum",
		`{"minimum":"1"}`: "/minimum", `{"multipleOf":0}`: "/multipleOf", `{"minLength":-1}`: "/minLength", `{"minLength":1.5}`: "/minLength",
		`{"maxItems":1e99}`: "/maxItems", `{"pattern":"("}`: "/pattern", `{"pattern":"(?=a)"}`: "/pattern", `{"pattern":1}`: "/pattern",
		`{"pattern":"(?:abcdefgh){900}"}`: "/pattern", `{"properties":[]}`: "/properties", `{"properties":{"a":1}}`: "/properties/a",
		`{"required":"a"}`: "/required", `{"required":[1]}`: "/required", `{"uniqueItems":1}`: "/uniqueItems",
		`{"items":[{}]}`: "/items", `{"allOf":[]}`: "/allOf", `{"anyOf":{}}`: "/anyOf", `{"if":1}`: "/if",
		`{"$ref":"http://a.example/s.json"}`: "/$ref", `{"$ref":"other.json"}`: "/$ref", `{"$ref":"#/$defs/none"}`: "/$ref",
		`{"$ref":1}`:   "/$ref",
		`{"$ref":"#"}`: "", `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`: "/$defs/a",
		`{"$dynamicRef":"#a"}`: "/$dynamicRef", `{"$schema":"http://json-schema.org/draft-07/schema#"}`: "/$schema",
		`{"properties":{"a":{"$id":"x"}}}`: "/properties/a/$id", `{"$anchor":""}`: "/$anchor", `{"dependencies":{}}`: "/dependencies",
		`{"additionalItems":true}`: "/additionalItems", `{"dependentRequired":{"a":1}}`: "/dependentRequired/a",
		deep: strings.Repeat("/not", 65), long: "",
		`{"prefixItems":[` + strings.Repeat("true,", maxNodes) + `true]}`: fmt.Sprint("/prefixItems/", maxNodes-1),
	} {
		s, faults := Compile([]byte(schema))
		if s != nil || len(faults) == 0 || faults[0].Pointer != pointer || faults[0].Detail == "" {
			t.Errorf("%.80s: %v, want a fault at %q", schema, faults, pointer)
		}
	}
}

// TestUnreportedFaultsAreNotWritten: a subschema in not fails for each of many items, and its
// faults are not reported.
func TestUnreportedFaultsAreNotWritten(t *testing.T) {
	data := []byte("[" + strings.Repeat("1,", 20_000) + "1]")
	for _, schema := range []string{`{"items":{"not":{"minimum":` + strings.Repeat("9", 60_000) + `}}}`,
		`{"items":{"not":{"enum":["` + strings.Repeat("a", 30_000) + `","` + strings.Repeat("b", 30_000) + `"]}}}`} {
		s := compiled(t, schema)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		faults, err := s.Check(data, plenty())
		runtime.ReadMemStats(&after)
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; len(faults) > 0 || err != nil || made > 100 {
			t.Errorf("%.40s: %d MiB, %v %v", schema, made, faults, err)
		}
	}
}

// TestHostileSchemasEnd runs schemas and data that would take minutes or more, and shows that each
// ends within its units.
func TestHostileSchemasEnd(t *testing.T) {
	const units = 1_000_000
	nest := func(n int, leaf string) string { return strings.Repeat(`{"x":`, n) + leaf + strings.Repeat("}", n) }
	many := func(n int, what string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(what+",", n), ",") + "]"
	}
	different := make([]string, 3000)
	for i := range different {
		different[i] = fmt.Sprint(`"`, i, `"`)
	}
	chain := `{"$defs":{`
	for i := range 1500 {
		chain += fmt.Sprintf(`"%d":{"$ref":"#/$defs/%d"},`, i, i+1)
	}
	chain += `"1500":{"properties":{"x":{"$ref":"#/$defs/0"}}}},"$ref":"#/$defs/0"}`
	for name, c := range map[string]struct{ schema, data string }{
		"recursion in anyOf": {`{"$defs":{"a":{"type":"object","anyOf":[{"properties":{"x":{"$ref":"#/$defs/a"}}},
			{"properties":{"x":{"$ref":"#/$defs/a"}}}]}},"$ref":"#/$defs/a"}`, nest(60, "1")},
		"many alternatives of many items": {`{"items":{"anyOf":` + many(2500, `{"type":"null"}`) + `}}`, many(50_000, "1")},
		"enum of many items":              {`{"items":{"enum":[` + strings.Join(different, ",") + `]}}`, many(300_000, `"0"`)},
		"unique items that are large":     {`{"allOf":` + many(2900, `{"uniqueItems":true}`) + `}`, "[" + strings.Join(different, ",") + "]"},
		"patterns of a long text":         {`{"items":{"pattern":"(a?){200}b"}}`, many(40, `"`+strings.Repeat("a", 5000)+`"`)},
		"patterns of names":               {`{"patternProperties":{"(a?){200}b":true,"(a?){200}c":true}}`, `{"` + strings.Repeat("a", 200_000) + `":1}`},
		"multiples of a long number":      {`{"multipleOf":7}`, strings.Repeat("9", 250_000)},
		"a long number looked at often":   {`{"allOf":` + many(2900, `{"type":"integer"}`) + `}`, "1." + strings.Repeat("9", 200_000)},
		"unevaluated in recursion": {`{"$defs":{"a":{"allOf":[{"properties":{"x":{"$ref":"#/$defs/a"}}},{"properties":{"x":{"$ref":"#/$defs/a"}}}],
			"unevaluatedProperties":false}},"$ref":"#/$defs/a"}`, nest(60, "{}")},
		"a long chain of references":      {chain, nest(60, "1")},
		"required of many":                {`{"items":{"required":[` + strings.Join(different, ",") + `]}}`, many(80_000, "{}")},
		"dependent schemas of many items": {`{"items":{"dependentSchemas":{` + strings.Join(different[:2900], ":true,") + `:true}}}`, many(80_000, "{}")},
	} {
		s := compiled(t, c.schema)
		steps, did := 0, int64(0)
		m := NewMeter(units, func(more int64) error {
			steps++
			did += more
			return nil
		})
		faults, err := s.Check([]byte(c.data), m)
		if !errors.Is(err, ErrTooCostly) && len(faults) == 0 {
			t.Errorf("%s: neither ended nor at fault", name)
		}
		if did += m.Untold(); did > units || int64(steps) < did/slice/8 {
			t.Errorf("%s: did %d units of %d in %d steps", name, did, units, steps)
		}
	}
}
