package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// small makes every turn and every allocation frequent.
var small = Bounds{Half: 4 << 10, Step: 512}

func framed(payload []byte) []byte { return append(make([]byte, Header), payload...) }

func create(t *testing.T, path string, key uint64) *Journal {
	t.Helper()
	j, err := Create(path, key, 0, 0, small)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// all reads the frames after a number.
func all(path string, key, after uint64) (payloads [][]byte, last uint64, err error) {
	last, err = Read(path, Owner{Key: key, Number: after}, func(p []byte) error {
		payloads = append(payloads, bytes.Clone(p))
		return nil
	})
	return payloads, last, err
}

// TestFramesAreReadAsWritten writes frames of all sizes over many turns. Their numbers leave out
// those of other transactions. After each it reads the frames that follow the last of these. If the
// last frame was written in part, or has a wrong byte, all frames before it are read.
func TestFramesAreReadAsWritten(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		path := filepath.Join(t.TempDir(), "journal")
		j := create(t, path, seed)
		number := uint64(r.IntN(5))
		after := number
		var want [][]byte
		turns := 0
		for range 250 {
			if r.IntN(15) == 0 { // a transaction that is not in the journal, and has all before it
				number++
				after, want = number, nil
			}
			payload := make([]byte, 1+r.IntN(j.Most()))
			for i := range payload {
				payload[i] = byte(r.Uint32())
			}
			if !j.Fits(len(payload)) {
				if j.Other() > after {
					after, want = number, nil // the owner fills
				}
				j.Turn()
				turns++
			}
			number++
			at := j.at
			if err := j.Write(number, framed(payload)); err != nil {
				t.Fatal(err)
			}
			want = append(want, payload)
			got, last, err := all(path, seed, after)
			if err != nil || last != number || !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("seed %d, number %d after %d: %d frames up to %d, want %d: %v", seed, number, after, len(got), last, len(want), err)
			}
			if r.IntN(10) == 0 {
				torn(t, r, path, seed, after, at, len(payload), want[:len(want)-1])
			}
		}
		if turns < 8 {
			t.Errorf("seed %d: only %d turns", seed, turns)
		}
	}
}

// torn damages a copy in the frame that begins at a place.
func torn(t *testing.T, r *rand.Rand, path string, key, after uint64, at int64, payload int, want [][]byte) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	where := at + r.Int64N(int64(Header+payload))
	if r.IntN(2) == 0 {
		file[where] ^= byte(1 + r.IntN(255))
	} else {
		clear(file[where : at+int64(Header+payload)])
	}
	copied := path + ".torn"
	if err := os.WriteFile(copied, file, 0o600); err != nil {
		t.Fatal(err)
	}
	got, _, err := all(copied, key, after)
	if err != nil || !slices.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("torn at %d of the frame at %d: %d frames, want %d: %v", where, at, len(got), len(want), err)
	}
}

func TestMissingFramesAreNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if _, _, err := all(path, 1, 0); !errors.Is(err, ErrMissing) {
		t.Errorf("without a file: %v", err)
	}
	j := create(t, path, 1)
	for n := uint64(5); n < 9; n++ {
		if err := j.Write(n, framed([]byte(fmt.Sprint(n)))); err != nil {
			t.Fatal(err)
		}
	}
	for after, want := range map[uint64]string{4: "5678", 6: "78", 8: "", 20: ""} {
		got, last, err := all(path, 1, after)
		if err != nil || string(bytes.Join(got, nil)) != want || last != max(after, 8) {
			t.Errorf("after %d: %q up to %d, %v", after, got, last, err)
		}
	}
	if _, _, err := all(path, 1, 3); !errors.Is(err, ErrMissing) {
		t.Errorf("frame 4 is missing: %v", err)
	}
	if got, _, err := all(path, 2, 4); !errors.Is(err, ErrMissing) {
		t.Errorf("with the key of another database: %q, %v", got, err)
	}
	if err := j.Write(8, framed([]byte("again"))); !errors.Is(err, ErrFailed) {
		t.Errorf("a number once more: %v", err)
	}
	if err := j.Empty(8); err != nil {
		t.Fatal(err)
	}
	if file, err := os.ReadFile(path); err != nil || len(file) != begin+int(small.Half) || len(bytes.Trim(file[begin:], "\x00")) > 0 {
		t.Errorf("an empty journal has %d bytes: %v", len(file), err)
	}
	if got, _, err := all(path, 1, 8); err != nil || len(got) != 0 {
		t.Errorf("an empty journal has %q, %v", got, err)
	}
	if _, _, err := all(path, 1, 3); !errors.Is(err, ErrMissing) {
		t.Errorf("it was emptied after number 8, and the tables have 3: %v", err)
	}
	if err := os.WriteFile(path, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := all(path, 1, 3); !errors.Is(err, ErrMissing) {
		t.Errorf("another file: %v", err)
	}
}

// TestEmptyingIsCutOff: of the zeros that Empty writes the power leaves any. What they spared is
// neither damage nor a later write, and frames that follow are read.
func TestEmptyingIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := create(t, path, 1)
	for n := uint64(1); n < 6; n++ {
		if err := j.Write(n, framed(bytes.Repeat([]byte{byte(n)}, 300))); err != nil {
			t.Fatal(err)
		}
	}
	full, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Empty(5); err != nil {
		t.Fatal(err)
	}
	empty, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for spared := range 8 {
		at := begin + spared*512
		file := slices.Concat(empty[:at], full[at:at+512], empty[at+512:])
		file = slices.Concat(file[:begin+1024], full[begin+1024:begin+2048], file[begin+2048:])
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, last, err := all(path, 1, 5); err != nil || len(got) != 0 || last != 5 {
			t.Errorf("part %d is left: %q up to %d, %v", spared, got, last, err)
		}
	}
}

// TestDamageIsNoEnd: a frame with a wrong byte that a valid one follows is damage, in whichever
// half it is. Of the last frame it cannot be told from a torn write.
func TestDamageIsNoEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := create(t, path, 1)
	var begins []int64
	for n := uint64(1); n < 12; n++ {
		payload := bytes.Repeat([]byte{byte(n)}, 400)
		if !j.Fits(len(payload)) {
			j.Turn()
		}
		begins = append(begins, j.at)
		if err := j.Write(n, framed(payload)); err != nil {
			t.Fatal(err)
		}
	}
	if begins[10] < begin+small.Half || begins[0] != begin {
		t.Fatalf("frames begin at %d", begins)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for frame, at := range begins {
		for byteOf := 0; byteOf < Header+400; byteOf += 5 {
			damaged := bytes.Clone(whole)
			damaged[at+int64(byteOf)] ^= 1 << (byteOf % 8)
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, _, err := all(path, 1, 0); (err == nil) != (frame == 10) || err == nil && len(got) != 10 {
				t.Fatalf("frame %d, byte %d: %d frames, %v", frame+1, byteOf, len(got), err)
			}
		}
	}
}

// FuzzRead reads files of any content: it never panics, and numbers only rise.
func FuzzRead(f *testing.F) {
	path := filepath.Join(f.TempDir(), "journal")
	j, err := Create(path, 1, 0, 0, small)
	if err != nil {
		f.Fatal(err)
	}
	for n := range uint64(3) {
		if err := j.Write(n+1, framed([]byte("payload"))); err != nil {
			f.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add(file[:begin+3])
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		last, err := Read(path, Owner{Key: 1}, func([]byte) error { n++; return nil })
		if err == nil && last != n {
			t.Errorf("%d frames up to number %d", n, last)
		}
	})
}

// TestAFrameIsFoundBehindZeros: no place behind space that was never written hides a frame.
func TestAFrameIsFoundBehindZeros(t *testing.T) {
	h := head{half: 1 << 20}
	frame := framed([]byte("payload"))
	binary.LittleEndian.PutUint32(frame, uint32(len("payload")))
	binary.LittleEndian.PutUint64(frame[8:], 7)
	binary.LittleEndian.PutUint32(frame[4:], h.sum(frame))
	for gap := range 2*block + 100 {
		if found := h.later(append(make([]byte, gap), frame...), 3); found != 7 {
			t.Fatalf("behind %d zeros: %d", gap, found)
		}
	}
}
