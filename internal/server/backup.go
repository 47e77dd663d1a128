package server

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/lock"
)

// Backup copies the SQLite database that --store names to a new file; see sqlite.Backup.
func Backup(ctx context.Context, text, to string) (whole bool, err error) {
	place, err := backedUp(text, filepath.Dir(to))
	if err != nil {
		return false, err
	}
	return sqlite.Backup(ctx, place.path, to)
}

// BackupTo writes a backup to a stream once it is whole; of another one nothing is written. After
// an error with whole the stream has a part of it. The backup is made in a file beside the
// database that only its owner may read.
func BackupTo(ctx context.Context, text string, to io.Writer) (whole bool, err error) {
	place, err := ParseStore(text)
	if err != nil {
		return false, err
	}
	if place, err = backedUp(text, filepath.Dir(place.file())); err != nil {
		return false, err
	}
	file := place.file() + ".stream"
	alone, err := lock.Own(file + ".busy")
	if err != nil {
		return false, err
	}
	defer func() { _ = errors.Join(os.Remove(file), os.Remove(file+".busy"), alone.Close()) }()
	_ = os.Remove(file) // of a stream that was interrupted
	if whole, err = sqlite.Backup(ctx, place.path, file); err != nil || !whole {
		return false, err
	}
	from, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer func() { _ = from.Close() }()
	defer context.AfterFunc(ctx, func() { _ = from.Close() })()
	_, err = io.Copy(to, from)
	return true, err
}

// backedUp is the place of a database that can be backed up into a directory.
func backedUp(text, dir string) (Place, error) {
	place, err := ParseStore(text)
	if err != nil {
		return place, err
	}
	if place.url != "" {
		return place, grapnel.Errorf(grapnel.CodeInvalid, "--store: %s", elsewhere)
	}
	size, err := place.fileSize()
	if err != nil { // sqlite.Backup says why the database cannot be read
		size = -1
	}
	return place, enoughSpace(dir, size)
}
