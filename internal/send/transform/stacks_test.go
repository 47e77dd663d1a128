package transform

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// recursions are expressions whose stacks would grow as long as they may.
var recursions = []string{
	`def f: [f,f]; f`,
	`def f: f|f; f`,
	`def f: . as $a|f|$a; f`,
	`def f: {a: f, b: f}; f`,
	`def f: 1 + f; f`,
	`def f: try f catch f; [f]`,
	`def f: f, f; f`,
	`def f(g): f(g|g); f(.)`,
	`def f: path(f); f`,
	`def f: .a |= f; f`,
	`def f: reduce f as $x (0; f); f`,
	`def f: [.[]?, f] | f; f`,
	`def f: def g: f; g; f`,
	`[def f: @json "\(f)"; f]`,
	`def loop: if .n >= 8000 then .n else .n += 1 | loop end; {n: 0} | loop`,
	`def sum: if . == 0 then 0 else . + (. - 1 | sum) end; 4000 | sum`,
	`.data.wide as $w | def f: $w | map(f); f`,
	`.data.wide as $w | def f: $w | .. | f; f`,
	`.data.wide as $w | def f: $w | any(f); f`,
	`.data.wide as $w | def f: $w | sort_by(f); f`,
}

// TestStacksAreBounded: a call inside of its own function would leave things on the stacks that no
// bound sees, so an expression with one is refused when it is saved. The functions of jq that call
// themselves leave little for each unit of work.
func TestStacksAreBounded(t *testing.T) {
	for _, text := range recursions {
		if err := Check(text); err == nil || !strings.Contains(err.Error(), "calls itself, which is not available here; use until, recurse or walk") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{`def f: def g: 1; g; f`: "1", `def f(f): f; f(2)`: "2", `def f(g): g; f(f(3))`: "3", `def f: 4; def g: f; g`: "4",
		`{n: 0} | until(.n >= 8000; .n += 1) | .n`: "8000", `reduce range(4001) as $n (0; . + $n)`: "8002000"} {
		if body, err := compile(t, text).Apply([]byte(`{}`)); string(body) != want || err != nil {
			t.Errorf("%s: %s, %v", text, body, err)
		}
	}
	for _, text := range []string{`last(recurse([.]))`, `last(recurse(.))`, `last(repeat(., 1))`, `last(0 | while(true; . + 1))`, `0 | until(false; . + 1)`,
		`last(recurse(.; true))`, `[limit(1e9; recurse(empty, .))]`, `last(recurse(recurse(.)))`,
		`last(repeat(repeat(1)))`, `last(0 | while(true; ., .))`, `0 | until(false; ., .)`, `def f(g): g | g; last(f(f(f(recurse(.)))))`} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := compile(t, text).Apply([]byte(`{"data":{}}`))
		runtime.ReadMemStats(&after)
		made := (after.TotalAlloc - before.TotalAlloc) >> 20
		if t.Logf("%d MiB made: %s", made, text); !errors.Is(err, errWork) || made > 56 {
			t.Errorf("%s makes %d MiB: %v", text, made, err)
		}
	}
}
