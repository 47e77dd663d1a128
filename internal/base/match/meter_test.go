package match

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// bombs are filters that would run for long on large data. The first is nothing but simple steps;
// it is the measure of the others.
var bombs = []string{
	`event.data.l.all(x, event.data.l.all(y, event.data.l.all(z, x + y + z >= 0)))`,
	`event.data.l.all(x, x in event.data.l || true)`,
	`event.data.l.all(x, event.data.l == event.data.l)`,
	`event.data.l.all(x, event.data.m == event.data.m)`,
	`event.data.l.all(x, event.data.m != event.data.l)`,
	`event.data.l.all(x, event.data.ll == event.data.ll)`,
	`event.data.l.all(x, size(event.data.l + event.data.l) > 0)`,
	`event.data.l.map(x, event.data.l).size() > 0`,
	`event.data.l.map(x, event.data.l + event.data.l + event.data.l).all(y, y == event.data.l)`,
	`event.data.l.all(x, !event.data.s.matches("(a*)*(a|b)*(a?){50}$"))`,
	`event.data.l.all(x, !event.data.t.matches("^(a|a|a)*[ab]{300}c$"))`,
	`event.data.l.all(x, (event.data.s + event.data.s + event.data.s + event.data.s).size() > 0)`,
	`event.data.l.all(x, event.data.s < event.data.s + "b")`,
	`event.data.l.all(x, size(event.data.s) > 0)`,
	`event.data.l.all(x, event.data.s.endsWith(event.data.s))`,
	`event.data.l.all(x, !event.data.s.contains(event.data.t + "b"))`,
	`event.data.l.all(x, bytes(event.data.s) == bytes(event.data.s))`,
	`event.data.l.all(x, timestamp("2024-01-01T00:00:00Z").getHours("America/New_York") > -1)`,
	`event.data.l.all(x, string(x) != "q")`,
	`event.data.l.all(x, int(event.data.s) == 1 || true)`,
	`event.data.l.all(x, double(event.data.s) == 1.0 || true)`,
	`event.data.l.all(x, bool(event.data.s) || true)`,
	`event.data.l.all(x, timestamp(event.data.s) == timestamp(0) || true)`,
	`event.data.l.all(x, duration(event.data.s) == duration("1s") || true)`,
	`event.data.l.all(x, event.data.s.all(y, y) || true)`,
	`event.data.l.all(x, [event.data.s].all(y, y.exists(z, z)) || true)`,
	`event.data.l.all(x, event.data.s.map(y, y).size() == 1 || true)`,
	`event.data.l.all(x, event.data.s.matches("[` + distinct(1200) + `]{900}") || true)`,
	`[[1,2,3,4,5,6,7,8,9,10]].all(a, a.map(b, a.map(c, a.map(d, a.map(e, a.map(f, a.map(g, a)))))).size() > 0)`,
	`event.data.l.all(x, event == event.data || true)`,
	`event.data.l.all(x, [dyn(event)] == [] || true)`,
	doubled(40, `a + a`) + `.exists(a, a == a)`,
	doubled(40, `[a, a]`) + `.exists(a, a != a)`,
	doubled(40, `{"x": a, "y": a}`) + `.exists(a, {"x": a} == {"x": a})`,
	doubled(40, `a + a`) + `.exists(a, 2 in a)`,
	doubled(40, `[a, a]`) + `.exists(a, a in [1, a])`,
}

// doubled is a list of one value that contains another one twice, and that one a third twice, and
// so on.
func doubled(often int, twice string) string {
	return "[dyn([1])]" + strings.Repeat(".map(a, "+twice+")", often)
}

// distinct are characters of which no two follow each other, so that a class of them has one range
// for each.
func distinct(n int) string {
	all := make([]rune, n)
	for i := range all {
		all[i] = rune(0x4e00 + 2*i)
	}
	return string(all)
}

func heavy(t testing.TB) *grapnel.Event {
	numbers := make([]int, 40_000)
	lists := make([][]int, 20_000)
	for i := range lists {
		lists[i] = []int{1, 2, 3}
	}
	data, err := json.Marshal(map[string]any{
		"l": numbers, "ll": lists, "m": map[string]any{"a": numbers, "b": numbers},
		"s": strings.Repeat("a", 250_000), "t": strings.Repeat("a", 5_000),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &grapnel.Event{Data: data}
}

func (f *Filter) timed(v *view) (bool, time.Duration, error) {
	began := time.Now()
	ok, err := f.match(v)
	return ok, time.Since(began), err
}

func TestCostBombsAreStopped(t *testing.T) {
	v := &view{event: heavy(t)}
	if _, err := v.decode(); err != nil {
		t.Fatal(err)
	}
	var measure time.Duration
	for i, bomb := range bombs {
		f, err := Compile(bomb)
		if err != nil {
			t.Errorf("%s: %v", bomb, err)
			continue
		}
		ok, took, err := f.timed(v)
		if ok || err == nil || !strings.Contains(err.Error(), "limit exceeded") && !strings.Contains(err.Error(), "too long") {
			t.Errorf("%s is %v: %v", bomb, ok, err)
		}
		if i == 0 {
			measure = took
		}
		// the machine has other things to do
		for retry := 0; took > 50*measure && retry < 3; retry++ {
			_, again, _ := f.timed(v)
			took = min(took, again)
		}
		if took > 50*measure {
			t.Errorf("%s took %v, a filter of simple steps %v: its price is too low", bomb, took, measure)
		}
	}
}

// TestLongTextsHaveAPrice: all of a text is hashed to look it up, and copied if no time zone has
// its name.
func TestLongTextsHaveAPrice(t *testing.T) {
	for _, filter := range []string{`event.data.s in ["a", "b"]`, `event.data.s in {"a": 1}`, `!(event.data.s in [1, 2])`,
		`timestamp("2026-01-01T00:00:00Z").getMonth(event.data.s) == 1`} {
		f, err := Compile(filter)
		if err != nil {
			t.Fatal(err)
		}
		v := &view{event: heavy(t)}
		if _, err := f.match(v); v.cost < 250_000/charactersPer {
			t.Errorf("%s costs %d: %.80v", filter, v.cost, err)
		}
	}
}

// TestManyPatternsAreBounded: a filter stays in memory with its patterns as long as its endpoint
// exists, and they are compiled again at each start.
func TestManyPatternsAreBounded(t *testing.T) {
	calls := func(n int) string { return strings.Repeat(`"a".matches("^(a{990})") || `, n) + "true" }
	if err := Check(calls(140)); err == nil || !strings.Contains(err.Error(), "more than 5000 steps together") {
		t.Errorf("140 patterns: %v", err)
	}
	if err := CheckExpression(calls(140) + ` ? "x" : "y"`); err == nil || !strings.Contains(err.Error(), "more than 5000 steps together") {
		t.Errorf("140 patterns of an expression: %v", err)
	}
	if _, err := Compile(calls(140)); err != nil { // an earlier version has saved it
		t.Error(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := compileFilter(calls(5), filterLimit.whenSet())
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; err != nil || made > 8<<20 {
		t.Errorf("5 patterns: %v, made of %d MiB", err, made>>20)
	}
	if ok, err := f.match(&view{event: invoice()}); !ok || err != nil {
		t.Error(ok, err)
	}
}

func TestHonestFiltersOnLargeDataAreWithinTheLimit(t *testing.T) {
	v := &view{event: heavy(t)}
	for _, filter := range []string{
		`event.data.s.size() == 250000`,
		`event.data.s.startsWith("aaa") && event.data.s.contains("aab") == false`,
		`event.data.l[39999] == 0 && event.data.l.size() == 40000`,
		`0 in event.data.l`,
		`"m" in event.data`,
		`event.data.t.matches("^a+$")`,
		`event.data.ll.exists(x, x[1] == 2)`,
	} {
		f, err := Compile(filter)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := f.match(v); !ok || err != nil {
			t.Errorf("%s is %v: %v", filter, ok, err)
		}
	}
}

func TestDeepDataCanBeCompared(t *testing.T) {
	deep := strings.Repeat(`{"a":`, grapnel.MaxDepth-1) + `1` + strings.Repeat(`}`, grapnel.MaxDepth-1)
	f, err := Compile(`event.data == event.data`)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := f.Match(&grapnel.Event{Data: []byte(deep)}); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// TestLargeResultsAreNotBuilt: a result that contains a list many times is refused without a copy
// of each.
func TestLargeResultsAreNotBuilt(t *testing.T) {
	list := doubled(20, `a + a`) + "[0]"
	for text, part := range map[string]string{list: "a list, not", list + `.matches("a")`: "no such overload"} {
		f, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		e, err := CompileExpression("dyn(" + text + ")")
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, ofFilter := f.match(&view{event: invoice()})
		_, ofExpression := e.Text(&Request{})
		runtime.ReadMemStats(&after)
		for _, err := range []error{ofFilter, ofExpression} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", text, err, part)
			}
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > 1<<20 {
			t.Errorf("%s makes %d KiB", text, made>>10)
		}
	}
}
