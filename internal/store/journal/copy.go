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
	content, err := consistent(from)
	if err := errors.Join(err, from.Close()); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

// consistent reads a journal, and reads it anew if a half was begun meanwhile: the other half may
// have been read before its last frames were written, while the frames after them were read. It
// keeps the file in memory, because a slow disk takes longer to write it than an owner a half.
func consistent(from source) (content []byte, err error) {
	for begun := firsts(from); ; {
		if _, err = from.Seek(0, io.SeekStart); err == nil {
			content, err = io.ReadAll(from)
		}
		before := begun
		if begun = firsts(from); err != nil || begun == before {
			return content, err
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
