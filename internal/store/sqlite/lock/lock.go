// Package lock makes one process the only user of a database: by a lock file beside it, which any
// system has, and by a lock of the database's own file where that does not disturb SQLite.
package lock

import (
	"errors"
	"io"
)

// locks are released together.
type locks []io.Closer

func (l locks) Close() (err error) {
	for _, one := range l {
		err = errors.Join(err, one.Close())
	}
	return err
}

// Both makes this process the only one that uses the database at path.
func Both(path string) (io.Closer, error) {
	named, err := Own(path + ".lock")
	if err != nil {
		return nil, err
	}
	own, err := lockFile(path)
	if err != nil {
		return nil, errors.Join(err, named.Close())
	}
	return locks{own, named}, nil
}
