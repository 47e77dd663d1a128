// Package journal is a file of numbered frames. A frame that Write has returned for is on the disk:
// it survives the end of the process and of the machine.
//
// The file has two halves of the same size, written in turn. Its bytes are written before they are
// used, never given back, and used again and again, so that a sync changes no metadata of the file
// system. The blocks of both halves are reserved, so the journal goes on while the disk is full
// (Reserve, Confine).
//
// A frame is valid if its checksum is, which includes the key of the owner, the journal's
// generation and the frame's number. Numbers rise within a half. So bytes left by an earlier turn
// are no frames of this one: the checksum fails, or the number does not rise.
//
// Frames are synced one by one, so only the last one can be torn. An invalid frame that valid ones
// follow is damage, and Read says so.
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

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Bounds are the sizes of a journal; see package bounds.
type Bounds struct {
	// Half is the number of bytes of each half. A frame is at most an eighth of it.
	Half int64 `bound:"32MiB" tiny:"16KiB"`
	// Step is how many bytes are written at once, before they are used for the first time.
	Step int64 `bound:"1MiB" tiny:"4KiB"`
	// First is how many bytes of the first half are written from the beginning, and all that a full
	// disk leaves usable where Reserve can do nothing.
	First int64 `bound:"4MiB" tiny:"4KiB"`
}

// Header is the number of bytes that precede the payload of a frame. The caller of Write leaves
// them free.
const Header = 4 + 4 + 8 // length of the payload, checksum, number

// block is the size in which the file grows: a page of the kernel's cache.
const block = 4096

// zeros are what a journal has where nothing was written yet.
var zeros [block]byte

// begin is where the first half begins. Before it is the head.
const begin = block

const (
	magic  = "grapnel journal\n"
	format = 2
)

// ErrFailed is in the chain of an error after which the content of the disk is unknown. Nothing may
// be written any more.
var ErrFailed = errors.New("the journal failed")

// ErrMissing is in the chain of an error if the file is not the journal that the owner needs, or
// has not all frames that it needs.
var ErrMissing = errors.New("frames are missing")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Journal is an open journal.
type Journal struct {
	file   *os.File
	path   string
	own    os.FileInfo
	bounds Bounds
	head   head
	half   int64     // the one that is written: 0 or 1
	at     int64     // where in the file the next frame goes
	grown  int64     // the length of the file
	has    int64     // up to here it has blocks by Reserve
	clean  int64     // up to here it was written
	last   [2]uint64 // the highest number in each half; 0: none that its owner needs

	confined bool
}

// Create makes an empty journal at path, in place of another one, and makes its name durable. Its
// first blocks are allocated. number is that of the last batch that its owner's tables have.
func Create(path string, key, generation, number uint64, b Bounds) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: file, path: path, bounds: bounds.Fill(b), at: begin, grown: begin, clean: begin}
	first := begin + min(j.bounds.First, j.bounds.Half)
	j.head = head{key: key, half: j.bounds.Half, generation: generation, number: number, size: first}
	err = errors.Join(file.Chmod(0o600), j.zero(first), j.writeHead(), file.Sync(), SyncDirectory(path))
	if err == nil {
		j.own, err = file.Stat()
	}
	if err != nil {
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

// Room says whether a frame fits into the rest of the half, however large it is; if the journal is
// confined, whether a sixteenth of that does. If not, the owner calls Turn.
func (j *Journal) Room() bool {
	if j.confined {
		return j.Fits(j.Most() / 16)
	}
	return j.Fits(j.Most())
}

// Reserve gives the file the blocks that both halves need, so that no other program takes them, and
// says how many bytes are still missing. They are not written, and the file does not become longer:
// Write does that later. Reserve takes at most half of the free space, so that the owner's tables
// can grow on a small disk. Where the system cannot reserve blocks it does nothing.
func (j *Journal) Reserve() (missing int64) {
	end, at := begin+2*j.head.half, j.held()
	if want := min(end-at, free(j.file)/2/block*block); want > 0 {
		if reserve(j.file, at, want) == nil {
			j.has = at + want
		} else {
			_ = j.file.Truncate(j.grown) // gives a part back that was reserved
			j.has = 0
		}
	}
	return end - j.held()
}

// held is up to where the file has blocks.
func (j *Journal) held() int64 { return max(j.has, j.grown) }

// Fits says whether a frame with this payload fits into the rest of the half.
func (j *Journal) Fits(payload int) bool {
	end := begin + (j.half+1)*j.head.half
	if j.confined {
		end = min(end, j.held())
	}
	return j.at+int64(Header+payload) <= end
}

// Confine limits the journal to the blocks that it has, or does so no more.
func (j *Journal) Confine(confined bool) { j.confined = confined }

// End is where in the file the next frame goes.
func (j *Journal) End() int64 { return j.at }

// Other is the highest number in the half that Turn would write again; 0: none.
func (j *Journal) Other() uint64 { return j.last[1-j.half] }

// Last is the highest number of a frame since Create or Empty.
func (j *Journal) Last() uint64 { return max(j.last[0], j.last[1]) }

// Turn continues with the other half. The owner needs none of its frames any more.
func (j *Journal) Turn() {
	j.half = 1 - j.half
	j.at, j.last[j.half] = begin+j.half*j.bounds.Half, 0
}

// Write appends a frame and syncs it. The payload begins at frame[Header:]. An error without
// ErrFailed in its chain means that the bytes were not written, because the disk is full or the
// write failed: there is no frame, and a later call may succeed, which writes to the same bytes.
// After a failed sync it is unknown which bytes are on the disk, so that error has ErrFailed.
func (j *Journal) Write(number uint64, frame []byte) error {
	if n := len(frame) - Header; n <= 0 || n > j.Most() || !j.Fits(n) || number <= j.last[j.half] {
		return fmt.Errorf("%w: a frame of %d bytes with number %d does not belong at %d", ErrFailed, n, number, j.at)
	}
	if err := j.grow(j.at + int64(len(frame))); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-Header))
	binary.LittleEndian.PutUint64(frame[8:], number)
	binary.LittleEndian.PutUint32(frame[4:], j.head.sum(frame))
	if _, err := j.file.WriteAt(frame, j.at); err != nil {
		return err
	}
	if err := Sync(j.file); err != nil {
		return fmt.Errorf("%w: fsync: %w", ErrFailed, err)
	}
	if err := j.named(); err != nil {
		return err
	}
	j.at += int64(len(frame))
	j.last[j.half] = number
	if j.head.size == j.grown {
		return nil
	}
	j.head.size = j.grown // which is durable now
	_ = j.writeHead()     // the frame is durable, and with an earlier size a start has less to compare
	return nil
}

// named fails if the file has lost its name: the next process would not find the frames.
func (j *Journal) named() error {
	if there, err := os.Stat(j.path); err != nil || !os.SameFile(j.own, there) {
		return fmt.Errorf("%w: %s was removed or replaced while it was in use", ErrFailed, j.path)
	}
	return nil
}

// Committed notes that the owner has made a batch durable by itself, with a number of its own. It
// does not sync: after a loss of power less can be checked, and nothing is lost.
func (j *Journal) Committed(number uint64) error {
	j.head.number = number
	return j.writeHead()
}

func (j *Journal) writeHead() error {
	_, err := j.file.WriteAt(j.head.bytes(), 0)
	return err
}

// grow writes the file up to at least this place, before the first frame there. It writes block by
// block: of one large write the kernel's cache would make one large page, and each later frame
// would dirty all of that.
func (j *Journal) grow(to int64) error {
	if to <= j.clean {
		return nil
	}
	return j.zero(min(max(to, j.clean+j.bounds.Step), begin+2*j.head.half))
}

func (j *Journal) zero(to int64) error {
	for ; j.clean < to; j.clean += block {
		if _, err := j.file.WriteAt(zeros[:], j.clean); err != nil {
			return err
		}
		j.grown = max(j.grown, j.clean+block)
	}
	return nil
}

// Full says whether an error means that the file system has no space.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Empty removes all frames from the file, which keeps its blocks. Its owner needs none of them any
// more: its tables have all batches up to a number, and that is noted before.
func (j *Journal) Empty(number uint64) error {
	if err := errors.Join(j.Committed(number), j.file.Sync()); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	used := j.clean
	j.half, j.at, j.clean, j.last = 0, begin, begin, [2]uint64{}
	err := Zero(j.file, begin, used-begin)
	if err != nil {
		err = j.zero(used)
	}
	if err := errors.Join(err, j.file.Sync()); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return nil
}

func (h *head) bytes() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), format)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.half))
	b = binary.LittleEndian.AppendUint64(b, h.generation)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.size))
	return binary.LittleEndian.AppendUint32(b, crc32.Update(h.seed(), castagnoli, b))
}

// seed is the checksum of what all checksums of a journal begin with.
func (h *head) seed() uint32 {
	b := binary.LittleEndian.AppendUint64(nil, h.key)
	return crc32.Checksum(binary.LittleEndian.AppendUint64(b, h.generation), castagnoli)
}

// sum is the checksum of a frame: of the key, the generation, the length, the number and the
// payload.
func (h *head) sum(frame []byte) uint32 {
	return crc32.Update(crc32.Update(h.seed(), castagnoli, frame[:4]), castagnoli, frame[8:])
}

// head is what precedes the halves. It fits into one sector of a disk, so it is never torn.
type head struct {
	key        uint64 // of the owner: part of each checksum, and not in the file
	half       int64
	generation uint64 // drawn for each journal, and noted by its owner
	number     uint64 // of the last batch in the tables when the journal was made or emptied, or since without a frame
	size       int64  // that the file has at least
	whole      bool   // it has
}
