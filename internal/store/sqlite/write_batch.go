package sqlite

import (
	"errors"

	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/journal"
)

// apply applies the operations of a batch, and keeps them in the journal if they are unflushed. It
// returns at which request it failed, or -1.
func (w *writer) apply(batch []*request, unflushed bool) (culprit int, err error) {
	event, delivery := w.tx.events.last, w.tx.deliveries.last
	var synced func() error
	before := w.data.at.Load()
	if unflushed {
		if synced, err = w.data.put(batch); err != nil {
			return -1, err
		}
	}
	culprit, err = w.decide(batch)
	if synced != nil {
		if err := synced(); err != nil {
			return -1, err
		}
		w.stats.kept(int(w.data.at.Load() - before))
		w.reach("data were synced")
	}
	if err == nil && unflushed {
		err = w.keep(batch, event, delivery)
	}
	return culprit, err
}

// decide calls the operations of a batch. It returns at which request it failed, or -1.
func (w *writer) decide(batch []*request) (culprit int, err error) {
	for i, r := range batch {
		r.err = w.tx.do(r.operation)
		if r.err != nil && !decided(r.err) {
			return i, r.err
		}
	}
	return -1, nil
}

// resume opens a transaction that has all that is unflushed, unless one is open. After a rollback
// it applies the unflushed entries again.
func (w *writer) resume() error {
	if w.tx.conn.InTransaction() {
		return nil
	}
	if err := w.tx.begin(); err != nil {
		return err
	}
	if len(w.unflushed.ends) == 0 {
		return nil
	}
	began := w.now()
	defer func() { w.unflushed.again = w.now().Sub(began) }()
	event, delivery, from := w.tx.events.given, w.tx.deliveries.given, 0
	defer func() { // the numbers that a failed batch had are not used again
		w.tx.events.skip(event)
		w.tx.deliveries.skip(delivery)
	}()
	for _, end := range w.unflushed.ends {
		if err := w.tx.replay(w.unflushed.frames[from+journal.Header : end]); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// keep writes the operations that were done to the journal. The numbers are the highest of an event
// and of a delivery before the batch.
func (w *writer) keep(batch []*request, event, delivery int64) error {
	y := &w.unflushed
	begin, operations := len(y.frames), 0
	f := codec.Into(append(y.frames, make([]byte, journal.Header)...))
	codec.Number(f, &event)
	codec.Number(f, &delivery)
	codec.Number(f, &w.data.until)
	for _, r := range batch {
		if r.err == nil && writeEntry(f, r.operation) {
			operations++
		}
		if n := len(f.Bytes()) - begin - journal.Header; n > y.journal.Most() || !y.journal.Fits(n) {
			return errLarge
		}
	}
	if operations == 0 {
		return nil
	}
	frames := f.Bytes()
	if err := y.journal.Write(y.number+1, frames[begin:]); err != nil {
		return err
	}
	y.number++
	y.frames, y.ends, y.count = frames, append(y.ends, len(frames)), y.count+operations
	y.half += operations
	w.stats.kept(len(frames) - begin)
	w.reach("a frame was written")
	if !y.owes.Swap(true) {
		y.timer.Reset(w.bounds.FlushEvery)
	}
	return nil
}

// entries says whether the journal can hold all operations of a batch.
func entries(batch []*request) bool {
	for _, r := range batch {
		if !keeps(r.operation) {
			return false
		}
	}
	return true
}

// keeps says whether the journal can hold an operation, or need not because it changes nothing.
func keeps(o operation) bool {
	switch o.(type) {
	case entry, nothing, flushing, looking, seeing:
		return true
	}
	return false
}

// errLarge is the error of a batch that is too large for one frame.
var errLarge = errors.New("sqlite: the batch is too large for the journal")

// weigh is what an operation counts in its batch. An event without deliveries counts as one.
func weigh(o operation) (outcomes, events int) {
	switch o := o.(type) {
	case *recording:
		outcomes = len(o.turns)
	case *appending:
		for i := range o.batch.events {
			events += max(1, len(o.batch.events[i].targets))
		}
	}
	return outcomes, events
}
