package sqlite

import (
	"errors"
	"fmt"
	"os"

	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/journal"
)

// lacks says whether a batch needs the file and there is none.
func (d *dataFile) lacks(batch []*request) bool {
	return !d.noted && !d.never && d.enough(batch)
}

// create makes an empty file, in place of one that no row refers to. The next synced commit notes
// that it is used.
func (d *dataFile) create(key uint64) (err error) {
	if err := d.close(); err != nil {
		return err
	}
	file, err := os.OpenFile(d.path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(newHead(key), 0); err == nil {
		err = journal.Allocate(file, dataHeader, dataHeader)
	}
	if err == nil {
		err = journal.Punch(file, dataHeader, dataHeader)
	}
	if err == nil {
		err = errors.Join(file.Chmod(0o600), file.Sync(), journal.SyncDirectory(d.path))
	}
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(d.path))
	}
	d.at.Store(dataHeader)
	d.key, d.until, d.grown = key, dataHeader, 2*dataHeader
	d.file.Store(file)
	return nil
}

// willBeUsed lets the next commit, which is synced, note that the file is used, if there is one.
func (d *dataFile) willBeUsed() {
	if d.file.Load() != nil && !d.copied {
		d.used = true
	}
}

// enough says whether a batch has so many data of new events that they are put into the file, and
// keeps these events for put.
func (d *dataFile) enough(batch []*request) bool {
	d.found = emptied(d.found, cap(d.found))
	n := 0
	for _, r := range batch {
		a, is := r.operation.(*appending)
		for i := 0; is && i < len(a.batch.events); i++ {
			f := &a.batch.events[i].frozen
			if _, _, apart := codec.Apart(f.Data, f.Packed); !apart && len(f.Data) >= d.bounds.LeastApart {
				d.found = append(d.found, f)
				n += len(f.Data)
			}
		}
	}
	return n >= d.bounds.Apart
}

// put writes the data of a batch's new events to the file, if they are enough, and begins to sync
// it. What it returns waits for the sync; nil: nothing was written.
func (d *dataFile) put(batch []*request) (synced func() error, err error) {
	if !d.noted || !d.enough(batch) {
		return nil, nil
	}
	begin := d.at.Load()
	end := begin
	for i, f := range d.found {
		d.out = append(d.out, f.Data...)
		last := i == len(d.found)-1
		if last {
			d.out = d.mark(d.out, end+int64(len(d.out))+markSize)
		}
		if last || len(d.out) >= d.bounds.ApartWrite {
			err = d.write(end)
			end, d.out = end+int64(len(d.out)), emptied(d.out, 2*d.bounds.ApartWrite)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, f := range d.found {
		place := codec.Place{At: begin, Until: begin + int64(len(f.Data))}
		f.PutApart(place)
		begin = place.Until
	}
	d.at.Store(end)
	d.until = end
	clear(d.found)
	file, done := d.file.Load(), make(chan error, 1)
	go func() { done <- journal.Sync(file) }()
	return func() error {
		if err := <-done; err != nil {
			return fmt.Errorf("%w: fsync: %w", journal.ErrFailed, err)
		}
		return nil
	}, nil
}

// write writes the gathered data. The file gets blocks before that, so a full disk is noticed here.
func (d *dataFile) write(at int64) error {
	for d.grown < at+int64(len(d.out)) {
		if err := journal.Allocate(d.file.Load(), d.grown, d.bounds.ApartStep); err != nil {
			return err
		}
		d.grown += d.bounds.ApartStep
	}
	if _, err := d.file.Load().WriteAt(d.out, at); err != nil {
		return err
	}
	return nil
}
