package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// TestGuardsChangeNoResult compares expressions with the library's own results, all of them in
// their order. Each operator and each guarded function is among them, with arguments that give
// several values, in paths, and with faults.
func TestGuardsChangeNoResult(t *testing.T) {
	for _, text := range []string{
		`(1,2) + (10,20)`, `(1,2) - (10,20)`, `(3,2) * (10,20)`, `(8,4) / (2,1)`, `(9,4) % (4,3)`, `"ab" * (0,1,2)`, `"a,b" / ","`, `{a:{b:1}} * {a:{c:2}}`,
		`[1,2,3] - [2]`, `{} + {a:1}`, `null + 1`, `[(1,"a",null,[1],{a:1},true) as $x | (1,"a",null,[1],{a:1},true) as $y | $x < $y, $x == $y, $x >= $y, $x != $y]`,
		`.a + .b`, `.data.lines[0].qty - .data.lines[1].qty`, `.id + 1`, `[.data.lines[].qty] | add, add(.[]), min, max, sort, unique, reverse, flatten, length`,
		`.data.lines | sort_by(.qty), group_by(.sku), unique_by(.sku), min_by(.qty), max_by(.qty)`, `.data.lines | sort_by(-.qty, .sku)`,
		`.data.lines[] |= (.qty += 1)`, `.data.lines |= map(.qty)`, `.data.total *= 2`, `.data.total -= (1,2)`, `.data.x //= (3,4)`, `.data.lines[].qty = (7,8)`,
		`(.data.lines[0], .data.lines) |= (.. | numbers)`, `.data.lines[1:] |= map(.sku)`, `.data.lines[1:] = [1,2,3]`, `.data.new.deep[2].x = 1`, `.a[-1] = 1`,
		`.data.lines[] |= empty`, `.. |= (if type == "number" then . + 1 else . end)`, `(.data | .lines[0]).qty |= . + 1`, `(.data.lines[] | select(.qty > 2)).sku = "z"`,
		`del(.data.lines[0], .id)`, `del(.data.lines[].qty)`, `del(.data.lines[:1], .data.note)`, `.data | to_entries, with_entries(.key |= ascii_upcase), keys`,
		`.a.b = (1, 2)`, `.data["total", "note"]`, `[paths]`, `[paths(type == "number")]`, `path(.data.lines[].qty)`, `path(.data | .lines[0]?)`,
		`path(.data | first(.lines[], .x))`, `[path(..)] | length`, `pick(.data.lines[1].qty, .id)`, `[.data.lines[] | has("sku", "x")]`, `map_values(tojson)`,
		`.data.note | contains("a", "b"), index("b"), rindex("b"), indices("b"), split("b"), split("b", "c"), split("[ab]"; null), ascii_downcase, explode, utf8bytelength`,
		`[1,2,1,2] | indices([1,2]), indices(2), index(1), contains([2]), inside([1,2,3])`, `["a","b",1,null] | join(",", "-")`,
		`.data.note | test("B"; "i"), test("b"; null), [match("[a-z]"; "g").string], capture("(?<x>[a-z])"), [scan("[a-z]")], sub("a"; "A", "B"), gsub("(?<c>[a-z])"; .c + "."), [splits(" ")]`,
		`.data.note | sub("a"; 1)`, `.data.note | [match("A"; "gi").offset], split("[ab]"; "i"), sub("A"; "x"; "i"), gsub("A"; "x"; "i"), [scan("A"; "i")]`, `"x" as $x | "a\($x)b\(1, 2)c\("d")"`, `@json "v=\(.data)", @base64 "\(.id)", (.id | @uri), (.data.lines[0] | [.qty] | @csv)`,
		`.data.lines[("0" | tonumber), 1]`, `.data["lines", "note"]`, `.data."li\("nes")"`, `. as {id: $i, data: {lines: [$f]}} | [$i, $f]`, `. as {("id", "type"): $x} | $x`,
		`{a: (1, 2), ("b", "c"): 3, id, "x\(1)": 4}`, `reduce .data.lines[] as {qty: $q} (0; . + $q)`, `[foreach .data.lines[] as $l (0; . + $l.qty; [., $l.sku])]`,
		`def f($x; g): g | . + $x; 1 | f(2; . * 10)`, `0 | until(. > 5; . + 1)`, `[1, 2, 3] | nth(1, 2), nth(1; .[])`,
		`[1] | nth(2) = 3`, `[1 | while(. < 9; . * 2)]`, `[.data | recurse(.lines[]?)]`,
		`def f($a; $b): [$a, $b, a, b]; f(1, 2; 3, 4)`, `def f(g; $b; $c): [g, $b, $c]; f(1, 2; 3, 4; 5, 6)`,
		`def f($a): def a: 9; [a, $a]; f(1)`,
		`def path(f): 5; path(.a), (.id = 1)`, `def f(path): [path, (.id |= 1)]; f(3)`, `def f($add): add(.data.lines[].qty) + $add; f(1)`,
		`def any(a; b): 0; 5 | IN(5)`, `def f(f): f; f(4)`, `def keys(f): f; keys(3), (.data | keys)`, `def f($keys): $keys; f(1), (.data | keys)`, `def f: 1; def g: f + 1; def f: 5; [f, g]`,
		`def delpaths(p): 0; del(.data)`, `def add: 7; add`, `def f(keys): keys; f("own")`, `[label $out | 1, 2, break $out, 3]`, `try error("x") catch .`, `[.[]?]`, `(.a | error)?`, `.data | .lines? // "none"`, `-(.data.total)`,
		`[limit(3; repeat(1))], [range(0; 10; 3)], [.data.lines[] | until(.qty > 9; .qty += 1)], first(.data.lines[]), isempty(empty), any, all`, `IN(.data.lines[].qty; 2, 3)`, `5 | IN(1, 5)`,
		`[1,[2,[3]]] | flatten(1), tojson, tostring`, `"[1,{\"a\":2}]" | fromjson`, `["1.50", "x"] | .[] | tonumber`, `0 | todate`, `"2026-01-02T03:04:05Z" | fromdate`,
		`1767323045 | gmtime | mktime, strftime("%A")`, `walk(if type == "number" then . + 1 else . end)`, `if .data.x then 1 elif .id then 2 end`, `[.data.lines[0] | to_entries[]]`,
		`ltrimstr("e", "x")`, `.id | ltrimstr("evt", "e"), startswith("e", "x")`, `[.data.total, 2] | @text, @html, @tsv, @sh`, `format("json")`, `(.. | select(. == 2)) |= 5`,
	} {
		query, err := gojq.Parse(text)
		if err != nil {
			t.Fatal(text, err)
		}
		code, err := gojq.Compile(query)
		if err != nil {
			t.Fatal(text, err)
		}
		tr, err := Compile(text, unhurried(), time.Now)
		if err != nil {
			t.Error(text, err)
			continue
		}
		want, m := everything(code.Run(decoded(t))), newMeter(unhurried(), time.Now)
		if got := everything(tr.code.RunWithContext(m, decoded(t), m)); got != want {
			t.Errorf("%s is\n%s, and without guards\n%s", text, got, want)
		}
	}
}

func decoded(t *testing.T) (v any) {
	d := json.NewDecoder(bytes.NewReader([]byte(invoice)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func everything(results gojq.Iter) string {
	var all []string
	for v, more := results.Next(); more; v, more = results.Next() {
		if err, failed := v.(error); failed {
			all = append(all, "error: "+err.Error())
			break
		}
		text, _ := gojq.Marshal(v)
		all = append(all, string(text))
	}
	return strings.Join(all, "\n")
}

// TestEveryFunctionIsAllowedOrRefused: a function of the library that the lists do not name,
// such as one of a later version, is refused when an expression with it is saved.
func TestEveryFunctionIsAllowedOrRefused(t *testing.T) {
	query, _ := gojq.Parse("builtins[]")
	code, err := gojq.Compile(query)
	if err != nil {
		t.Fatal(err)
	}
	names, allowed := map[string]bool{}, 0
	for _, f := range strings.Split(everything(code.Run(nil)), "\n") {
		name, arity, _ := strings.Cut(strings.Trim(f, `"`), "/")
		text := name
		if arity != "0" {
			text += "(" + strings.TrimSuffix(strings.Repeat(".;", int(arity[0]-'0')), ";") + ")"
		}
		_, err := Compile(text, bounds.Fill(Bounds{}), time.Now)
		switch {
		case err == nil:
			allowed++
			names[name] = true
		case !strings.Contains(err.Error(), name+" is not available here") && !strings.Contains(err.Error(), "not allowed") &&
			!strings.Contains(err.Error(), "not defined") && !errors.Is(err, errPattern):
			t.Errorf("%s: %v", text, err)
		}
	}
	if allowed < 100 || len(names) > 130 {
		t.Errorf("%d functions are allowed, of %d names", allowed, len(names))
	}
	for _, text := range []string{"sin", "combinations", "getpath([])|input_filename", "INDEX(.a)", "ascii", "localtime"} {
		if err := Check(text); err == nil || !strings.Contains(fmt.Sprint(err), "not") {
			t.Errorf("%s: %v", text, err)
		}
	}
	t.Logf("%d functions, %d names", allowed, len(names))
}

// TestOneCallIsBounded: the clock is looked at between calls only, so each that would take long by
// itself is refused before it begins.
func TestOneCallIsBounded(t *testing.T) {
	event := fat()
	for _, text := range []string{`"a" * 100000 | indices("a" * 50000)`, `"a" * 100000 | index("a" * 50000 + "b")`, `"a" * 100000 | rindex("b" + "a" * 50000)`,
		`.data.wide | indices(.[20000:])`, `.data.wide | . - map(2)`,
		`def path(f): []; null | .[100000000] = 1`, `def f(path): null | .[100000000] = 1; f([])`,
		`def f($path): null | .[100000000] |= 1; f([])`,
		`def add: 0; def any(a; b): 0; def path(f): empty; def getpath(p): .; [] | .[100000000] |= 1`,
		`.data.wide as $w | last($w | recurse($w[]))`,
		`.data.wide as $w | $w | [recurse($w)] | length`, `reduce range(1e6) as $i (""; . + "a")`,
		`[] | .[(range(5500) | 0):0] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] | length`, `[] | .[(range(5500) | 0):0] |= [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] | length`,
		`.data.wide as $w | null | (.a, .a[range(1000)][0]) |= (if . == null then [range(1000) | $w] else 0 end)`,
		`.data.wide as $w | null | (.a, .a[range(1000)][0]) = [range(100) | $w] | length`, `.data.wide as $w | [$w, $w] | .[] |= (.[range(1000)] |= $w)`,
		`null | nth(100000000) = 1`, `null | nth(100000000) |= 1`, `null | pick(nth(100000000))`, `def f: nth(100000000); null | f += 1`,
		`reduce range(16) as $i (3; . * .) | . as $b | last(range(1e6) | $b + 1)`,
		`.data.text as $w | last(range(1e6) | $w[1:] | 0)`, `.data.text as $w | last(range(1e6) | $w | length)`,
		`last(null | path(recurse(.a)))`, `null | recurse(.a) |= 1`, `null | del(recurse(.a))`,
		`"9" * 300000 | fromjson | . > 1`, `"[" * 100000 | fromjson`} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body, err := compile(t, text).Apply(event)
		runtime.ReadMemStats(&after)
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || made > 256 {
			t.Errorf("%s makes %d MiB and is %.40s, %v", text, made, body, err)
		} else {
			t.Logf("%3d MiB: %s: %v", made, text, err)
		}
	}
}

// TestCompilingIsBounded: texts of full length with everything inside of itself compile at once.
func TestCompilingIsBounded(t *testing.T) {
	for _, c := range []struct{ before, inside, after string }{
		{".[", ".", "][]"}, {".a[", ".", "] |= 1"}, {"pick(", ".a", ")"}, {"del(", ".a", ")"}, {"(", ".", " + 1)"}, {"def f: ", ".", "; f"},
		{"gsub(\"a\"; ", ".", ")"}, {"[", "1", "][]"}, {"IN(", ".", ")"}, {"add(", ".", ")"}, {"{a: ", "1", "}"}, {"(.[", "0", "] = 1)"},
		{"if . then ", ".", " end"}, {"reduce . as $x (", ".", "; .)"}, {"setpath(", ".", "; 1)"}, {"def f: f | ", ".", "; f"},
	} {
		n := (MaxLength - 10) / (len(c.before) + len(c.after))
		text := strings.Repeat(c.before, n) + c.inside + strings.Repeat(c.after, n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Compile(text, unhurried(), time.Now)
		runtime.ReadMemStats(&after)
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 128 {
			t.Errorf("%d times %s%s makes %d MiB, %v", n, c.before, c.after, made, err)
		} else {
			t.Logf("%d MiB: %d times %s%s: %.80v", made, n, c.before, c.after, err)
		}
	}
}
