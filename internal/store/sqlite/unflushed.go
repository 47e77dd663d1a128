package sqlite

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// A batch of operations becomes durable in one of two ways.
//
// If the journal can hold all of them, they are written to it as one frame: one write and one sync,
// however many pages of the tables they change. Their changes stay in SQLite's open transaction,
// where the writer sees them and no other connection does. They are unflushed. Now and then, and
// before a read, a flush commits all unflushed changes to the tables, without a sync.
//
// Otherwise the unflushed changes are flushed first. Then SQLite commits the batch and syncs its
// log.
//
// One number counts both. The tables hold the number of the last batch that is in them; it is
// committed with that batch. So after a crash the frames with higher numbers are exactly those that
// the tables lack, and catchUp applies them again. That is true after a loss of power, too: flushes
// that were not synced are lost then, and with them their numbers. The journal keeps each frame
// until SQLite's log was synced with its changes.
type unflushed struct {
	path       string
	key        uint64
	journal    *journal.Journal // nil until the first frame of this process
	generation uint64           // of the journal
	number     uint64           // of the last durable batch
	half       int              // operations in the half of the journal that is being written
	loose      bool             // commits of the connection are not synced
	large      bool             // the batch does not fit into a frame

	frames []byte        // the unflushed ones, one after the other, each with its header
	ends   []int         // where each of them ends
	count  int           // operations in them
	most   int           // operations with which the tables are flushed
	wide   bool          // the connection has WideCache
	again  time.Duration // that it took to apply them again, the last time
	timer  *time.Timer

	owes    atomic.Bool   // something is unflushed
	flushed atomic.Uint64 // the number that the tables hold
	event   atomic.Int64  // the highest row id of an event in the tables, as far as this process wrote them
	synced  atomic.Uint64 // the one that they still hold after a loss of power
	alone   atomic.Uint64 // the one that their file holds without SQLite's log

	begun, ended atomic.Uint64 // commits of SQLite; a failed one does not end

	replayed atomic.Bool // a replay has progressed, which the tables do not show before the commit
}

const (
	strict = "PRAGMA synchronous = FULL"
	loose  = "PRAGMA synchronous = NORMAL"
)

// transact does a batch. It returns at which request it failed, or -1.
func (w *writer) transact(batch []*request) (culprit int, err error) {
	unflushed, err := w.ready(batch)
	if err != nil {
		return -1, err
	}
	if culprit, err := w.apply(batch, unflushed); unflushed || err != nil {
		return culprit, err
	}
	number := w.unflushed.number
	if w.unflushed.journal != nil {
		number++
	}
	w.data.willBeUsed()
	if err := w.tx.commit(number, w.unflushed.journal != nil); err != nil {
		return -1, err
	}
	w.unflushed.number = number
	w.unflushed.synced.Store(number)
	w.aged(w.all())
	w.reach("SQLite has committed")
	if j := w.unflushed.journal; j != nil {
		_ = j.Committed(number) // the commit is durable, and without that note a start has less to compare
	}
	return -1, nil
}

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

// ready opens a transaction for a batch, and says whether its changes will be unflushed.
func (w *writer) ready(batch []*request) (unflushed bool, err error) {
	unflushed = !w.unflushed.large && entries(batch)
	y := &w.unflushed
	switch {
	case !unflushed:
	case y.journal == nil:
		// This batch is committed with the note that the journal is needed, before the first frame.
		unflushed = false
		if w.headroom.full {
			break
		}
		if err = w.createJournal(); err != nil {
			return false, err
		}
	case !w.tx.needed:
		unflushed = false
	case w.data.lacks(batch):
		unflushed = false // it is committed with the note that the file is used, before any row refers to it
		if err = w.data.create(y.key); full(err) {
			return false, err
		} else if err != nil {
			w.log.Warn("data of events stay in the database, as they cannot have a file", "err", err)
			w.data.never = true
		}
	case !y.room(w.bounds.Half):
		if unflushed = y.journal.Other() <= y.synced.Load(); unflushed {
			y.journal.Turn()
			y.half = 0
		}
	}
	if !unflushed || !y.loose {
		if w.stuck {
			return false, errStuck
		}
		if err := w.tryFlush(false); err != nil {
			return false, err
		}
		if err := y.sync(w.tx.conn, !unflushed); err != nil {
			return false, err
		}
	}
	return unflushed, w.resume()
}

// beginJournal makes the journal before the first write, so that no other program takes its space.
// A store without a ballast reserves nothing: it makes the journal with its first write.
func (w *writer) beginJournal() error {
	if w.headroom.size == 0 {
		return nil
	}
	err := w.createJournal()
	if err == nil {
		_, err = w.transact(nil) // which notes that it is needed
	}
	if err == nil {
		return nil
	}
	if err = w.undo(err); full(err) {
		return nil // the first write that has space does it
	}
	return err
}

// createJournal makes the journal of this process. The next commit notes its generation.
func (w *writer) createJournal() error {
	y := &w.unflushed
	drawn, err := one(w.tx.conn, "SELECT random()")
	if err != nil {
		return err
	}
	j, err := journal.Create(y.path, y.key, uint64(drawn), y.number, w.bounds.Journal)
	if err != nil {
		return err
	}
	if missing := j.Reserve(); missing > 0 {
		w.log.Warn("journal not reserved whole; fewer outcomes can be recorded if the disk gets full", "missing_bytes", missing)
	}
	j.Confine(w.headroom.full)
	y.journal, y.generation = j, uint64(drawn)
	w.reach("the journal was created")
	return nil
}

// room says whether the half of the journal that is being written has room for another frame.
func (y *unflushed) room(most int) bool { return y.journal.Room() && y.half < most }

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

// sync says whether SQLite syncs its log with each commit. No transaction is open.
func (y *unflushed) sync(conn *sqlite3.Conn, always bool) error {
	if y.loose == !always {
		return nil
	}
	setting := loose
	if always {
		setting = strict
	}
	if err := conn.Exec(setting); err != nil {
		return err
	}
	y.loose = !always
	return nil
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

// errStuck is the error of a batch that needs a flush while flushes fail. Nothing was done for it.
var errStuck = errors.New("sqlite: a flush failed on the full disk")

// errLarge is the error of a batch that is too large for one frame.
var errLarge = errors.New("sqlite: the batch is too large for the journal")

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

// endJournal flushes the tables, and removes the journal before the database is closed. If that
// fails the next process needs the journal, and has it.
func (w *writer) endJournal() error {
	if w.unflushed.journal == nil {
		return nil
	}
	defer func() { _ = w.unflushed.journal.Close() }()
	if w.failed() != nil {
		return nil
	}
	err := w.tryFlush(false)
	if err == nil {
		err = w.data.settle()
	}
	if err == nil {
		err = w.unflushed.sync(w.tx.conn, true)
	}
	if err == nil {
		err = w.tx.begin()
	}
	if err == nil {
		err = w.tx.commit(w.unflushed.number, false)
	}
	if err != nil {
		return errors.Join(err, w.tx.rollback())
	}
	w.reach("the journal is not needed")
	return journal.Remove(w.unflushed.path)
}
