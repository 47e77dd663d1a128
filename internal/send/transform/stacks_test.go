package transform

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// recursions are expressions whose stacks grow as long as they may.
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
}

// TestStacksAreBounded: a recursion ends when its stacks have used their memory, and says so.
// Thirty-two processors evaluate sixteen at once (the half), and all of them together take less
// than 256 MiB. Counted are the bytes of the stacks, and all bytes that are allocated meanwhile.
func TestStacksAreBounded(t *testing.T) {
	const processors, all = 32, 256 << 20
	b := bounds.Fill(Bounds{Time: time.Hour})
	for _, text := range recursions {
		tr, err := Compile(text, b, time.Now)
		if err != nil {
			t.Fatal(text, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = tr.Apply([]byte(`{"data":{}}`))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s ends with a result", text)
		}
		peak, made := tr.idle[0].meter.peak, int64(after.TotalAlloc-before.TotalAlloc)
		t.Logf("%4d KiB of stacks, %4d MiB made: %s: %v", peak>>10, made>>20, text, err)
		// between two looks the slice that grows last may become half as large again
		if peak > 3*b.Stacks/2 || !errors.Is(err, errHeld) || processors/2*peak > all {
			t.Errorf("%s: its stacks take %d KiB: %v", text, peak>>10, err)
		}
		if made > 40<<20 {
			t.Errorf("%s makes %d MiB", text, made>>20)
		}
	}
}
