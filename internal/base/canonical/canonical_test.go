package canonical

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

func sumOf(t testing.TB, body string, ignore ...string) [32]byte {
	t.Helper()
	i, err := ParseIgnored(ignore)
	if err != nil {
		t.Fatal(err)
	}
	return i.Read([]byte(body)).Sum
}

func TestBodiesThatAreTheSame(t *testing.T) {
	for _, same := range [][]string{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, " {\n\t\"b\" : 2 ,\r\n \"a\":1 } "},
		{`{"a":{"x":1,"y":[1,{"p":1,"q":2}]}}`, `{"a":{"y":[1,{"q":2,"p":1}],"x":1}}`},
		{`{"\u0061":"\u00e9\/\n"}`, `{"a":"é/\u000a"}`},
		{`["\ud83d\ude00"]`, `["😀"]`, `["\uD83D\uDE00"]`},
		{`{}`, ` { } `},
		{`[]`, `[ ]`},
		{`true`, " true\n"},
	} {
		for _, other := range same[1:] {
			if sumOf(t, same[0]) != sumOf(t, other) {
				t.Errorf("%s and %s are not the same", same[0], other)
			}
		}
	}
}

func TestBodiesThatDiffer(t *testing.T) {
	all := []string{
		`{"id":9007199254740992}`,
		`{"id":9007199254740993}`,
		`{"id":9007199254740992.0}`,
		`{"id":"9007199254740992"}`,
		`{"id":1,"data":{"amount":5}}`,
		`{"id":1,"data":{"amount":999}}`,
		`{"id":1,"data":{}}`,
		`{"id":1,"data":null}`,
		`{"id":1}`,
		`{"a":1,"a":2}`,
		`{"a":2,"a":1}`,
		`{"a":1}`,
		`{"a":2}`,
		`{"a":[1,2]}`,
		`{"a":[2,1]}`,
		`{"a":[[1],2]}`,
		`{"a":[1,[2]]}`,
		`{"a":[12]}`,
		`{"a":[1],"b":2}`,
		`{"a":{"b":2}}`,
		`1`,
		`1.0`,
		`1e0`,
		`1E0`,
		`10e-1`,
		`-0`,
		`0`,
		`"1"`,
		`[1]`,
		`true`,
		`false`,
		`null`,
		`"true"`,
		`"null"`,
		`[]`,
		`{}`,
		`""`,
		`[[]]`,
		`[{}]`,
		`[""]`,
		`"\ud800"`,
		`"\ufffd"`,
		`"\udc00"`,
		`"\ud800x"`,
		`"\ud800\ud800"`,
		`"\udc00\ud800"`,
		`"é"`,
		`"e\u0301"`,
		`{"a":"b\",\"c\":\"d"}`,
		`{"a":"b","c":"d"}`,
		`{"":""}`,
		`{"":"a"}`,
		`{"a":""}`,
		`{"ab":"c"}`,
		`{"a":"bc"}`,
		`{"a":1,}`,
		`{"a":1}x`,
		`{"a"`,
		`{a:1}`,
		`01`,
		`1.`,
		`.5`,
		`+1`,
		`1e`,
		`tru`,
		`nul`,
		`"`,
		`"\x"`,
		`"\u12"`,
		"\"\x01\"",
		"\xff",
		`{"a":1`,
		`[1,]`,
		``,
		` `,
		`NaN`,
		strings.Repeat("[", 64) + strings.Repeat("]", 64),
		strings.Repeat("[", 65) + strings.Repeat("]", 65),
	}
	seen := map[[32]byte]string{}
	for _, body := range all {
		sum := sumOf(t, body)
		if before, there := seen[sum]; there {
			t.Errorf("%.40q and %.40q are taken for the same", before, body)
		}
		seen[sum] = body
	}
}

func TestWhatIsJSON(t *testing.T) {
	for body, want := range map[string]bool{
		`{}`: true, `1`: true, ` "x" `: true, ``: false, `{}{}`: false, "\"\xff\"": false, "\ufeff{}": false,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth):     true,
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1): false,
		strings.Repeat("[", 1<<20):                                        false,
		strings.Repeat(`{"a":`, 1<<18) + "1":                              false,
		`{"a":"` + strings.Repeat(`\u0041`, 1<<16) + `"}`:                 true,
		`{"a":` + strings.Repeat("1", 1<<16) + `}`:                        true,
	} {
		if got := new(Ignored).Read([]byte(body)); got.JSON != want {
			t.Errorf("%.40q is JSON: %v", body, got.JSON)
		}
	}
}

func TestIgnoredPaths(t *testing.T) {
	for _, c := range []struct {
		ignore []string
		a, b   string
		same   bool
	}{
		{[]string{"$.sent_at"}, `{"a":1,"sent_at":1}`, `{"a":1,"sent_at":{"x":[2]}}`, true},
		{[]string{"$.sent_at"}, `{"a":1,"sent_at":1}`, `{"a":1}`, true},
		{[]string{"$.sent_at"}, `{"a":1,"b":{"sent_at":1}}`, `{"a":1,"b":{"sent_at":2}}`, false},
		{[]string{"$.sent_at"}, `{"a":1,"sent_at":1}`, `{"a":2,"sent_at":1}`, false},
		{[]string{"$.a.b"}, `{"a":{"b":1,"c":2}}`, `{"a":{"b":2,"c":2}}`, true},
		{[]string{"$.a.b"}, `{"a":{"b":1,"c":2}}`, `{"a":{"b":1,"c":3}}`, false},
		{[]string{"$.a.b"}, `{"a":[{"b":1}]}`, `{"a":[{"b":2}]}`, false},
		{[]string{"$.items[*].sent_at"}, `{"items":[{"id":1,"sent_at":1},{"id":2,"sent_at":1}]}`, `{"items":[{"sent_at":7,"id":1},{"id":2}]}`,
			true},
		{[]string{"$.items[*].sent_at"}, `{"items":[{"id":1}]}`, `{"items":[{"id":2}]}`, false},
		{[]string{"$.items[1]"}, `{"items":[1,2,3]}`, `{"items":[1,9,3]}`, true},
		{[]string{"$.items[1]"}, `{"items":[1,2,3]}`, `{"items":[9,2,3]}`, false},
		{[]string{"$.*.at"}, `{"a":{"at":1},"b":{"at":1}}`, `{"a":{"at":2},"b":{"at":3}}`, true},
		{[]string{`$["odd.name"]["x]"]`}, `{"odd.name":{"x]":1,"y":1}}`, `{"odd.name":{"x]":2,"y":1}}`, true},
		{[]string{"$.a", "$.b[0].c"}, `{"a":1,"b":[{"c":1,"d":1}]}`, `{"a":2,"b":[{"c":2,"d":1}]}`, true},
		{[]string{"$.a"}, `{"a":1,"a":2,"b":1}`, `{"b":1}`, true},
		{[]string{"$.a"}, `{"\u0061":1,"b":1}`, `{"b":1}`, true},
		{[]string{"$[0]"}, `{"":1,"a":1}`, `{"":2,"a":1}`, false},
		{[]string{"$[0].at"}, `[{"at":1,"b":1}]`, `[{"at":2,"b":1}]`, true},
	} {
		if got := sumOf(t, c.a, c.ignore...) == sumOf(t, c.b, c.ignore...); got != c.same {
			t.Errorf("without %v: %s and %s the same: %v", c.ignore, c.a, c.b, got)
		}
	}
	for _, path := range []string{"", "a", "$", "$.", "$..a", "$a", "$.a[", "$.a[x]", "$.a[-1]", "$.a[01]", `$["a"`, `$["a`, "$[]",
		"$" + strings.Repeat(".a", 17)} {
		if _, err := parsePath(path); err == nil {
			t.Errorf("%q is taken for a path", path)
		}
	}
	if _, err := ParseIgnored(make([]string, 65)); err == nil {
		t.Error("65 paths are taken")
	}
}

// value is a JSON value as the test models it: independent of the code under test, and with numbers
// as written.
type value struct {
	kind    byte // o, a, s, l (literal)
	text    string
	names   []string
	members []value
}

func values(depth int) *rapid.Generator[value] {
	return rapid.Custom(func(t *rapid.T) value {
		kinds := "sl"
		if depth > 0 {
			kinds = "oasl"
		}
		v := value{kind: kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")]}
		switch v.kind {
		case 's':
			v.text = rapid.StringOfN(rapid.RuneFrom([]rune("aé😀\"\\\n/{}[],:1")), 0, 4, -1).Draw(t, "text")
		case 'l':
			v.text = rapid.SampledFrom([]string{"1", "1.0", "2", "12", "1e2", "-1", "0", "true", "false", "null"}).Draw(t, "literal")
		default:
			n := rapid.IntRange(0, 3).Draw(t, "size")
			for range n {
				v.names = append(v.names, rapid.SampledFrom([]string{"a", "b", "ab", "", "é", `"`}).Draw(t, "name"))
				v.members = append(v.members, values(depth-1).Draw(t, "member"))
			}
		}
		return v
	})
}

// canon is the identity of a value: the slow, obvious form.
func (v value) canon() string {
	switch v.kind {
	case 's':
		return fmt.Sprintf("s%q", v.text)
	case 'l':
		return "l" + v.text
	}
	var parts []string
	for i := range v.members {
		if v.kind == 'o' {
			parts = append(parts, fmt.Sprintf("%q:%s", v.names[i], v.members[i].canon()))
		} else {
			parts = append(parts, v.members[i].canon())
		}
	}
	if v.kind == 'o' {
		order := make([]int, len(parts))
		for i := range order {
			order[i] = i
		}
		sort.SliceStable(order, func(a, b int) bool { return v.names[order[a]] < v.names[order[b]] })
		sorted := make([]string, len(parts))
		for i, at := range order {
			sorted[i] = parts[at]
		}
		parts = sorted
	}
	return string(v.kind) + "(" + strings.Join(parts, "|") + ")"
}

// write writes the value in one of its many JSON forms.
func (v value) write(r *rand.Rand, out *strings.Builder) {
	space := func() { out.WriteString([]string{"", " ", "\n", "\t\r\n "}[r.IntN(4)]) }
	text := func(s string) {
		out.WriteByte('"')
		for _, c := range s {
			switch {
			case r.IntN(3) == 0 && c < 0x10000:
				fmt.Fprintf(out, `\u%04x`, c)
			case c >= 0x10000 && r.IntN(2) == 0:
				hi, lo := (c-0x10000)>>10+0xd800, (c-0x10000)&0x3ff+0xdc00
				fmt.Fprintf(out, `\u%04X\u%04x`, hi, lo)
			case c == '"' || c == '\\':
				out.WriteString(`\` + string(c))
			case c == '\n':
				out.WriteString(`\n`)
			case c == '/' && r.IntN(2) == 0:
				out.WriteString(`\/`)
			default:
				out.WriteRune(c)
			}
		}
		out.WriteByte('"')
	}
	space()
	switch v.kind {
	case 's':
		text(v.text)
	case 'l':
		out.WriteString(v.text)
	case 'a':
		out.WriteByte('[')
		for i, m := range v.members {
			if i > 0 {
				out.WriteByte(',')
			}
			m.write(r, out)
		}
		space()
		out.WriteByte(']')
	case 'o':
		// Any order is allowed in which members with the same name keep theirs.
		order := r.Perm(len(v.members))
		places := map[string][]int{}
		for i, at := range order {
			places[v.names[at]] = append(places[v.names[at]], i)
		}
		used := map[string]int{}
		final := make([]int, len(order))
		for i, name := range v.names {
			final[places[name][used[name]]] = i
			used[name]++
		}
		out.WriteByte('{')
		for i, at := range final {
			if i > 0 {
				out.WriteByte(',')
			}
			space()
			text(v.names[at])
			space()
			out.WriteByte(':')
			v.members[at].write(r, out)
		}
		space()
		out.WriteByte('}')
	}
	space()
}

// Two documents have the same sum, and the same text, exactly if their slow, obvious forms are
// equal. A text is its own text.
func TestSumsAgreeWithTheModel(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		a, b := values(3).Draw(t, "a"), values(3).Draw(t, "b")
		if rapid.Bool().Draw(t, "near") {
			b = nearly(t, a)
		}
		seed := rapid.Uint64().Draw(t, "seed")
		write := func(v value, n uint64) []byte {
			var out strings.Builder
			v.write(rand.New(rand.NewPCG(seed, n)), &out)
			return []byte(out.String())
		}
		none := new(Ignored)
		one, again, two := none.Read(write(a, 1)), none.Read(write(a, 2)), none.Read(write(b, 3))
		if !one.JSON || !again.JSON || !two.JSON {
			t.Fatalf("taken for no JSON: %s %s", write(a, 1), write(b, 3))
		}
		if one.Sum != again.Sum {
			t.Fatalf("%s and %s differ", write(a, 1), write(a, 2))
		}
		if (one.Sum == two.Sum) != (a.canon() == b.canon()) {
			t.Fatalf("%s and %s the same: %v", write(a, 1), write(b, 3), one.Sum == two.Sum)
		}
		textA, _ := none.Text(write(a, 1))
		textB, _ := none.Text(write(b, 3))
		if bytes.Equal(textA, textB) != (one.Sum == two.Sum) {
			t.Fatalf("%s and %s have the texts %s and %s", write(a, 1), write(b, 3), textA, textB)
		}
		if same, err := none.Text(textA); err != nil || !bytes.Equal(same, textA) || none.Read(textA) != one {
			t.Fatalf("%s becomes %s and then %s (%v)", write(a, 1), textA, same, err)
		}
	})
}

// nearly is a copy with one change somewhere.
func nearly(t *rapid.T, v value) value {
	c := v
	c.names, c.members = append([]string(nil), v.names...), append([]value(nil), v.members...)
	if len(c.members) > 0 && rapid.IntRange(0, 3).Draw(t, "deeper") > 0 {
		i := rapid.IntRange(0, len(c.members)-1).Draw(t, "which")
		c.members[i] = nearly(t, c.members[i])
		return c
	}
	switch {
	case len(c.members) > 1 && rapid.Bool().Draw(t, "swap"):
		c.members[0], c.members[1] = c.members[1], c.members[0]
	case len(c.members) > 0:
		c.members, c.names = c.members[1:], c.names[1:]
	case c.kind == 's':
		c.text += "a"
	case c.kind == 'l':
		c.text = "3"
	default:
		c.kind = 'o' + 'a' - c.kind
	}
	return c
}

func FuzzRead(f *testing.F) {
	for _, body := range []string{`{"a":[1,"x\ud83d",{"b":null}]}`, `{"a":1,"a":2}`, "[", `"\u00`, `1e+`, "\xff", `{"a":{"b":{"c":1}}}`} {
		f.Add([]byte(body))
	}
	paths, err := ParseIgnored([]string{"$.a.b", "$[*].c", "$.*[0]"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := new(Ignored).Read(body)
		if want := json.Valid(body) && utf8.Valid(body) && !deep(body); got.JSON != want {
			t.Fatalf("%q is JSON: %v, want %v", body, got.JSON, want)
		}
		if got.JSON {
			var compact bytes.Buffer
			if err := json.Compact(&compact, body); err != nil {
				t.Fatal(err)
			}
			if again := new(Ignored).Read(compact.Bytes()); again != got {
				t.Fatalf("%q and %q differ", body, compact.Bytes())
			}
		}
		if less := paths.Read(body); less.JSON != got.JSON || !got.JSON && less.Sum != got.Sum {
			t.Fatalf("%q: paths change what it is", body)
		}
	})
}

// deep says whether a document is nested deeper than an event may be, by the standard library.
func deep(body []byte) bool {
	d, depth := json.NewDecoder(bytes.NewReader(body)), 0
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > MaxDepth {
				return true
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

func BenchmarkRead(b *testing.B) {
	body := []byte(`{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event","created":1686089970,"data":{"object":{"id":"seti_1","text":"` +
		strings.Repeat("x", 600) + `","list":[1,2,3,{"b":1,"a":2}]}},"livemode":false,"type":"setup_intent.created"}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	none := new(Ignored)
	for b.Loop() {
		if !none.Read(body).JSON {
			b.Fatal("no JSON")
		}
	}
}
