package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const headSize = len(magic) + 4 + 4*8 + 4

// Owner is what the tables of a journal's owner say.
type Owner struct {
	Key        uint64
	Generation uint64 // of the journal with the batches that the tables lack
	Number     uint64 // of the last batch in them
	Frame      uint64 // of the last one in them that the journal had
}

// Read calls do with the payload of each frame that the tables lack, in their order. The first has
// the next number, and no number is left out. If the file is not the journal that the owner needs,
// or frames are missing or damaged, the error has ErrMissing in its chain, and do was not called.
func Read(path string, o Owner, do func(payload []byte) error) (upTo uint64, err error) {
	h, all, err := load(path, o.Key)
	if err != nil {
		return o.Number, err
	}
	highest := max(h.number, last(all))
	switch {
	case !h.whole:
		return o.Number, fmt.Errorf("%w: %s was cut off", ErrMissing, path)
	case h.generation != o.Generation:
		return o.Number, fmt.Errorf("%w: %s is an earlier or later journal of this database", ErrMissing, path)
	case h.number > o.Number:
		return o.Number, fmt.Errorf("%w: %s is newer than the database: it has no writes up to number %d, and the database ends at %d",
			ErrMissing, path, h.number, o.Number)
	case highest < o.Frame:
		return o.Number, fmt.Errorf("%w: %s is older than the database: it ends at number %d, and the database had %d from it",
			ErrMissing, path, highest, o.Frame)
	}
	for len(all) > 0 && all[0].number <= o.Number {
		all = all[1:]
	}
	for i, f := range all {
		if want := o.Number + 1 + uint64(i); f.number != want {
			return o.Number, fmt.Errorf("%w: %d comes after %d in %s", ErrMissing, f.number, want-1, path)
		}
	}
	upTo = o.Number
	for _, f := range all {
		if err := do(f.payload); err != nil {
			return upTo, fmt.Errorf("frame %d of %s: %w", f.number, path, err)
		}
		upTo = f.number
	}
	return upTo, nil
}

// Needless fails unless a database whose tables say that they need no journal can do without the
// one at path: if it has later batches, the tables are older than they were. No file, or one that
// was not finished, is fine.
func Needless(path string, key, number uint64) error {
	h, all, err := load(path, key)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNone):
		return nil
	case err != nil:
		return err
	}
	if highest := max(h.number, last(all)); highest > number {
		return fmt.Errorf("%w: the database ends at number %d, and %s has the later writes up to %d", ErrMissing, number, path, highest)
	}
	return nil
}

var errNone = errors.New("the file is no journal")

type read struct {
	number  uint64
	payload []byte
}

// last is the highest number of some frames.
func last(all []read) uint64 {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].number
}

// load reads the head and all valid frames of a journal.
func load(path string, key uint64) (h head, all []read, err error) {
	file, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h, nil, fmt.Errorf("%w: %s does not exist: %w", ErrMissing, path, err)
	case err != nil:
		return h, nil, err
	case len(file) < begin || string(file[:len(magic)]) != magic:
		return h, nil, fmt.Errorf("%w: %s: %w", ErrMissing, path, errNone)
	}
	if v := binary.LittleEndian.Uint32(file[len(magic):]); v != format {
		return h, nil, fmt.Errorf("%s has format %d, and this program reads %d: start and stop the program that wrote it once", path, v, format)
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(file[len(magic)+4+8*i:]) }
	h = head{key: key, half: int64(field(0)), generation: field(1), number: field(2), size: int64(field(3))}
	if h.half <= 0 || h.half > 1<<40 || string(h.bytes()) != string(file[:headSize]) {
		return h, nil, fmt.Errorf("%w: %s belongs to another database, or its beginning is damaged", ErrMissing, path)
	}
	h.whole = int64(len(file)) >= h.size
	first, rest := h.frames(part(file, begin, begin+h.half))
	second, other := h.frames(part(file, begin+h.half, begin+2*h.half))
	if len(first) > 0 && len(second) > 0 && second[0].number < first[0].number {
		first, second = second, first
	}
	all = append(first, second...)
	// A loss of power during Empty leaves some of the earlier frames. The tables have these.
	sound := max(last(all), h.number)
	for _, half := range [][]byte{rest, other} {
		if later := h.later(half, sound); later > 0 {
			return h, nil, fmt.Errorf("%w: %s is damaged: the frame after number %d is not valid, but the later frame %d is",
				ErrMissing, path, sound, later)
		}
	}
	return h, all, nil
}

func part(file []byte, from, to int64) []byte {
	to = min(to, int64(len(file)))
	return file[min(from, to):to]
}

// frames returns the frames of a half, and what follows the last one.
func (h *head) frames(half []byte) (all []read, rest []byte) {
	for before := uint64(0); ; {
		number, frame := h.frame(half, before)
		if frame == nil {
			return all, half
		}
		all = append(all, read{number, frame[Header:]})
		before, half = number, half[len(frame):]
	}
}

// frame is the valid frame at the beginning of some bytes, if its number is above another one.
func (h *head) frame(b []byte, above uint64) (number uint64, frame []byte) {
	if len(b) <= Header {
		return 0, nil
	}
	n := int64(binary.LittleEndian.Uint32(b))
	number = binary.LittleEndian.Uint64(b[8:])
	if n == 0 || n > int64(len(b))-Header || number <= above {
		return 0, nil
	}
	if frame = b[:Header+n]; h.sum(frame) != binary.LittleEndian.Uint32(b[4:]) {
		return 0, nil
	}
	return number, frame
}

// later looks for a frame above a number anywhere in some bytes. Frames of an earlier turn have
// lower numbers. Bytes that are no frame mostly fail at the number: it is not above all others by
// more than frames fit into the bytes.
func (h *head) later(b []byte, above uint64) uint64 {
	for ; len(b) > Header; b = b[1:] {
		n := binary.LittleEndian.Uint64(b[8:])
		for n == 0 && bytes.HasPrefix(b, zeros[:]) { // space without frames: no frame has number 0
			b = b[len(zeros)-Header:]
		}
		if n <= above || n-above > uint64(2*h.half) {
			continue
		}
		if number, frame := h.frame(b, above); frame != nil {
			return number
		}
	}
	return 0
}
