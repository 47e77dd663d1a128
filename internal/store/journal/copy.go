package journal

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// Copy copies the journal at path to a new file. Its owner may go on writing: the copy has all
// frames that were written before, and no frame is missing between two that the owner still needs.
func Copy(path, to string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	into, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(copyFrames(from, into), into.Close())
}

// copyFrames copies anew if a half was begun meanwhile: the other half may have been copied before
// its last frames were written, while the copy has the frames after them.
func copyFrames(from source, into *os.File) error {
	for begun := firsts(from); ; {
		_, err := from.Seek(0, io.SeekStart)
		if err == nil {
			_, err = into.Seek(0, io.SeekStart)
		}
		if err == nil {
			err = into.Truncate(0)
		}
		if err == nil {
			_, err = io.Copy(into, from)
		}
		before := begun
		if begun = firsts(from); err != nil || begun == before {
			return err
		}
	}
}

// source is an open journal.
type source interface {
	io.ReadSeeker
	io.ReaderAt
}

// firsts are the headers of the first frame in each half, zeros where none is.
func firsts(file io.ReaderAt) (all [2][Header]byte) {
	var size [8]byte
	_, _ = file.ReadAt(size[:], int64(len(magic)+4))
	for half := range all {
		_, _ = file.ReadAt(all[half][:], begin+int64(half)*int64(binary.LittleEndian.Uint64(size[:])))
	}
	return all
}
