package journal

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheWholeJournalIsReserved: the file has the blocks of both halves before anything is written
// there, it is not longer for it, and a confined journal uses all of them. Without Reserve it has
// those that were written.
func TestTheWholeJournalIsReserved(t *testing.T) {
	for _, reserves := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "journal")
		j, err := Create(path, 1, 0, 0, Bounds{Half: 256 << 10, Step: 4 << 10, First: 16 << 10})
		if err != nil {
			t.Fatal(err)
		}
		want, whole := begin+j.bounds.First, begin+2*j.bounds.Half
		if reserves {
			want = whole
			if missing := j.Reserve(); missing != 0 {
				t.Fatalf("%d bytes are not reserved", missing)
			}
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() != begin+j.bounds.First || reserves && Size(info) < whole {
			t.Errorf("the file has %d bytes and %d of blocks: %v", info.Size(), Size(info), err)
		}
		j.Confine(true)
		const payload = 1000
		written, number := int64(0), uint64(0)
		for range 2 {
			for j.Room() {
				number++
				if err := j.Write(number, framed(make([]byte, payload))); err != nil {
					t.Fatal(err)
				}
				written += payload + Header
			}
			j.Turn()
		}
		if least := want - 2*int64(j.Most()/16) - 2*payload - begin; written < least || written > want {
			t.Errorf("reserved: %v: %d bytes of frames fit, want %d", reserves, written, least)
		}
		if got, _, err := all(path, 1, 0); err != nil || uint64(len(got)) != number {
			t.Errorf("%d of %d frames are read: %v", len(got), number, err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}
