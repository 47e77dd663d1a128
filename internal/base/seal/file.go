package seal

import (
	"context"
	"slices"
)

// File seals the bytes of a file beside the database. It needs no data key, so the file can be
// opened while the database cannot. A File that is nil seals nothing.
type File struct {
	at  At
	all masters
}

// NewFile reads the master keys. Without a source there is no File.
func NewFile(ctx context.Context, s Source, name string) (*File, error) {
	if s == (Source{}) {
		return nil, nil
	}
	all, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	return &File{At{Kind: "file", ID: name}, all}, nil
}

// Seal encrypts the file's bytes with the first master key.
func (f *File) Seal(plain []byte) ([]byte, error) {
	if f == nil {
		return plain, nil
	}
	sealed, err := f.all[0].Encrypt(plain, f.at.bytes())
	return slices.Insert(sealed, 0, mark), err
}

// Open returns what Seal was given, with whichever of the master keys, and bytes in clear as they
// are.
func (f *File) Open(stored []byte) ([]byte, error) {
	if !Is(stored) {
		return stored, nil
	}
	if f != nil {
		for _, m := range f.all {
			if plain, err := m.Decrypt(stored[1:], f.at.bytes()); err == nil {
				return plain, nil
			}
		}
	}
	return nil, errWrongMaster
}
