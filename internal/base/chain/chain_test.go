package chain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

// linked are lines with numbers from 1, and the head.
func linked(n int, after Hash) (lines [][]byte, head Hash) {
	head = after
	for i := range n {
		var line []byte
		line, head = Link(nil, fmt.Appendf(nil, `{"number":%d,"reason":"it is \u0022%d\u0022"}`, i+1, i), head)
		lines = append(lines, line)
	}
	return lines, head
}

func check(after, head *Hash, files ...[]byte) Report {
	return checkWithin(Bounds{}, after, head, files...)
}

func checkWithin(b Bounds, after, head *Hash, files ...[]byte) Report {
	c := NewChecker(after, b)
	for i, text := range files {
		c.File(fmt.Sprint("file ", i))
		for part := range slices.Chunk(text, 7) {
			_, _ = c.Write(part)
		}
	}
	return c.End(head)
}

func join(lines ...[]byte) []byte { return bytes.Join(lines, nil) }

// The form of a line is a promise to programs of others.
func TestALineIsWrittenInOneWay(t *testing.T) {
	line, head := Link([]byte("before\n"), []byte(`{"number":1}`), Hash{})
	covered := `{"number":1,"prev":"` + strings.Repeat("0", 64) + `"`
	sum := sha256.Sum256([]byte(covered))
	if want := "before\n" + covered + `,"hash":"` + hex.EncodeToString(sum[:]) + "\"}\n"; string(line) != want || head != sum {
		t.Errorf("the line is\n%s and its hash %s; want\n%s", line, head, want)
	}
	for _, text := range []string{"", head.String()[1:], head.String() + "0", strings.ToUpper(head.String()), strings.Repeat("g", 64)} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q is read as a hash", text)
		}
	}
}

// TestEveryChangeIsFound changes, removes, swaps, repeats and cuts, and looks at the reports.
func TestEveryChangeIsFound(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "lines")
		var after Hash
		if rapid.Bool().Draw(t, "continued") {
			after[3] = 7
		}
		lines, head := linked(n, after)
		is := check(&after, &head, lines...)
		if !is.Verified || is.Lines != n || is.First != 1 || is.Last != int64(n) || is.Head != head.String() {
			t.Fatalf("the whole chain, each line in a file of its own: %+v", is)
		}
		at := rapid.IntRange(0, n-1).Draw(t, "line")
		var want Kind
		changes := []string{"byte", "added byte", "line", "swap", "repeat", "cut", "replace", "other"}
		switch rapid.SampledFrom(changes).Draw(t, "change") {
		case "byte":
			i := rapid.IntRange(0, len(lines[at])-1).Draw(t, "byte")
			lines[at] = slices.Clone(lines[at])
			lines[at][i] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
			is := check(&after, &head, join(lines...))
			if is.Verified || is.Faults[0].Line != at+1 {
				t.Fatalf("byte %d of line %d is another: %+v", i, at+1, is)
			}
			return
		case "added byte":
			i := rapid.IntRange(0, len(lines[at])).Draw(t, "byte")
			lines[at] = slices.Insert(slices.Clone(lines[at]), i, byte(rapid.IntRange(0, 255).Draw(t, "value")))
			if is := check(&after, &head, join(lines...)); is.Verified || is.Faults[0].Line < at+1 || is.Faults[0].Line > at+2 {
				t.Fatalf("line %d has one more at %d: %+v", at+1, i, is)
			}
			return
		case "line":
			lines = slices.Delete(lines, at, at+1)
			if want = Missing; at == n-1 {
				want = Cut
			}
		case "swap":
			if n == 1 {
				t.Skip("there is one line")
			}
			at = min(at, n-2)
			lines[at], lines[at+1] = lines[at+1], lines[at]
			want = Moved
		case "repeat":
			lines = slices.Insert(lines, at+1, lines[at])
			at, want = at+1, Moved
		case "cut":
			whole := join(lines...)
			cut := rapid.IntRange(1, len(whole)).Draw(t, "bytes")
			if is := check(&after, &head, whole[:len(whole)-cut]); is.Verified {
				t.Fatalf("%d bytes at the end are missing: %+v", cut, is)
			}
			return
		case "replace": // by a line whose own hash is right
			prev := after
			if at > 0 {
				prev, _ = Parse(check(&after, nil, lines[:at]...).Head)
			}
			lines[at], _ = Link(nil, []byte(`{"number":99}`), prev)
			if at, want = at+1, Missing; at == n {
				want = Cut
			}
		case "other": // chain, which begins elsewhere
			after[0]++
			lines, head = linked(n, after)
			after[0]--
			at, want = 0, Missing
		}
		is = check(&after, &head, join(lines...))
		if is.Verified || is.Faults[0].Kind != want || want != Cut && is.Faults[0].Line != at+1 {
			t.Fatalf("want %s at line %d: %+v", want, at+1, is)
		}
	})
}

// TestWhatOnlyTheHeadShows: lines that are missing at the end, or that follow it.
func TestWhatOnlyTheHeadShows(t *testing.T) {
	lines, head := linked(5, Hash{})
	if is := check(&Hash{}, nil, join(lines[:3]...)); !is.Verified {
		t.Errorf("three of five lines without the head: %+v", is)
	}
	third, _ := Parse(check(&Hash{}, nil, join(lines[:3]...)).Head)
	if is := check(&Hash{}, &third, join(lines...)); is.Count != 1 || is.Faults[0].Kind != Extended {
		t.Errorf("two lines follow the head: %+v", is)
	}
	if is := check(&head, &head); !is.Verified || is.Head != head.String() {
		t.Errorf("nothing was exported since: %+v", is)
	}
	if is := check(nil, &head, join(lines[2:]...)); !is.Verified || is.First != 3 {
		t.Errorf("the end of a chain, wherever it begins: %+v", is)
	}
	if is := check(&Hash{}, &head); is.Verified {
		t.Errorf("nothing is taken for a chain: %+v", is)
	}
}

// TestFaultsAreBounded: a file that is none of a chain costs no more than its length.
func TestFaultsAreBounded(t *testing.T) {
	for _, b := range []Bounds{bounds.Fill(Bounds{}), {Line: 512, Faults: 1}} {
		is := checkWithin(b, &Hash{}, nil, bytes.Repeat([]byte("x\n"), 1000), bytes.Repeat([]byte("y"), 3*b.Line))
		if is.Lines != 1001 || is.Count != 1001 || len(is.Faults) != b.Faults {
			t.Errorf("%+v: %d lines, %d faults, of which %d", b, is.Lines, is.Count, len(is.Faults))
		}
	}
}
