// Package journal is a file of numbered frames. A frame that Write has returned for is on the disk:
// it survives the end of the process and of the machine.
//
// The file has two halves of the same size, written in turn. Its bytes are allocated before they
// are used, and used again and again, so that a sync changes no metadata of the file system. A
// frame is valid if its checksum is, which includes the key of the journal and the frame's number.
// Numbers rise within a half. So bytes left by an earlier turn are no frames of this one: the
// checksum fails, or the number does not rise.
//
// The owner says which frames it needs no more (Turn, Empty). It calls all methods from one
// goroutine.
package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/grapnelhq/grapnel/internal/bounds"
)

// Bounds are the sizes of a journal; see package bounds.
type Bounds struct {
	// Half is the number of bytes of each half. A frame is at most an eighth of it.
	Half int64 `bound:"32MiB" tiny:"16KiB"`
	// Step is how many bytes are allocated at once, before they are used for the first time.
	Step int64 `bound:"1MiB" tiny:"4KiB"`
}

// Header is the number of bytes that precede the payload of a frame. The caller of Write leaves
// them free.
const Header = 4 + 4 + 8 // length of the payload, checksum, number

// block is the size in which the file grows: a page of the kernel's cache.
const block = 4096

// begin is where the first half begins. Before it are magic, version and size of a half.
const begin = block

const (
	magic  = "grapnel journal\n"
	format = 1
)

// ErrFailed is in the chain of an error after which the content of the disk is unknown. Nothing may
// be written any more.
var ErrFailed = errors.New("the journal failed")

// ErrMissing is in the chain of Read's error if frames that the owner needs are not there.
var ErrMissing = errors.New("frames are missing")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Journal is an open journal.
type Journal struct {
	file   *os.File
	bounds Bounds
	key    uint64
	half   int64     // the one that is written: 0 or 1
	at     int64     // where in the file the next frame goes
	grown  int64     // the length of the file
	last   [2]uint64 // the highest number in each half; 0: none that its owner needs
}

// Create makes an empty journal at path, in place of another one, and makes its name durable.
func Create(path string, key uint64, b Bounds) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: file, bounds: bounds.Fill(b), key: key}
	if err := errors.Join(file.Chmod(0o600), j.begin(), SyncDirectory(path)); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(path))
	}
	return j, nil
}

// SyncDirectory makes the name of a file durable.
func SyncDirectory(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Remove removes the journal at path, if there is one.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Close closes the file and leaves it.
func (j *Journal) Close() error { return j.file.Close() }

// Most is the largest payload of a frame.
func (j *Journal) Most() int { return int(j.bounds.Half/8) - Header }

// Fits says whether a frame with this payload fits into the rest of the half. If not, the owner
// calls Turn before Write.
func (j *Journal) Fits(payload int) bool {
	return j.at+int64(Header+payload) <= begin+(j.half+1)*j.bounds.Half
}

// End is where in the file the next frame goes.
func (j *Journal) End() int64 { return j.at }

// Other is the highest number in the half that Turn would write again; 0: none.
func (j *Journal) Other() uint64 { return j.last[1-j.half] }

// Turn continues with the other half. The owner needs none of its frames any more.
func (j *Journal) Turn() {
	j.half = 1 - j.half
	j.at, j.last[j.half] = begin+j.half*j.bounds.Half, 0
}

// Write appends a frame and syncs it. The payload begins at frame[Header:]. An error without
// ErrFailed in its chain means that the disk is full: nothing was written, and a later call may
// succeed.
func (j *Journal) Write(number uint64, frame []byte) error {
	if n := len(frame) - Header; n <= 0 || n > j.Most() || !j.Fits(n) || number <= j.last[j.half] {
		return fmt.Errorf("%w: a frame of %d bytes with number %d does not belong at %d", ErrFailed, n, number, j.at)
	}
	if err := j.grow(j.at + int64(len(frame))); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-Header))
	binary.LittleEndian.PutUint64(frame[8:], number)
	binary.LittleEndian.PutUint32(frame[4:], j.sum(frame))
	if _, err := j.file.WriteAt(frame, j.at); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	if err := Sync(j.file); err != nil {
		return fmt.Errorf("%w: fsync: %w", ErrFailed, err)
	}
	j.at += int64(len(frame))
	j.last[j.half] = number
	return nil
}

// sum is the checksum of a frame: of the key, the number, the length and the payload.
func (j *Journal) sum(frame []byte) uint32 {
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], j.key)
	sum := crc32.Checksum(key[:], castagnoli)
	sum = crc32.Update(sum, castagnoli, frame[:4])
	return crc32.Update(sum, castagnoli, frame[8:])
}

// grow allocates the file up to at least this length. It writes block by block: of one large write
// the kernel's cache would make one large page, and each later frame would dirty all of that.
func (j *Journal) grow(to int64) error {
	var zeros [block]byte
	for end := j.grown + j.bounds.Step; j.grown < to; end += j.bounds.Step {
		for ; j.grown < end; j.grown += block {
			if _, err := j.file.WriteAt(zeros[:], j.grown); err != nil {
				if Full(err) {
					return err
				}
				return fmt.Errorf("%w: %w", ErrFailed, err)
			}
		}
	}
	return nil
}

// Full says whether an error means that the file system has no space.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// begin writes what precedes the halves.
func (j *Journal) begin() error {
	head := make([]byte, begin)
	n := copy(head, magic)
	binary.LittleEndian.PutUint32(head[n:], format)
	binary.LittleEndian.PutUint64(head[n+4:], uint64(j.bounds.Half))
	if _, err := j.file.WriteAt(head, 0); err != nil {
		return err
	}
	return j.Empty()
}

// Empty removes all frames, also from the blocks of the file, which go back to the file system. Its
// owner needs none of them any more.
func (j *Journal) Empty() error {
	if err := errors.Join(j.file.Truncate(begin), j.file.Sync()); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	j.half, j.at, j.grown, j.last = 0, begin, begin, [2]uint64{}
	return nil
}

// Read calls do with the payload of each frame after a number, in their order. The first has the
// next number, and no number is left out; else the error has ErrMissing in its chain, before do was
// called. A file that does not exist, or is no journal, has no frames.
func Read(path string, key, after uint64, do func(payload []byte) error) (last uint64, err error) {
	file, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return after, fmt.Errorf("%w: %s does not exist", ErrMissing, path)
	case err != nil:
		return after, err
	case len(file) < begin || string(file[:len(magic)]) != magic:
		return after, fmt.Errorf("%w: %s is no journal", ErrMissing, path)
	}
	if v := binary.LittleEndian.Uint32(file[len(magic):]); v != format {
		return after, fmt.Errorf("%s has format %d, and this program reads %d", path, v, format)
	}
	half := int64(binary.LittleEndian.Uint64(file[len(magic)+4:]))
	if half <= 0 || half > 1<<40 {
		return after, fmt.Errorf("%w: %s has halves of %d bytes", ErrMissing, path, half)
	}
	j := Journal{key: key}
	first := j.frames(part(file, begin, begin+half), after)
	second := j.frames(part(file, begin+half, begin+2*half), after)
	if len(first) > 0 && len(second) > 0 && second[0].number < first[0].number {
		first, second = second, first
	}
	all := append(first, second...)
	for i, f := range all {
		if want := after + 1 + uint64(i); f.number != want {
			return after, fmt.Errorf("%w: %d comes after %d in %s", ErrMissing, f.number, want-1, path)
		}
	}
	last = after
	for _, f := range all {
		if err := do(f.payload); err != nil {
			return last, fmt.Errorf("frame %d of %s: %w", f.number, path, err)
		}
		last = f.number
	}
	return last, nil
}

func part(file []byte, from, to int64) []byte {
	to = min(to, int64(len(file)))
	return file[min(from, to):to]
}

type read struct {
	number  uint64
	payload []byte
}

// frames returns the frames of a half that come after a number.
func (j *Journal) frames(half []byte, after uint64) (all []read) {
	for before := uint64(0); len(half) > Header; {
		n := int64(binary.LittleEndian.Uint32(half))
		number := binary.LittleEndian.Uint64(half[8:])
		if n == 0 || n > int64(len(half))-Header || number <= before {
			return all
		}
		frame := half[:Header+n]
		if j.sum(frame) != binary.LittleEndian.Uint32(half[4:]) {
			return all
		}
		if before = number; number > after {
			all = append(all, read{number, frame[Header:]})
		}
		half = half[len(frame):]
	}
	return all
}
