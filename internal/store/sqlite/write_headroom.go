package sqlite

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// headroom is the ballast: a file of a fixed size beside the database that is truncated when the
// disk is full, so that outcomes have space. While it is truncated no new event is accepted. Events
// are accepted again once the ballast fits again.
type headroom struct {
	path  string
	size  int64 // 0: no ballast
	probe int64 // Bounds.Probe
	full  bool
}

// block is the content of the ballast. It is not all zeros, because a file system might not
// allocate zeros.
func block(size int64) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// keep creates the ballast, unless it exists.
func (m *headroom) keep() error {
	_ = os.Remove(m.beside()) // of a process that was killed
	if info, err := os.Stat(m.path); m.size == 0 || err == nil && info.Size() == m.size {
		return nil
	}
	if err := m.fill(m.path, m.size); err != nil {
		_ = os.Remove(m.path)
		return fmt.Errorf("sqlite: reserving %d bytes of disk space: %w", m.size, err)
	}
	return nil
}

// again restores the ballast once the disk has twice its size free. With less the disk would be
// full again at once, repeatedly. Without a ballast it requires Bounds.Probe of free space.
func (m *headroom) again() error {
	if err := m.keep(); err != nil {
		return err
	}
	err := m.fill(m.beside(), max(m.size, m.probe))
	if removed := os.Remove(m.beside()); err == nil {
		return removed
	}
	return errors.Join(err, m.give())
}

// beside is the file that again creates and removes.
func (m *headroom) beside() string { return m.path + ".try" }

func (m *headroom) fill(path string, size int64) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := block(m.probe)
	for left := size; left > 0; left -= int64(len(b)) {
		if _, err := f.Write(b[:min(left, int64(len(b)))]); err != nil {
			return err
		}
	}
	return f.Sync()
}

// give returns the space to the disk. It truncates first, which frees space even if removing fails.
func (m *headroom) give() error {
	if m.size == 0 {
		return nil
	}
	if err := os.Truncate(m.path, 0); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Remove(m.path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// stoppedTimer is a timer that does not run.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
