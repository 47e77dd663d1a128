package server

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

func newBackups(o *Options) *backups {
	b := &backups{o: o.Backups, bounds: bounds.Fill(o.Bounds.Backups), prefix: "grapnel-", now: time.Now, log: o.Log, done: map[bool]int{}}
	b.o.Every, b.o.Keep = cmp.Or(b.o.Every, DefaultBackupEvery), cmp.Or(b.o.Keep, DefaultBackupKeep)
	if o.Name != "" {
		b.prefix += o.Name + "-"
	}
	return b
}

// stamp is the form of the time in a name: sorted by name the files are sorted by time.
const stamp = "20060102T150405Z"

// list returns the times of the complete backups, the oldest first. Other files are not touched.
func (b *backups) list() (all []time.Time, err error) {
	files, err := os.ReadDir(b.o.Dir)
	for _, f := range files {
		name, ours := strings.CutPrefix(f.Name(), b.prefix)
		at, err := time.Parse(stamp+".db", name)
		if ours && err == nil && f.Type().IsRegular() {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all, err
}

// names are the file names of the complete backups. nil makes none.
func (b *backups) names() (names []string) {
	if b == nil {
		return nil
	}
	all, err := b.list()
	if err != nil {
		b.log.Warn("listing backups failed", "dir", b.o.Dir, "err", err)
	}
	for _, at := range all {
		names = append(names, b.path(at))
	}
	return names
}

func (b *backups) path(at time.Time) string {
	return filepath.Join(b.o.Dir, b.prefix+at.UTC().Format(stamp)+".db")
}

// due is when the next backup has to be made. A backup with a time in the future is of a clock that
// was ahead, and does not count.
func (b *backups) due(now time.Time) time.Time {
	all, err := b.list()
	b.mu.Lock()
	defer b.mu.Unlock()
	all = slices.DeleteFunc(all, func(at time.Time) bool { return at.After(now) })
	if b.newest = (time.Time{}); len(all) > 0 {
		b.newest = all[len(all)-1]
	}
	next := b.newest.Add(b.o.Every)
	if err != nil {
		next = now
	}
	if retry := b.tried.Add(b.bounds.Retry); b.failed > 0 && retry.After(next) && !b.tried.After(now) {
		next = retry
	}
	return next
}

// run makes backups until ctx ends.
func (b *backups) run(ctx context.Context) {
	for {
		if wait := b.due(b.now()).Sub(b.now()); wait > 0 {
			if !backoff.Wait(ctx.Done(), min(wait, b.bounds.Look)) {
				return
			}
			continue
		}
		b.once(ctx)
		if ctx.Err() != nil {
			return
		}
	}
}

// once makes one backup and then removes those that are too many.
func (b *backups) once(ctx context.Context) {
	began := b.now()
	bytes, err := b.make(ctx, began)
	if ctx.Err() != nil && err != nil {
		return // the server stops; the next start finds it due
	}
	b.mu.Lock()
	b.done[err == nil]++
	if err != nil {
		b.failed, b.tried, b.err = b.failed+1, b.now(), err
	} else {
		b.failed, b.bytes, b.newest = 0, bytes, began
	}
	failed := b.failed
	b.mu.Unlock()
	if err != nil {
		b.log.Error("backup failed; retrying", "dir", b.o.Dir, "err", err, "failures", failed, "after", b.bounds.Retry.String())
		return
	}
	b.log.Info("backup made", "file", b.path(began), "size", say.Bytes(int(bytes)), "took", b.now().Sub(began).String())
	b.prune(began)
}

// make makes the backup of a time.
func (b *backups) make(ctx context.Context, at time.Time) (bytes int64, err error) {
	if size, err := b.size(); err == nil {
		if err := enoughSpace(b.o.Dir, size); err != nil {
			return 0, err
		}
	}
	part := filepath.Join(b.o.Dir, b.prefix+"unfinished.db")
	_ = os.Remove(part) // of a server that was killed before it gave the name
	whole, err := b.copy(ctx, part)
	if err == nil && !whole {
		err = fmt.Errorf("the backup would not be complete: the journal or the file of data is missing beside the database")
	}
	if err != nil {
		_ = os.Remove(part)
		return 0, err
	}
	if info, err := os.Stat(part); err == nil {
		bytes = info.Size()
	}
	if err := os.Rename(part, b.path(at)); err != nil {
		return 0, err
	}
	return bytes, journal.SyncDirectory(b.path(at))
}

// prune removes the oldest backups, beyond the number that stay. That of the given time stays.
func (b *backups) prune(made time.Time) {
	all, err := b.list()
	for i := 0; err == nil && i < len(all)-b.o.Keep; i++ {
		if !all[i].Equal(made.UTC().Truncate(time.Second)) {
			err = os.Remove(b.path(all[i]))
		}
	}
	if err != nil {
		b.log.Warn("removing old backups failed; retrying after the next one", "dir", b.o.Dir, "err", err)
	}
}

// state is what the rule of alerts is about; nil: no backups are scheduled.
func (b *backups) state() *alert.Backups {
	if b.copy == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &alert.Backups{Failed: b.failed, Newest: b.newest}
	if b.failed > 0 {
		s.Reason = b.err.Error()
	}
	return s
}
