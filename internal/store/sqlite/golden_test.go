package sqlite

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/store/codec"
)

var update = flag.Bool("update", false, "write the entries of kinds that are not in testdata/entries.txt")

// TestEntriesAreFrozen reads entries of each kind as they were written when the kind was new: a
// journal of an earlier program has such bytes after a kill. A kind whose fields change gets a new
// number, and a line that is there is never changed.
func TestEntriesAreFrozen(t *testing.T) {
	const path = "testdata/entries.txt"
	text, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	frozen := make(map[int][]byte)
	for line := range strings.Lines(string(text)) {
		var kind int
		var written string
		if _, err := fmt.Sscan(line, &kind, &written); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if frozen[kind], err = hex.DecodeString(written); err != nil {
			t.Fatal(err)
		}
	}
	for kind := 1; anew(kind) != nil; kind++ {
		e := anew(kind)
		fillIn(rand.New(rand.NewPCG(uint64(kind), 3)), reflect.ValueOf(e).Elem(), leftOut)
		f := codec.Into(nil)
		writeEntry(f, e)
		if frozen[kind] == nil && *update {
			text = fmt.Appendf(text, "%d %x\n", kind, f.Bytes())
			continue
		}
		if !bytes.Equal(f.Bytes(), frozen[kind]) {
			t.Errorf("an entry of kind %d is written in another way than before: give it a new number, and go on reading the former", kind)
		}
		from := codec.From(frozen[kind])
		got := 0
		codec.Number(from, &got)
		back := anew(got)
		back.flow(from)
		if err := from.End(); err != nil {
			t.Errorf("kind %d cannot be read: %v", kind, err)
			continue
		}
		same(t, fmt.Sprintf("%T", e), reflect.ValueOf(e).Elem(), reflect.ValueOf(back).Elem(), leftOut)
		delete(frozen, kind)
	}
	for kind := range frozen {
		if !*update {
			t.Errorf("entries of kind %d cannot be read any more", kind)
		}
	}
	if *update {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
