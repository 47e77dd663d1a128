package journal

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// owned is a journal whose owner does something after the part before a place was read.
type owned struct {
	file      *os.File
	place     int64
	meanwhile func() // nil: done
}

func (o *owned) ReadAt(p []byte, at int64) (int, error)   { return o.file.ReadAt(p, at) }
func (o *owned) Seek(at int64, whence int) (int64, error) { return o.file.Seek(at, whence) }
func (o *owned) Read(p []byte) (n int, err error) {
	n, err = o.file.Read(p[:min(len(p), 512)])
	if at, _ := o.file.Seek(0, io.SeekCurrent); at >= o.place && o.meanwhile != nil {
		do := o.meanwhile
		o.meanwhile = nil
		do()
	}
	return n, err
}

// TestACopyBesideItsOwner: while a journal is copied its owner ends a half that was copied already
// and begins the other one, or empties the file. No frame is missing in the copy.
func TestACopyBesideItsOwner(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(j *Journal, write func())
		after     uint64 // the owner needs the frames after this one
		want      string
	}{
		"the other half": {func(j *Journal, write func()) { write(); j.Turn(); write() }, 2, "cde"},
		"emptied": {func(j *Journal, write func()) {
			if err := j.Empty(3); err != nil {
				t.Error(err)
			}
			write()
		}, 3, "d"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			j, number := create(t, path, 1), uint64(0)
			write := func() {
				number++
				if err := j.Write(number, framed([]byte{'a' + byte(number) - 1})); err != nil {
					t.Error(err)
				}
			}
			write()
			j.Turn()
			write()
			j.Turn()
			write()
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			from := &owned{file, begin + 512, func() { c.meanwhile(j, write) }}
			content, err := consistent(from)
			if err == nil {
				err = os.WriteFile(path+".copy", content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			payloads, last, err := all(path+".copy", 1, c.after)
			got := ""
			for _, p := range payloads {
				got += string(p)
			}
			if err != nil || got != c.want || last != number {
				t.Errorf("after %d: %q up to %d, want %q up to %d: %v", c.after, got, last, c.want, number, err)
			}
		})
	}
}
