package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/policy"
)

// prober sends values at and beyond the bounds that the document names, one field at a time.
type prober struct {
	t       *testing.T
	w       *world
	s       schemas
	rt      *route
	path    string
	outside int
	reasons map[string]bool // why values were refused, by place
	walked  map[string]bool // policies that another route has tried: one reader reads all of them
	inside  []func()        // run when all that is outside was refused: these change things
}

// place is where a value stands in a request.
type place struct {
	pointer string
	also    []string                     // pointers that name it as well: those of what it is one possibility of
	ask     func(v any, gone bool) reply // sends the request with the value there, or without it
}

// TestDocumentedBoundsAreEnforced holds the document against the server, for every field of a body
// and every parameter: a value just outside of a documented bound is refused with the field's
// name, and a value just inside is not refused for that reason.
func TestDocumentedBoundsAreEnforced(t *testing.T) {
	outside, walked := 0, map[string]bool{}
	for _, rt := range routes() {
		if rt.bare != nil || rt.tag == serviceTag {
			continue
		}
		t.Run(rt.name, func(t *testing.T) {
			w, names := prepared(t)
			p := &prober{t: t, w: w, s: published31(), rt: &rt, reasons: map[string]bool{}, walked: walked, path: fill(rt.path, things(names, &rt))}
			p.parameters()
			p.body()
			for _, ask := range p.inside {
				ask()
			}
			outside += p.outside
		})
	}
	if outside < 2000 {
		t.Errorf("only %d values outside of bounds were tried", outside)
	}
}

func (p *prober) parameters() {
	op := p.s.at(p.s.doc, "paths", p.rt.path, strings.ToLower(p.rt.method))
	path, query, _ := strings.Cut(p.path, "?")
	method := p.rt.method
	if p.rt.name == "next" || p.rt.name == "stream" || p.rt.name == "read-feed" {
		method = http.MethodHead // which is checked in the same way and neither waits nor leases
	}
	for _, one := range several(p.s.at(op, "parameters")) {
		name, schema := p.s.at(one, "name").(string), p.s.at(one, "schema")
		at := place{pointer: "?" + name}
		switch p.s.at(one, "in") {
		case "query":
			at.ask = func(v any, gone bool) reply {
				values, err := url.ParseQuery(query)
				if err != nil {
					p.t.Fatal(err)
				}
				if values.Set(name, fmt.Sprint(v)); gone {
					values.Del(name)
				}
				return p.w.ask(admin, method, path+"?"+values.Encode(), bodies()[p.rt.name])
			}
		case "header":
			at.pointer = name
			at.ask = func(v any, _ bool) reply {
				return p.w.ask(admin, p.rt.method, p.path, bodies()[p.rt.name], name, fmt.Sprint(v))
			}
		default:
			continue
		}
		if items := p.s.at(schema, "items"); items != nil {
			schema = items
		}
		if p.s.at(one, "required") == true {
			p.refuses(at, "required", nil, true)
		}
		p.text(at, p.s.at(schema).(map[string]any))
		if p.s.at(schema, "type") == "integer" {
			p.number(at, p.s.at(schema).(map[string]any))
			p.refuses(at, "type", "x", false)
			p.refuses(at, "type", "1.5", false)
		}
	}
}

func (p *prober) body() {
	content := p.s.at(p.s.doc, "paths", p.rt.path, strings.ToLower(p.rt.method), "requestBody", "content", "application/json")
	raw := bodies()[p.rt.name]
	if content == nil || raw == "" {
		return
	}
	send := func(v any, _ bool) reply {
		encoded, err := json.Marshal(v)
		if err != nil {
			p.t.Fatal(err)
		}
		return p.w.ask(admin, p.rt.method, p.path, string(encoded))
	}
	empty := p.w.ask(admin, p.rt.method, p.path, "", "Content-Type", "application/json")
	required := p.s.at(p.s.doc, "paths", p.rt.path, strings.ToLower(p.rt.method), "requestBody", "required") == true
	if required != (empty.StatusCode == 400) {
		p.t.Errorf("a body is required: %v; without one the answer is %d", required, empty.StatusCode)
	}
	var base any
	if err := json.Unmarshal([]byte(raw), &base); err != nil {
		p.t.Fatal(err)
	}
	p.value(place{ask: send}, p.s.at(content, "schema"), base)
}

// value tries everything that a schema says of the value at a place. base is a good one.
func (p *prober) value(at place, schema, base any) {
	m := p.s.at(schema).(map[string]any)
	if some := several(m["anyOf"]); len(some) > 0 {
		for _, v := range []any{1.5, true, "\x00", []any{}} {
			if len(p.s.check(schema, v, "")) > 0 {
				p.refuses(at, "anyOf", v, false)
			}
		}
		at.also = []string{at.pointer}
		for _, one := range some {
			if p.s.at(one, "type") != "null" {
				p.branch(at, one, base)
			} else {
				p.takes(at, nil)
			}
		}
		return
	}
	if m["type"] == nil {
		return // any JSON
	}
	kinds := map[string]any{"string": 1, "integer": "x", "number": "x", "boolean": "x", "array": "x", "object": "x"}
	types := several(m["type"])
	p.refuses(at, "type", kinds[types[0].(string)], false)
	if slices.Contains(types, any("null")) {
		p.takes(at, nil)
	} else if at.pointer != "" {
		p.refuses(at, "type", nil, false)
	}
	switch types[0] {
	case "string":
		p.text(at, m)
	case "integer", "number":
		p.number(at, m)
		if types[0] == "integer" {
			p.refuses(at, "type", 1.5, false)
		}
	case "array":
		p.list(at, m, base)
	case "object":
		p.object(at, m, base)
	}
}

// branch is one possibility of several. One of another type than the rest is tried as a whole.
func (p *prober) branch(at place, schema, base any) {
	m := p.s.at(schema).(map[string]any)
	ref, _ := schema.(map[string]any)["$ref"].(string)
	if m["type"] == "object" && !p.walked[ref] {
		p.walked[ref] = strings.Contains(ref, "Policy")
		if len(p.s.check(schema, base, "")) > 0 || base == nil {
			base = p.minimal(schema)
		}
		p.object(at, m, base)
	} else if m["type"] == "number" {
		p.number(at, m)
	}
}

func (p *prober) object(at place, m map[string]any, base any) {
	whole, _ := base.(map[string]any)
	properties, _ := m["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		inner := place{pointer: at.pointer + "/" + strict.Escape(name), also: at.also, ask: func(v any, gone bool) reply {
			changed := maps.Clone(whole)
			if changed == nil {
				changed = map[string]any{}
			}
			if changed[name] = v; gone {
				delete(changed, name)
			}
			return at.ask(changed, false)
		}}
		if slices.Contains(several(m["required"]), any(name)) {
			p.refuses(inner, "required", nil, true)
		}
		good := whole[name]
		if good == nil {
			good = p.minimal(properties[name])
		}
		p.value(inner, properties[name], good)
	}
	member := func(name string, v any) place {
		return place{pointer: at.pointer + "/" + strict.Escape(name), also: append(slices.Clone(at.also), at.pointer),
			ask: func(any, bool) reply {
				changed := maps.Clone(whole)
				if changed == nil {
					changed = map[string]any{}
				}
				changed[name] = v
				return at.ask(changed, false)
			}}
	}
	more, open := m["additionalProperties"].(map[string]any)
	switch {
	case m["additionalProperties"] == false:
		p.refuses(member("no_such_field", 1), "additionalProperties", nil, false)
	case open:
		p.value(place{pointer: at.pointer + "/timeout", also: append(slices.Clone(at.also), at.pointer), ask: func(v any, _ bool) reply {
			return at.ask(map[string]any{"timeout": v}, false)
		}}, more, p.minimal(more))
		if names, ok := m["propertyNames"].(map[string]any); ok {
			for _, name := range append(misfits(names), strings.Repeat("a", int(number64(names["maxLength"], 5000))+1)) {
				p.refuses(member(name, p.minimal(more)), "propertyNames", nil, false)
			}
		}
		if most, ok := m["maxProperties"].(float64); ok {
			many := map[string]any{}
			for i := range int(most) + 1 {
				many["x"+strconv.Itoa(i)] = p.minimal(more)
			}
			p.refuses(at, "maxProperties", many, false)
		}
	}
}

func (p *prober) list(at place, m map[string]any, base any) {
	items := m["items"]
	good := p.minimal(items)
	if some, _ := base.([]any); len(some) > 0 {
		good = some[0]
	}
	times := func(n int) []any { return slices.Repeat([]any{good}, n) }
	if least := int(number64(m["minItems"], 0)); least > 0 {
		p.refuses(at, "minItems", times(least-1), false)
		p.takes(at, times(least))
	}
	if most := int(number64(m["maxItems"], 0)); most > 0 {
		p.refuses(at, "maxItems", times(most+1), false)
		if m["uniqueItems"] == nil {
			p.takes(at, times(most))
		}
	}
	if m["uniqueItems"] == true {
		p.refuses(at, "uniqueItems", times(2), false)
	}
	p.value(place{pointer: at.pointer + "/0", also: at.also, ask: func(v any, _ bool) reply { return at.ask([]any{v}, false) }}, items, good)
}

// strange are texts of which most forms take only some.
var strange = []string{"", "\x00", "a\x1f", "\x7f", " a", "a..b", "*a", "a/b", "é", "5", "-5s", "{nope}", "}",
	"ftp://a.example", "https://a.example/#x", "whsec_é", "\u0085a"}

// misfits are those that a schema does not allow.
func misfits(m map[string]any) (all []string) {
	pattern, _ := m["pattern"].(string)
	for _, text := range strange {
		if pattern != "" && !compiled(pattern).MatchString(text) {
			all = append(all, text)
		}
	}
	return all
}

func (p *prober) text(at place, m map[string]any) {
	header := strings.HasPrefix(at.pointer, "Idempotency")
	for _, text := range misfits(m) {
		if !header || !strings.HasPrefix(text, " ") { // which HTTP takes away
			p.refuses(at, "pattern", text, false)
		}
	}
	fits := func(text string) bool {
		pattern, _ := m["pattern"].(string)
		return m["format"] == nil && compiled(pattern).MatchString(text)
	}
	if enum := several(m["enum"]); len(enum) > 0 {
		p.refuses(at, "enum", "no such value", false)
		for _, v := range enum {
			if v != nil {
				p.takes(at, v)
			}
		}
	}
	if least := int(number64(m["minLength"], 0)); least > 0 {
		p.refuses(at, "minLength", strings.Repeat("a", least-1), false)
		if fits(strings.Repeat("a", least)) {
			p.takes(at, strings.Repeat("a", least))
		}
	}
	if most := int(number64(m["maxLength"], 0)); most > 0 {
		p.refuses(at, "maxLength", strings.Repeat("a", most+1), false)
		for _, text := range []string{strings.Repeat("a", most), strings.Repeat("a.", most/2-1) + "aa"} {
			if fits(text) {
				p.takes(at, text)
			}
		}
	}
	if m["format"] == "date-time" {
		p.refuses(at, "format", "2026-01-02 03:04", false)
		p.refuses(at, "format", "0000-01-02T03:04:05Z", false)
		p.takes(at, "2026-01-02T03:04:05.123456+02:00")
	}
	if least, ok := m["x-minimum"].(string); ok {
		from, to := lastsFor(p.t, least), lastsFor(p.t, m["x-maximum"].(string))
		if from > 0 {
			p.refuses(at, "x-minimum", fmt.Sprintf("%dns", from-1), false)
		}
		p.refuses(at, "x-maximum", fmt.Sprintf("%dns", to+1), false)
		p.takes(at, fmt.Sprintf("%dns", from))
		p.takes(at, fmt.Sprintf("%dns", to))
	}
}

func lastsFor(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := policy.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (p *prober) number(at place, m map[string]any) {
	show := func(n float64) any {
		if n == float64(int64(n)) {
			return int64(n) // fmt.Sprint would write 1e+06 into a query
		}
		return n
	}
	step := 1.0
	if m["type"] == "number" || slices.Contains(several(m["type"]), any("number")) {
		step = 1e-5
	}
	if least, ok := m["minimum"].(float64); ok {
		p.refuses(at, "minimum", show(least-step), false)
		p.takes(at, show(least))
	}
	if above, ok := m["exclusiveMinimum"].(float64); ok {
		p.refuses(at, "exclusiveMinimum", show(above), false)
		p.takes(at, show(above+step))
	}
	if most, ok := m["maximum"].(float64); ok {
		p.refuses(at, "maximum", show(most+step), false)
		p.takes(at, show(most))
	}
}

// minimal is a value that a schema allows.
func (p *prober) minimal(schema any) any {
	m := p.s.at(schema).(map[string]any)
	if some := several(m["examples"]); len(some) > 0 {
		return some[0]
	}
	if some := several(m["anyOf"]); len(some) > 0 {
		return p.minimal(some[0])
	}
	if enum := several(m["enum"]); len(enum) > 0 {
		return enum[0]
	}
	switch several(append(several(m["type"]), nil))[0] {
	case "string":
		return "a"
	case "integer", "number":
		return number64(m["minimum"], 1)
	case "boolean":
		return false
	case "array":
		return []any{p.minimal(m["items"])}
	case "object":
		object := map[string]any{}
		for _, name := range several(m["required"]) {
			object[name.(string)] = p.minimal(m["properties"].(map[string]any)[name.(string)])
		}
		return object
	}
	return 1
}

func number64(v any, otherwise float64) float64 {
	if n, ok := v.(float64); ok {
		return n
	}
	return otherwise
}

// faults are the details of what the answer says of a place.
func (at *place) faults(t *testing.T, r reply) (details []string) {
	t.Helper()
	if r.StatusCode != 422 {
		return nil
	}
	var problem Problem
	if err := json.Unmarshal(r.body, &problem); err != nil {
		t.Fatal(err)
	}
	for _, fault := range problem.Errors {
		if fault.Pointer == at.pointer || strings.HasPrefix(fault.Pointer, at.pointer+"/") || at.within(fault.Pointer) {
			details = append(details, fault.Detail)
		}
	}
	return details
}

// within says whether a pointer is in what a place is one possibility of.
func (at *place) within(pointer string) bool {
	return slices.ContainsFunc(at.also, func(whole string) bool { return pointer == whole || strings.HasPrefix(pointer, whole+"/") })
}

// crossed are reasons that are in other fields, or in what the server has: no bound of the field's
// own.
var crossed = regexp.MustCompile(`^is required|^is not a field here|^must be from (base|probe) |^(source|policy|endpoint) not found$|^must be the next of|^must not be given together` +
	`|the queue's name$|settled together$|^makes |^is not used by |^must be a delivery of`)

func (p *prober) refuses(at place, bound string, v any, gone bool) {
	p.t.Helper()
	p.outside++
	r := at.ask(v, gone)
	details := at.faults(p.t, r)
	if len(details) == 0 {
		p.t.Errorf("%s: %s: %.60q is outside of it; answered %d: %.300s", at.pointer, bound, fmt.Sprint(v), r.StatusCode, r.body)
	}
	for _, detail := range details {
		p.reasons[at.pointer+" "+detail] = !crossed.MatchString(detail)
	}
}

func (p *prober) takes(at place, v any) {
	p.inside = append(p.inside, func() {
		p.t.Helper()
		r := at.ask(v, false)
		if r.StatusCode == 400 {
			p.t.Errorf("%s: %.60q is inside of its bounds; answered %.300s", at.pointer, fmt.Sprint(v), r.body)
		}
		for _, detail := range at.faults(p.t, r) {
			if p.reasons[at.pointer+" "+detail] {
				p.t.Errorf("%s: %.60q is inside of its bounds and refused: %s", at.pointer, fmt.Sprint(v), detail)
			}
		}
	})
}
