package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

const invoice = `{"id":"evt_1","type":"invoice.paid","timestamp":"2026-01-02T03:04:05.678901Z","data":` +
	`{"id":9007199254740993,"total":1.50,"big":1e400,"currency":"EUR","lines":[{"sku":"a","qty":2},{"sku":"b","qty":5}],"note":"a <b> é"}}`

func compile(t testing.TB, text string) *Transform {
	t.Helper()
	tr, err := Compile(text, unhurried(), time.Now)
	if err != nil {
		t.Fatalf("%.100s: %v", text, err)
	}
	return tr
}

// unhurried are the default bounds, without a time limit that a slow machine would reach.
func unhurried() Bounds { return bounds.Fill(Bounds{Time: time.Minute}) }

func TestTransforms(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`.id`, `"evt_1"`},
		{`{id, occurredAt: .timestamp}`, `{"id":"evt_1","occurredAt":"2026-01-02T03:04:05.678901Z"}`},
		// Numbers that an expression does not calculate with keep their digits.
		{`.data | {id, total, big}`, `{"big":1e400,"id":9007199254740993,"total":1.50}`},
		{`.data.id + 1`, `9007199254740994`},
		{`.data.note`, `"a <b> é"`},
		{`[.data.lines[] | select(.qty > 2) | .sku]`, `["b"]`},
		{`.data.lines |= map(.qty) | .data.lines | add`, `7`},
		{`.data.lines[0].qty = 9 | .data.lines[0]`, `{"qty":9,"sku":"a"}`},
		{`.data.total *= 2 | .data.total`, `3`},
		{`"\(.type): \(.data.currency)"`, `"invoice.paid: EUR"`},
		{`.data | with_entries(select(.value | type == "string"))`, `{"currency":"EUR","note":"a <b> é"}`},
		{`.type | split(".") | last | ascii_upcase`, `"PAID"`},
		{`.type | test("^invoice\\.")`, `true`},
		{`.type | gsub("i"; "I")`, `"InvoIce.paId"`},
		{`.type | capture("(?<what>[a-z]+)\\.(?<did>[a-z]+)")`, `{"did":"paid","what":"invoice"}`},
		{`.timestamp | sub("\\.[0-9]+"; "") | fromdate`, `1767323045`},
		{`.data | del(.lines, .note, .big)`, `{"currency":"EUR","id":9007199254740993,"total":1.50}`},
		{`[paths(type == "string")] | length`, `7`},
		{`.data.lines | sort_by(-.qty) | map(.sku) | join("-")`, `"b-a"`},
		{`.data.lines | group_by(.sku) | length`, `2`},
		{`.data.missing // "none"`, `"none"`},
		{`try error("x") catch .`, `"x"`},
		{`reduce .data.lines[] as $l (0; . + $l.qty)`, `7`},
		{`def f($x): $x * 2; f(.data.lines[1].qty)`, `10`},
		{`[limit(3; range(10))]`, `[0,1,2]`},
		{`.data.lines | map({(.sku): .qty}) | add`, `{"a":2,"b":5}`},
		{`@base64 "\(.id)"`, `"ZXZ0XzE="`},
		{`[.. | numbers] | length`, `5`},
		{`walk(if type == "object" then del(.note) else . end) | .data | has("note")`, `false`},
		{`. as {id: $i, data: {lines: [$first]}} | [$i, $first.sku]`, `["evt_1","a"]`},
		{`nan`, `null`},
		{`.data.lines | to_entries | map(.key)`, `[0,1]`},
		{`.data.lines | tojson | fromjson | length`, `2`},
		{`first(.data.lines[] | select(.qty == 5)) | .sku`, `"b"`},
		{`[.data.lines[] | .qty] | min, max | select(. > 2)`, `5`},
		{`.data.lines | any(.qty == 5) and all(.qty > 1)`, `true`},
		{`[.data.lines, [1]] | flatten | length`, `3`},
		{`.data.lines | map(.sku) | index("b")`, `1`},
		{`limit(1; .data.lines[])`, `{"qty":2,"sku":"a"}`},
	} {
		got, err := compile(t, c.text).Apply([]byte(invoice))
		if err != nil || string(got) != c.want {
			t.Errorf("%s is %s, %v; want %s", c.text, got, err, c.want)
		}
	}
}

func TestBadExpressions(t *testing.T) {
	for text, part := range map[string]string{
		`{`: "unexpected EOF", "{a: 1,\n b: }": `line 2, column 5: unexpected token "}"`, ``: "missing query", `nope`: "not defined: nope/0",
		`$x`:                                 "not defined: $x",
		strings.Repeat(" ", MaxLength) + ".": "at most 4096 are allowed",
		// These are not functions of the event.
		`now`: "now is not available", `env`: "env is not available", `$ENV.HOME`: "$ENV is not available",
		`[.[] | $ENV]`: "$ENV is not available",
		`input`:        "not allowed", `[inputs]`: "not allowed", `debug`: "not defined", `debug("x")`: "not defined",
		`input_filename`: "not defined",
		`stderr`:         "not defined",
		`localtime`:      "localtime is not available", `0 | strflocaltime("%Z")`: "strflocaltime is not available",
		`halt`:       "halt is not available",
		`halt_error`: "halt_error is not available", `builtins`: "builtins is not available", `"x" | modulemeta`: "not available",
		`@sh "\(now)"`:  "now is not available",
		`def f: now; f`: "now is not available", `import "a" as a; .`: "modules", `include "a"; .`: "modules", `import "a" as $a; .`: "modules",
		`get_search_list`: "not defined", `"2026" | strptime("%Y")`: "strptime is not available", `getpath(["a"])`: "getpath is not available",
		`_add(1; 2)`: "_add is not available", `def _f: 1; _f`: "_f is not available", `1 as $__meter | $__meter`: "not available",
		`def halt: 1; halt`:             "halt is not available",
		`.data | test("^(a{980})\(.)")`: "test: a pattern and its flags must be texts that stand in the expression",
		`.type | gsub(.id; "x")`:        "gsub: a pattern", `.type | test("a"; .id)`: "test: a pattern", `.type | test(["a", "i"])`: "test: a pattern",
		`.type | test("(")`: "missing closing )", `.type | test("(a{30}){30}b{200}")`: "more than 1000",
		strings.Repeat(`test("(a{30}){30}"),`, 6) + `1`: "more than 5000 steps together",
		`. as [$a] ?// $a | $a`:                         "?// is not available", `$__prog_args`: "not defined", `getpath(["a"]) | input_line_number`: "not defined",
	} {
		_, err := Compile(text, bounds.Fill(Bounds{}), time.Now)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.60q: %v, want %q", text, err, part)
		}
	}
}

// TestUnknownFormats: an expression that names a format jq does not have is not saved. A saved one
// goes on: events may never reach the format.
func TestUnknownFormats(t *testing.T) {
	for _, text := range []string{`@foo`, `{a: [.data | @foo "x\(.)"]}`, `"\("x" | @bas64)"`, `def f: @foo; .`,
		`if false then @foo else . end`} {
		if err := Check(text); err == nil || !strings.Contains(err.Error(), "is no format; use one of @text, @json") {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := Compile(text, bounds.Fill(Bounds{}), time.Now); err != nil {
			t.Errorf("%s, saved before: %v", text, err)
		}
	}
	for _, format := range formats {
		code, err := Compile(`"" | try `+format+` catch .`, bounds.Fill(Bounds{}), time.Now)
		if err != nil || Check(format) != nil || Check(format+` "\(.id)"`) != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if body, err := code.Apply([]byte(`{}`)); err != nil || strings.Contains(string(body), "not found") {
			t.Errorf("%s: %s, %v", format, body, err)
		}
	}
}

func TestWhatFailsSaysWhy(t *testing.T) {
	for text, part := range map[string]string{
		`.data + 1`: "cannot add", `.id.x`: "expected an object", `error("no total")`: "no total", `error({"a":1})`: `{"a":1}`,
		`empty`: "no result", `.id, .type`: "more than one result",
		`.id, error("x")`: "x", `.data.lines[] | .qty`: "more than one result", `.id | tonumber`: "tonumber",
		`[range(200000)] | map("abcdefgh") | add`:   "work",
		`error("` + strings.Repeat("é", 300) + `")`: "…", `"a" * 200000 | [., ., ., ., ., .]`: "1048576 bytes",
		`"\u0000" * 190000`: "1048576 bytes",
	} {
		got, err := compile(t, text).Apply([]byte(invoice))
		if err == nil || !strings.Contains(err.Error(), part) || len(err.Error()) > 300 {
			t.Errorf("%.60s is %.60s, %v; want %q", text, got, err, part)
		}
	}
	if _, err := compile(t, `.`).Apply([]byte(`{`)); err == nil {
		t.Error("what is no JSON was taken")
	}
}

// hostile are expressions that would take for ever, or all memory, in every way found so far.
var hostile = []string{
	`def f: f; f`,
	`def f: f | f; f`,
	`def f: 1 + f; f`,
	`def f: [f]; f`,
	`def f(x): f(x | x); f(.)`,
	`def f: f, f; [f]`,
	`[range(1e9)]`,
	`last(range(1e12))`,
	`[range(0; 1; 0)]`,
	`[range(infinite)]`,
	`reduce range(1e12) as $i (0; . + $i)`,
	`foreach range(1e12) as $i (0; .; empty)`,
	`[repeat(1)]`,
	`last(repeat(1))`,
	`[recurse(.)]`,
	`last(recurse([.]))`,
	`[limit(1e9; repeat("x"))]`,
	`0 | until(false; . + 1)`,
	`[0 | while(true; . + 1)]`,
	`label $f | repeat(.)`,
	`isempty(repeat(empty))`,
	`"a" * 1e9`,
	`"a" * 1e9 | length`,
	`1e9 * "a"`,
	`"abcdefgh" * 100000000`,
	`reduce range(60) as $i ("a"; . + .)`,
	`reduce range(60) as $i ("a"; . * 2)`,
	`reduce range(60) as $i ("a"; "\(.)\(.)")`,
	`reduce range(60) as $i ([0]; . + .)`,
	`reduce range(60) as $i ([0]; [., .])`,
	`reduce range(60) as $i (0; [., .]) | tojson`,
	`reduce range(60) as $i (0; [., .]) | . == .`,
	`reduce range(60) as $i (0; [., .]) | [.., 1] | length`,
	`reduce range(60) as $i (0; [., .]) | flatten`,
	`reduce range(60) as $i (0; {a: ., b: .}) | tostring`,
	`reduce range(60) as $i (0; [., .]) as $x | [$x, $x] | unique`,
	`reduce range(60) as $i (0; {a: ., b: .}) as $x | $x * $x`,
	`reduce range(60) as $i (0; [., .]) | @json`,
	`reduce range(60) as $i (0; [., .]) | error`,
	`reduce range(60) as $i (0; {a: ., b: .}) | error({v: .})`,
	`try (reduce range(60) as $i (0; [., .]) | error) catch error`,
	`reduce range(60) as $i ([["a"]]; [add(.[], .[])])`,
	`[range(1e5)] | [., .] | combinations`,
	`[[range(300)], [range(300)], [range(300)], [range(300)]] | [combinations]`,
	`.[1e9] = 1`,
	`[] | .[100000000] = 1`,
	`setpath([100000000]; 1)`,
	`[] | .[1e8:1e9] = [1]`,
	`reduce range(1e6) as $i ([]; .[$i * 1000] = 1)`,
	`null | .[20000000]` + ` |= 1`,
	`reduce range(40) as $i (3; . * .)`,
	`reduce range(40) as $i (99999999999999999999; . * .)`,
	`pow(2; 1e9)`,
	`"9" * 300000 | tonumber`,
	`"9" * 100000 | tonumber | . * . * . * .`,
	`"9" * 300000 | fromjson + 1`,
	`def f: . as $x | [$x, $x] | f; f`,
	`[range(3000)] | [., .] | transpose | length | error`,
	`[range(3000) | [1]] + [[range(300000)]] | transpose`,
	`[range(20000)] | . - .`,
	`[range(20000)] | contains(.)`,
	`[range(20000)] as $x | $x | inside($x)`,
	`[range(20000)] as $x | $x | indices($x[10000:])`,
	`[range(20000)] as $x | $x[$x[10:19000]]`,
	`[range(100000) | tostring] | sort | sort | sort | sort | group_by(.) | unique`,
	`[range(100000)] | join("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")`,
	`[range(50000)] | [.[] as $x | .[] as $y | $x + $y]`,
	`"a" * 100000 | [match("a"; "g")] | length`,
	`"a" * 100000 | gsub("a"; "b")`,
	`"a" * 100000 | gsub(""; "b")`,
	`"a" * 100000 | [match("a*?z|a"; "g")]`,
	`"a" * 100000 | [scan(".")]`,
	`"a" * 200000 | test("(a|aa|aaa)*(b|c)*(a|b|c)*d")`,
	`"a" * 200000 | test("(a?){500}a{500}")`,
	`test("` + strings.Repeat("(a|b)*", 90) + `")`,
	`"x" | test("(((a{30}){30}){30}){30}")`,
	`reduce range(1e6) as $i (0; "x" | test("a\($i)") | 0)`,
	`[range(1e6) | "x" | test("(a|b\(.))*c")]`,
	`"a" * 100000 | splits("a")`,
	`"a" * 100000 | [splits("")] | length`,
	`"a" * 1000 | sub("a"; "a" * 1000; "g")`,
	`0 | strftime("%1024d" * 10000)`,
	`[range(1e5)] | map(0 | strftime("%1024d"))`,
	`"2026" | strptime("%Y" * 100000)`,
	`"a" * 100000 | explode | implode | explode | implode | explode | implode`,
	`[.data.wide | first(.[]) as $x | range(1e6)] | length`,
	`.data.wide as $w | reduce range(1e6) as $i (0; first($w[]))`,
	`.data.deep as $w | reduce range(1e6) as $i (0; any($w[]; true))`,
	`.data.wide as $w | reduce range(1e6) as $i (0; $w | first(..))`,
	`.data.members as $w | reduce range(1e6) as $i (0; first($w[]))`,
	`.data.members as $w | reduce range(1e6) as $i (0; $w | keys | 0)`,
	`.data.members as $w | last(range(1e6) as $i | $w | to_entries[0])`,
	`.data.wide as $w | reduce range(1e6) as $i (0; $w | length)`,
	`.data.wide as $w | last(range(1e6) as $i | $w | .[1:] | .[0])`,
	`.data.wide as $w | last(range(1e6) as $i | $w | .[0] = 1 | .[0])`,
	`.data.wide |= (map(. + 1) | map(. + 1) | map(. + 1) | reverse | sort | add)`,
	`.data.wide | map(select(any(range(1e6); . < 0)))`,
	`.data.wide | del(.[])`,
	`.data.wide | delpaths([paths])`,
	`.data.wide | to_entries | from_entries`,
	`[.data.wide | tostream] | fromstream(.[])`,
	`.data.wide | [paths]`,
	`.data.wide | pick(.[])`,
	`.data.members | map_values(. as $x | [range(1e6)] | length)`,
	`.data.text | [scan("[a-z]")] | length | . as $n | [range($n)] | map(tostring) | add`,
	`.data.text | ascii_downcase | explode | map([.] | implode) | add`,
	`try (def f: f; f) catch 1`,
	`def f: try error catch f; f`,
	`def f: (try f catch 1) | f; f`,
	`[range(1e9)]? // 1`,
	`try ([range(1e9)]) catch (try ([range(1e9)]) catch 2)`,
	`.. |= (. as $x | [$x, $x])`,
	`def f: .. |= [.]; f | f | f | f | f | f | f | f | f | f`,
	`reduce range(1e5) as $i (0; [.]) | tojson`,
	`reduce range(1e5) as $i (0; [.])`,
	`reduce range(1e5) as $i (0; {a: .}) | [paths] | length`,
	`INDEX(range(1e7); .)`,
	`[range(1e7)] | IN(range(1e7))`,
	`input_line_number? // [range(1e9)]`,
	`ltrimstr("a" * 1e9)`,
	`[splits("a" * 1e9)]`,
	`getpath([range(1e9)])`,
	`path(recurse(.))`,
	`[path(..)] | [.[], .[]]`,
	`limit(1e9; range(1e9)) | select(. > 1e9)`,
	`@base64 "\("a" * 1e9)"`,
	`[.data.text, .data.text] | @csv | @html | @uri | @base64 | @sh | @json | @html | @uri | @html | @uri`,
	`walk(walk(walk(walk(.))))`,
	`def a: "\(.)\(.)\(.)\(.)\(.)\(.)\(.)\(.)"; def b: a|a|a|a|a|a|a|a; b|b|b|b|b`,
	`splits("(?:){1000}(?:){1000}")`,
	`"a" | test("a"; "g" * 1e9)`,
	`tojson * 1e6`,
	`.data.text * 1e6`,
	`getpath(["data", "text"]) |= . * 1e6`,
	`.data.wide | bsearch(1) , bsearch([range(1e9)])`,
	`.data.wide | min_by([range(1e5)])`,
	`ldexp(1; 1e9) | tojson | . * 1e8`,
	`"1" + "0" * 400000 | tonumber | tojson | tonumber | . + 1`,
	`[.data.wide, .data.wide] | transpose | transpose | transpose`,
}

// fat is an event of the largest size, filled with content that makes functions slow.
func fat() []byte {
	var members []string
	for i := range 6000 {
		members = append(members, fmt.Sprintf(`"m%d":%d`, i, i))
	}
	return fmt.Appendf(
		nil,
		`{"id":"evt_1","data":{"wide":[%s0],"members":{%s},"text":"%s","deep":%s1%s}}`,
		strings.Repeat("1,", 40_000),
		strings.Join(members, ","),
		strings.Repeat("lorem ipsum ", 3000),
		strings.Repeat("[", 60),
		strings.Repeat("]", 60),
	)
}

// tight is a fifth of the default work, so that each expression ends in a fifth of the time.
var tight = Bounds{Work: 10_000_000, Output: 1 << 20, Time: 100 * time.Millisecond}

// mostMade is the largest memory, garbage included, that the two tries of an expression may
// allocate.
const mostMade = 256 << 20

// TestHostileExpressions: each ends, with an error or a body of bounded size, after bounded work
// and memory.
func TestHostileExpressions(t *testing.T) {
	event, refused := fat(), 0
	for _, text := range hostile {
		began := time.Now()
		tr, err := Compile(text, tight, time.Now)
		if err != nil {
			refused++
			if says := err.Error(); !strings.Contains(says, "not available here") && !strings.Contains(says, "must be texts that stand in the expression") && !strings.Contains(says, "not defined") &&
				!strings.Contains(says, "the pattern compiles to") && !strings.Contains(says, "invalid repeat count") {
				t.Errorf("%s is refused without a clear sentence: %v", text, err)
			}
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body, err := tr.Apply(event)
		runtime.ReadMemStats(&after)
		made := after.TotalAlloc - before.TotalAlloc
		if took := time.Since(began); testing.Verbose() && (took > 200*time.Millisecond || made > 100<<20) {
			t.Logf("%6d ms %5d MiB  %s: %v", took.Milliseconds(), made>>20, text, err)
		}
		if made > mostMade {
			t.Errorf("%s makes %d MiB", text, made>>20)
		}
		if len(body) > 1<<20 {
			t.Errorf("%s gives %d bytes", text, len(body))
		}
		if err == nil && body == nil {
			t.Errorf("%s gives nothing", text)
		}
	}
	if t.Logf("%d of %d are refused", refused, len(hostile)); refused > len(hostile)/4 {
		t.Errorf("%d of %d do not compile", refused, len(hostile))
	}
}

// TestLongNumbersAreWork: reading a number of many digits takes long, in whatever call it is read.
func TestLongNumbersAreWork(t *testing.T) {
	event := []byte(`{"n":` + strings.Repeat("9", 100_000) + `,"zero":0.` + strings.Repeat("0", 100_000) + `}`)
	for _, text := range []string{`.n + .n`, `[.n, .n] | add`, `{a: .n, b: .n} | add`, `null | .[.zero]`, `[] | .[.zero] = 1`, `.zero as $n | [range(100)] | .[$n:] | length`, `[.zero, 1] | min`, `.zero | floor`} {
		if body, err := compile(t, text).Apply(event); !errors.Is(err, errWork) {
			t.Errorf("%s is %.60s, %v; want %v", text, body, err, errWork)
		}
	}
}

// TestWorkIsTheSameEachTime: the count does not depend on the machine, so an event that was too
// costly stays too costly, and the reverse.
func TestWorkIsTheSameEachTime(t *testing.T) {
	event := fat()
	tr := compile(t, `.data.members |= with_entries(.value += 1) | .data.text |= ascii_upcase | del(.data.deep)`)
	var used []int64
	for range 3 {
		m := newMeter(tr.bounds, time.Now)
		var all any
		if err := json.Unmarshal(event, &all); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.run(m, all); err != nil {
			t.Fatal(err)
		}
		used = append(used, m.left)
	}
	if used[0] != used[1] || used[1] != used[2] {
		t.Errorf("left are %v", used)
	}
}

// TestTheMachinesZoneHasNoEffect: names of time zones mean the same on all nodes.
func TestTheMachinesZoneHasNoEffect(t *testing.T) {
	defer func(zone *time.Location) { time.Local = zone }(time.Local)
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("JST", 9*60*60)} {
		time.Local = zone
		for text, want := range map[string]string{
			`"2026-01-02T03:04:05+0900" | fromdate`: `1767290645`, `"2026-01-02T03:04:05Z" | fromdateiso8601`: `1767323045`,
			`1767323045 | todate`: `"2026-01-02T03:04:05Z"`, `1767323045 | gmtime | mktime`: `1767323045`, `1767323045 | strftime("%H %Z")`: `"03 UTC"`,
			`1767323045 | gmtime | strftime("%H %Z")`: `"03 UTC"`, `"2026-01-02T03:04:05JST" | fromdate`: `cannot parse`,
		} {
			got, err := compile(t, text).Apply([]byte(invoice))
			if string(got) != want && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("in %s %s is %s, %v; want %s", zone, text, got, err, want)
			}
		}
	}
}

// TestManyAtOnce: concurrent evaluations share only a transform.
func TestManyAtOnce(t *testing.T) {
	tr, err := Compile(
		`if .n % 3 == 0 then [range(1e9)] else {n, twice: (.n * 2)} end`,
		bounds.Fill(Bounds{Work: tight.Work, Time: time.Minute}),
		time.Now,
	)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 6 {
				n := i*6 + j
				body, err := tr.Apply(fmt.Appendf(nil, `{"n":%d}`, n))
				switch {
				case n%3 == 0 && err == nil:
					t.Errorf("%d gave %s", n, body)
				case n%3 != 0 && (err != nil || string(body) != fmt.Sprintf(`{"n":%d,"twice":%d}`, n, 2*n)):
					t.Errorf("%d gave %s, %v", n, body, err)
				}
			}
		})
	}
	all.Wait()
}

// TestClockEndsWhatIsNotCounted: the clock ends uncounted work, and one stall of the machine is
// forgiven.
func TestClockEndsWhatIsNotCounted(t *testing.T) {
	for name, c := range map[string]struct {
		stalls int
		ends   bool
	}{"one stall": {1, false}, "always": {1 << 30, true}} {
		clock, left := time.Unix(0, 0), c.stalls
		now := func() time.Time {
			if left > 0 {
				left--
				clock = clock.Add(time.Hour)
			}
			return clock
		}
		b := bounds.Fill(Bounds{})
		tr, err := Compile(`[range(1000)] | length`, b, now)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := tr.Apply([]byte(invoice)); (err != nil) != c.ends {
			t.Errorf("%s: %s, %v", name, body, err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	for name, text := range map[string]string{"members": `{id, type, occurredAt: .timestamp, data}`,
		"lines": `.data.lines | map({(.sku): .qty}) | add`} {
		tr := compile(b, text)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tr.Apply([]byte(invoice)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		compile(b, `{id, type, occurredAt: .timestamp, data: (.data | with_entries(select(.value != null)))}`)
	}
}
