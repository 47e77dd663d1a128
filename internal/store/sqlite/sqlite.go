// Package sqlite stores everything in one SQLite file, with a journal of its newest writes beside
// it: the store of a single machine.
//
// One connection writes, and one goroutine uses it. Operations that arrive while a batch is made
// durable make up the next one, and are synced to the disk together: by one frame of the journal,
// or by a commit of SQLite (write_unflushed.go). An operation decides whether it can be done before
// it writes anything; one that fails in another way is taken out and the batch is repeated without
// it. Reads have connections of their own and see every write that has returned.
//
// Files begin with their wing, and use those of the same wing or of one named before:
//
//   - rows_: rows as values, the writer's statements, and the rows and ids that it remembers;
//   - write_: the transaction (tx), operations, which are values that get one (operation), the
//     calls that make them (changer), the goroutine that applies them (writer), and checkpoints;
//   - read_: the calls that read (reader), on connections of their own;
//   - keep_: the calls that remove expired rows (keeper), and Backup.
//
// Files without a wing open the database and share it (database).
//
// The tables are in migrations/, with the reason for each. In short: pending is small and changes;
// events, finished deliveries and attempts only grow; counts of deliveries are stored, not
// computed. No query of a dashboard page reads a whole table; the one for stuck lanes reads all
// heads of its endpoint.
//
// Totals of the current hour are stored beside those counts, so they cost a transaction nothing;
// older totals have rows of their own. The data of larger events that come in batches are in a
// file of their own (rows_datafile.go).
//
// A purge removes a few rows in each of many small transactions, overwrites the removed bytes, and
// at its end truncates the log and the journal, and makes holes in the file of data: then no byte
// of them is in the database's files, if the database has less than 256 GiB; see treePage for
// larger ones. Copies of overwritten blocks in the file system or the disk are out of its reach.
//
// The disk: synchronous is FULL at the start, which is read back, and for each batch that SQLite
// commits by itself. Commits of what the journal has already are not synced. While the disk is
// full, Append and every other new write is refused with grapnel.CodeStorageFull, and outcomes,
// with their operational events and audit entries, are recorded in the space reserved for them
// (write_headroom.go). When the disk fails, in particular when a sync does, the state on it is
// unknown: the store refuses all further calls and reports that on Fatal; its owner ends the
// process, and the next start reads the state.
//
// One process at a time may use a database; another one gets an error from Open. It does not
// promise that an older version can read the file, nor that the file survives a disk that reports a
// sync it did not make.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/lock"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Options are the settings of a store. The zero value has good defaults.
type Options struct {
	Bounds Bounds // inside this package; zero: their defaults
	// Ballast is the number of bytes on the disk reserved for outcomes when it is full. 0:
	// DefaultBallast; negative: none.
	Ballast int64
	// Logger gets the messages for the machine's operator; nil: none.
	Logger *slog.Logger
	// Now measures durations for Stats; nil: time.Now.
	Now func() time.Time
	// Master is where the master key is. The zero value: nothing is sealed.
	Master seal.Source
	// Payloads are sealed, too, with Master. Those stored before stay as they are.
	Payloads bool

	data string // the file of data, for a copy of the database; "": the one beside it
}

// DefaultBallast is the size of the ballast file unless Options say otherwise.
const DefaultBallast = 32 << 20

// Store is an open database.
type Store struct {
	*database
	reader
	feeder
	changer
	keeper

	writer writer
	ids    *grapnel.IDs
	held   io.Closer // the lock of the database
	opened bool
	once   sync.Once
}

var _ store.Store = (*Store)(nil)

// Open opens the database at path, or creates it. The directory must exist.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	named := path
	path, err := locate(named)
	if err != nil {
		return nil, fmt.Errorf("opening the database %s: %w", named, err)
	}
	d := &database{
		bounds:    bounds.Fill(o.Bounds),
		line:      line{wake: make(chan struct{}, 1)},
		spare:     sync.Pool{New: newRequest},
		stopped:   make(chan struct{}),
		unflushed: unflushed{path: path + ".journal", timer: stoppedTimer()},
		log:       cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		now:       o.Now,
		closing:   make(chan struct{}),
		fatal:     make(chan error, 1),
		path:      path,
	}
	d.data = &dataFile{path: cmp.Or(o.data, path+".data"), copied: o.data != "", bounds: &d.bounds}
	d.unflushed.most = max(1, d.bounds.Unflushed/4)
	if d.now == nil {
		d.now = time.Now
	}
	c := new(checkpoints)
	if o.Ballast == 0 {
		o.Ballast = DefaultBallast
	}
	s := &Store{
		database: d, reader: reader{d}, feeder: feeder{d},
		changer: changer{database: d, drained: drained{most: d.bounds.Names, to: make(map[string]int64)}},
		keeper:  keeper{database: d, checkpoints: c, purge: purge{deferred: true}, moved: make(chan struct{})},
		writer: writer{
			database: d, checkpoints: c, quit: make(chan struct{}),
			headroom: &headroom{path: path + ".ballast", size: max(o.Ballast, 0), probe: d.bounds.Probe},
			retry:    stoppedTimer(), rest: stoppedTimer(),
		},
	}
	if err := s.open(ctx, path, o); err != nil {
		_ = s.release()
		return nil, fmt.Errorf("opening the database %s: %w", named, err)
	}
	s.opened = true
	go s.moveDedupe(s.writer.tx.dedupe.out, s.writer.tx.dedupe.back)
	go s.writer.run()
	go s.checkpoints.run()
	if err := s.sealTables(ctx); err != nil {
		return nil, fmt.Errorf("sealing the database %s: %w", named, errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string, o Options) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.held, err = lock.Both(path); err != nil {
		return err
	}
	if s.packer, err = codec.NewPacker(); err != nil {
		return err
	}
	err = s.connect(ctx, path, o)
	if full(err) && s.writer.headroom.give() == nil {
		// Even opening needs a little space. No new event is accepted until the ballast can be restored.
		err = errors.Join(s.disconnect(), s.connect(ctx, path, o))
	}
	if err != nil {
		return err
	}
	if err := s.writer.headroom.keep(); err != nil {
		s.writer.lack(err)
	}
	return s.writer.beginJournal()
}

// connect opens all connections.
func (s *Store) connect(ctx context.Context, path string, o Options) error {
	if err := fits(path); err != nil {
		return err
	}
	conn, err := connect(path, sqlite3.ReadWrite, s.bounds.WriterCache>>10)
	if err != nil {
		return err
	}
	s.writer.tx = &tx{conn: conn, bounds: &s.bounds, packer: s.packer, data: s.data, unflushed: &s.unflushed}
	if err := migrateAt(path, conn); err != nil {
		return err
	}
	if !s.data.copied { // a copy is completed without opening its rows
		has, err := rows.Each(conn.Query(dataKeysQuery), readDataKey)
		if err != nil {
			return err
		}
		if s.sealer, err = seal.New(ctx, o.Master, has, s, true); err != nil {
			return err
		}
		s.packer.Guard(s.sealer, o.Payloads)
	}
	if err := s.writer.tx.prepare(); err != nil {
		return err
	}
	if s.ids, err = readIDKey(conn); err != nil {
		return err
	}
	if err := s.writer.catchUp(); err != nil {
		return err
	}
	b := &s.bounds
	if err := conn.Exec(fmt.Sprintf("PRAGMA journal_size_limit = %d", b.LogAtMost*b.Checkpoint*pageSize)); err != nil {
		return err
	}
	*s.checkpoints = checkpoints{database: s.database, at: int64(b.Checkpoint), wake: make(chan struct{}, 1), asked: make(chan chan struct{}),
		cuts: make(chan chan error, 1), quit: make(chan struct{}), done: make(chan struct{})}
	if s.checkpoints.conn, err = connect(path, sqlite3.ReadWrite, s.bounds.CheckpointCache>>10); err != nil {
		return err
	}
	for _, conn := range []*sqlite3.Conn{conn, s.checkpoints.conn} {
		if err := conn.SyncInParts(b.WriteBack, journal.WriteBack); err != nil {
			return err
		}
	}
	s.readers = make(chan *sqlite3.Conn, b.Readers)
	for range b.Readers {
		r, err := connect(path, sqlite3.ReadOnly, s.bounds.ReaderCache>>10)
		if err != nil {
			return err
		}
		s.readers <- r
		s.lendable++
	}
	return nil
}

// readIDKey reads the key of the deliveries' ids.
func readIDKey(conn *sqlite3.Conn) (*grapnel.IDs, error) {
	return rows.First(conn.Query("SELECT secret FROM id_key"), codec.ErrMangled, func(q *sqlite3.Stmt) (*grapnel.IDs, error) {
		return grapnel.NewIDs(q.Bytes(0)), nil
	})
}

// Sealer is nil if nothing is sealed.
func (s *Store) Sealer() *seal.Sealer { return s.sealer }

// IDs returns the ids read when the store was opened.
func (s *Store) IDs() *grapnel.IDs { return s.ids }

// disconnect closes all connections, once every reader is returned. The writer's comes last:
// closing it copies the log into the database.
func (s *Store) disconnect() error {
	var errs []error
	for ; s.lendable > 0; s.lendable-- {
		errs = append(errs, (<-s.readers).Close())
	}
	if s.checkpoints.conn != nil {
		errs = append(errs, s.checkpoints.conn.Close())
		s.checkpoints.conn = nil
	}
	if t := s.writer.tx; t != nil {
		if s.failed() != nil || !s.opened {
			t.conn.KeepLog() // the files may not fit together
		}
		errs = append(errs, t.conn.Close())
		s.writer.tx = nil
	}
	return errors.Join(errs...)
}

// Fatal delivers the error after which the store refuses all calls. Its owner ends the process.
func (s *Store) Fatal() <-chan error { return s.fatal }

// Close commits the queued operations, and closes the database. Later calls fail.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closing)
		<-s.moved
		close(s.writer.quit)
		<-s.stopped
		err = s.writer.endJournal()
		close(s.checkpoints.quit)
		<-s.checkpoints.done
		err = errors.Join(err, s.release())
	})
	return err
}

// release frees the resources taken by open.
func (s *Store) release() error {
	err := errors.Join(s.disconnect(), s.data.close())
	if s.packer != nil {
		s.packer.Close()
	}
	if s.held != nil {
		err = errors.Join(err, s.held.Close())
	}
	return err
}

// Unable is the reason why new events cannot be committed; nil: they can. The disk counts as full
// from the first request that was refused for lack of space until the ballast can be restored,
// which is tried every Bounds.Retry.
func (s *Store) Unable() error {
	select {
	case <-s.closing:
		return s.gone()
	default:
	}
	if s.stats.full.Load() {
		return cmp.Or(s.failed(), errFull(nil))
	}
	return s.failed()
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	s.stats.mu.Lock()
	sum := s.stats.sum
	s.stats.mu.Unlock()
	sum.Full, sum.Damaged = s.stats.full.Load(), s.stats.damaged.Load()
	sum.LogPages = s.checkpoints.pages.Load()
	sum.Queued = s.line.length()
	return sum
}
