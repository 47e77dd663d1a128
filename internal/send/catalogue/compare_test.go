package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestDifferences has pairs of versions with all their differences.
func TestDifferences(t *testing.T) {
	const base = `{"type":"object","required":["id","amount"],"properties":{"id":{"type":"string"},"amount":{"type":"integer","minimum":1},
		"status":{"enum":["open","paid"]},"lines":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string"}}}}}}`
	for name, c := range map[string]struct {
		from, to string
		want     []Difference
	}{
		"nothing":          {base, base, nil},
		"other words only": {base, `{"title":"An invoice","description":"x",` + base[1:], nil},
		"a new member": {base, strings.Replace(base, `"status"`, `"note":{"type":"string"},"status"`, 1),
			[]Difference{{"/properties/note", "note is new.", false, false}}},
		"a member less": {base, strings.Replace(base, `"id":{"type":"string"},`, ``, 1),
			[]Difference{{"/properties/id", "id is not described any more.", true, false}}},
		"another type": {base, strings.Replace(base, `"type":"integer"`, `"type":"number"`, 1),
			[]Difference{{"/properties/amount/type", "amount may be a number, and was an integer.", true, false}}},
		"null is allowed": {base, strings.Replace(base, `"amount":{"type":"integer"`, `"amount":{"type":["integer","null"]`, 1),
			[]Difference{{"/properties/amount/type", "amount may be an integer or null, and was an integer.", true, false}}},
		"a higher minimum": {base, strings.Replace(base, `"minimum":1`, `"minimum":5`, 1),
			[]Difference{{"/properties/amount/minimum", "amount has a minimum of 5 instead of 1.", false, true}}},
		"one value more": {base, strings.Replace(base, `"paid"`, `"paid","void"`, 1),
			[]Difference{{"/properties/status/enum", `status may be "void".`, true, false}}},
		"one value less": {base, strings.Replace(base, `"open",`, ``, 1),
			[]Difference{{"/properties/status/enum", `status may not be "open" any more.`, false, true}}},
		"required": {base, strings.Replace(base, `"id","amount"`, `"id","amount","status"`, 1),
			[]Difference{{"/required", "status is required.", false, true}}},
		"not required": {base, strings.Replace(base, `"id","amount"`, `"id"`, 1),
			[]Difference{{"/required", "amount may be missing.", true, false}}},
		"in items": {base, strings.Replace(base, `"sku":{"type":"string"}`, `"sku":{"type":"integer"}`, 1),
			[]Difference{{"/properties/lines/items/properties/sku/type", "lines[].sku is an integer instead of a string.", true, true}}},
		"moved to a definition": {`{"properties":{"a":{"type":"string"}}}`,
			`{"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s"}}}`, nil},
		"closed": {`{"properties":{"a":true}}`, `{"properties":{"a":true},"additionalProperties":false}`,
			[]Difference{{"/additionalProperties", "* is not allowed any more.", false, true}}},
		"opened": {`{"properties":{"a":true},"additionalProperties":false}`, `{"properties":{"a":true}}`,
			[]Difference{{"/additionalProperties", "* is allowed.", true, false}}},
		"new where nothing else is allowed": {`{"properties":{"a":true},"additionalProperties":false}`,
			`{"properties":{"a":true,"b":true},"additionalProperties":false}`,
			[]Difference{{"/properties/b", "b is new, and was not allowed.", true, false}}},
		"one form more": {`{"anyOf":[{"type":"string"}]}`, `{"anyOf":[{"type":"integer"},{"type":"string"}]}`,
			[]Difference{{"/anyOf/0", "The data may have one more form.", true, false}}},
		"recursion": {`{"properties":{"child":{"$ref":"#"}}}`, `{"properties":{"child":{"$ref":"#"},"x":{"type":"null"}}}`,
			[]Difference{{"/properties/x", "x is new.", false, false}}},
		"a variant that is told apart": {
			`{"oneOf":[{"type":"object","required":["k"],"properties":{"k":{"const":"a"}}},{"type":"object","required":["k"],"properties":{"k":{"const":"b"}}}]}`,
			`{"oneOf":[{"type":"object","required":["k"],"properties":{"k":{"const":"a"}}},{"type":"object","required":["k","n"],"properties":{"k":{"const":"b"}}}]}`,
			[]Difference{{"/oneOf/1/required", "n is required.", false, true}}},
		"moved out of allOf, with another type": {`{"allOf":[{"properties":{"a":{"type":"integer"}}}]}`, `{"properties":{"a":{"type":"string"}}}`,
			[]Difference{{"/properties/a", "a is described in another way.", true, true},
				{"/allOf/0", "The data has to satisfy one schema less.", true, false}}},
		"moved within allOf, with another type": {
			`{"allOf":[{"properties":{"o":{"type":"object"}}},{"properties":{"o":{"properties":{"a":{"type":"integer"}}}}}]}`,
			`{"allOf":[{"properties":{"o":{"type":"object","properties":{"a":{"type":"string"}}}}}]}`,
			[]Difference{{"/allOf/0/properties/o/properties/a", "o.a is described in another way.", true, true},
				{"/allOf/1", "The data has to satisfy one schema less.", true, false}}},
		"deprecated": {`{"properties":{"a":true}}`, `{"properties":{"a":{"deprecated":true}}}`,
			[]Difference{{"/properties/a/deprecated", "a is deprecated.", false, false}}},
	} {
		got, err := Compare(compiled(t, c.from), compiled(t, c.to), plenty())
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: %v %v, want %v", name, got, err, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %+v, want %+v", name, got[i], c.want[i])
			}
		}
	}
}

// TestHostileComparisonsEnd compares schemas of which every part differs from every other.
func TestHostileComparisonsEnd(t *testing.T) {
	const units = 1_000_000
	forms := func(kind string) string {
		var all []string
		for i := range 1000 {
			all = append(all, `{"properties":{"`+kind+strings.Repeat("x", i%7)+`":{"minimum":`+string(rune('0'+i%10))+`}}}`)
		}
		return `{"anyOf":[` + strings.Join(all, ",") + `]}`
	}
	if _, err := Compare(compiled(t, forms("a")), compiled(t, forms("b")), NewMeter(units, nil)); !errors.Is(err, ErrTooCostly) {
		t.Errorf("a million pairs: %v", err)
	}
}

// mutate changes one thing somewhere in a schema.
func (d *drawer) mutate(v any) any {
	m, is := v.(map[string]any)
	if !is {
		return d.decoded(d.schema(1))
	}
	if len(m) > 0 && d.IntN(3) > 0 {
		all := names(m)
		name := all[d.IntN(len(all))]
		switch sub := m[name].(type) {
		case map[string]any:
			if len(sub) > 0 && (name == "properties" || name == "dependentSchemas" || name == "patternProperties" || name == "$defs") {
				in := names(sub)
				at := in[d.IntN(len(in))]
				if name != "$defs" && d.IntN(4) == 0 {
					delete(sub, at)
				} else {
					sub[at] = d.mutate(sub[at])
				}
				return m
			}
			if name != "dependentRequired" {
				m[name] = d.mutate(sub)
			}
			return m
		case []any:
			if name == "anyOf" || name == "allOf" || name == "oneOf" || name == "prefixItems" {
				at := d.IntN(len(sub))
				sub[at] = d.mutate(sub[at])
				return m
			}
		}
		if name != "$defs" && d.IntN(2) == 0 {
			delete(m, name)
			return m
		}
	}
	if other, is := d.decoded(d.schema(1)).(map[string]any); is {
		for name, part := range other {
			m[name] = part
		}
	}
	return m
}

func (d *drawer) decoded(text string) any {
	v, err := decode([]byte(text))
	if err != nil {
		panic(err)
	}
	return v
}

// FuzzCompare changes schemas at random: without a breaking difference, a value of the later
// version satisfies the earlier one; without a stricter one, and without members that are new, a
// value of the earlier version satisfies the later one.
func FuzzCompare(f *testing.F) {
	for seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		d := &drawer{Rand: rand.New(rand.NewPCG(seed, 2))}
		for range 20 {
			d.budget = 30
			from := d.document()
			if strings.Contains(from, "unevaluated") {
				continue // Compare promises nothing
			}
			changed := d.decoded(from)
			for range 1 + d.IntN(3) {
				d.budget = 10
				changed = d.mutate(changed)
			}
			text, _ := json.Marshal(changed)
			if bytes.Contains(text, []byte("unevaluated")) {
				continue
			}
			a, _ := Compile([]byte(from))
			b, _ := Compile(text)
			if a == nil || b == nil {
				continue
			}
			found, err := Compare(a, b, plenty())
			if err != nil {
				t.Fatal(err)
			}
			breaking, stricter, novel := false, false, false
			for _, x := range found {
				breaking = breaking || x.Breaking
				name, is := strings.CutSuffix(x.What, " is new.")
				// A member of a member stays a reason not to look.
				stricter = stricter || x.Stricter || is && (strings.ContainsAny(name, ".[") || from == "true")
				novel = novel || is
			}
			earlier := a
			if novel { // values without members that the earlier version does not describe
				earlier, _ = Compile([]byte(strings.Replace(from, "{", `{"unevaluatedProperties":false,`, 1)))
			}
			for range 60 {
				data := []byte(d.value(3))
				before, _ := a.Check(data, plenty())
				after, _ := b.Check(data, plenty())
				if !breaking && before != nil && after == nil {
					t.Fatalf("%s\n%s\n%s satisfies the later version only; differences: %+v", from, text, data, found)
				}
				if novel {
					before, _ = earlier.Check(data, plenty())
				}
				if !stricter && before == nil && after != nil {
					t.Fatalf("%s\n%s\n%s satisfies the earlier version only; differences: %+v", from, text, data, found)
				}
			}
		}
	})
}
