//go:build !unix

package lock

import (
	"io"
	"os"

	"github.com/grapnelhq/grapnel"
)

// Own makes this process the only user of the database, on systems where an open file cannot be
// removed: the lock is a file that another process cannot create.
func Own(path string) (io.Closer, error) {
	_ = os.Remove(path)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, grapnel.Errorf(grapnel.CodeConflict, "the database is in use by another process: %v", err)
	}
	return f, nil
}
