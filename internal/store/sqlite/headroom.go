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

// lack is called when the disk had no space for a transaction.
func (w *writer) lack(cause error) {
	if !w.headroom.full {
		w.log.Error("disk full; new events refused, outcomes still recorded", "err", cause)
	}
	w.headroom.full = true
	if w.unflushed.journal != nil {
		w.unflushed.journal.Confine(true) // it has blocks of its own
	}
	w.stats.full.Store(true)
	if err := w.headroom.give(); err != nil {
		w.log.Error("freeing the reserved disk space failed", "err", err)
	}
	w.reach("the reserved space is free")
	if w.tx != nil {
		w.checkpoints.copy(w.tx.conn) // so that the log can be written from its beginning and need not grow
	}
	w.spill(false)
	w.retryLater()
}

// retryLater sets the time at which a full disk is tried again. After a flush that
// fails all unflushed operations are applied again: a tenth of the time at most goes into that.
func (w *writer) retryLater() {
	w.retry.Reset(max(w.bounds.Retry, 10*w.unflushed.again))
}

// spill says whether SQLite writes changed pages to its log before a commit if they do not fit into
// its memory. On a full disk that would fail, so all of them stay in memory: as many as the
// operations in the journal change.
func (w *writer) spill(allowed bool) {
	if w.tx == nil {
		return // it is being opened
	}
	setting := "PRAGMA cache_spill = ON"
	if !allowed {
		setting = "PRAGMA cache_spill = OFF"
	}
	if err := w.tx.conn.Exec(setting); err != nil {
		w.log.Warn("setting SQLite's memory failed", "err", err)
	}
}

// regain tries whether the disk has space again.
func (w *writer) regain() {
	w.stuck = false
	if err := w.headroom.again(); err != nil {
		w.retryLater()
		return
	}
	w.headroom.full = false
	w.spill(true)
	if w.unflushed.journal != nil {
		w.unflushed.journal.Confine(false)
		w.unflushed.journal.Reserve()
	}
	w.reach("the disk has space again")
	w.stats.full.Store(false)
	w.log.Info("disk has space again; events accepted")
}

// stoppedTimer is a timer that does not run.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
