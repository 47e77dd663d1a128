package sqlite

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

// lockBoth makes this process the only one that uses the database at path.
func lockBoth(path string) (io.Closer, error) {
	named, err := lock(path + ".lock")
	if err != nil {
		return nil, err
	}
	own, err := lockFile(path)
	if err != nil {
		return nil, errors.Join(err, named.Close())
	}
	return locks{own, named}, nil
}
