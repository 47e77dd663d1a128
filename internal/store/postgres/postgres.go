// Package postgres stores everything in a PostgreSQL database: the store of more than one machine.
// Any number of nodes use one database at the same time, and each may make every call of the
// contract.
//
// A write is a transaction of two round trips. The first takes the locks and reads the rows that
// the operations need. Then the operations run in memory. The second round trip writes the result,
// one statement per table, and commits. Operations that arrive while all writing connections are
// busy form the next transaction together. An operation that cannot succeed is refused before any
// row is written.
//
// All transactions take locks in one order, so they may wait for each other but cannot deadlock:
// the configuration (shared, unless it is changed), shards, lanes by endpoint and key, pending
// deliveries without a lane by row id, then the tables in the order in which they are written.
// Objects that two transactions may create at the same time (an event's id, an idempotency key) are
// not locked: a unique index refuses the second one, whose transaction is tried again and finds the
// object. The lock of a lane's row covers all pending deliveries of the lane. Its holder assigns
// positions and moves heads, so positions follow the order of commits, without gaps, whichever node
// accepts.
//
// Behind a pooler the store uses no session state, so the pooler may lend connections for single
// transactions (behindPooler). Times are arguments; only leases end by the database's clock.
//
// Errors: one with a code means that nothing was written. CodeUnavailable stands for a database
// that cannot be reached or gave up a transaction that was not about to commit. When the answer to
// a commit is lost, the error has no code: the outcome is unknown. store.ErrWentBack ends the store
// (identity.go). No call waits for a silent network for longer than its patience (conns.go).
//
// Finished deliveries are in tables of one day each (rows_days.go), and are deleted with their day
// (keep_daysclear.go).
//
// Not promised: that a purge leaves no byte in the database's files. The bytes of a dropped day are
// deleted with its files; PostgreSQL overwrites rows that were deleted one by one only when it
// reuses their space. And commits are as durable as the server makes them: Open refuses a server
// that does not sync.
package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// OldestVersion is the oldest server that a store opens, as its server_version_num.
const OldestVersion = 140_000

// Options are the settings of a store. The zero value has good defaults.
type Options struct {
	Bounds Bounds // inside this package; zero: their defaults
	// History is passed from a store that ended to the next store of the same database; nil: a new
	// one.
	History *History
	// CallersClock ends leases by the times that calls pass, not by the database's clock. Only tests
	// that control time set it.
	CallersClock bool
	// Logger gets messages for the operator; nil: none are logged.
	Logger *slog.Logger
	// Now measures durations for Stats; nil: time.Now.
	Now func() time.Time
	// Password is where the password is, if it may change while the store is open.
	Password Password
	// Master is where the master key is. The zero value: nothing is sealed.
	Master seal.Source
	// Payloads are sealed, too, with Master. Those stored before stay as they are.
	Payloads bool
	// Slot returns a number from 0 to n-1, a different one for each writing connection as far as
	// possible; nil: a random one.
	Slot func(n int) int

	dial pgconn.DialFunc // nil: dialer; tests redirect connections with it
}

// Store is an open database.
type Store struct {
	*database
	reader
	lister
	changer
	owner
	keeper
	writer writer
	ids    *grapnel.IDs
	closed sync.Once
}

var _ store.Store = (*Store)(nil)

// Open opens the database at url, and brings it to the schema that this program knows.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	if err := Check(url); err != nil {
		return nil, err
	}
	b := bounds.Fill(o.Bounds)
	d := &database{
		connections: connections{
			bounds: b, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), now: o.Now,
			history: cmp.Or(o.History, new(History)), fatal: make(chan error, 1), password: passwords{from: o.Password, bounds: b.Passwords},
		},
		names: names{named: named{make(map[string]int32), make(map[kind]int32)}}, callers: o.CallersClock, stopped: make(chan struct{}),
	}
	if d.now == nil {
		d.now = time.Now
	}
	if o.Slot == nil {
		o.Slot = rand.IntN
	}
	d.requests, d.days.worth = make(chan *request, d.bounds.Line), d.bounds.DayWorth
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s := &Store{database: d, reader: reader{d}, lister: lister{d}, changer: changer{d}, owner: owner{d}, keeper: keeper{database: d}}
	s.writer = writer{database: d, keeper: &s.keeper, places: make(chan struct{}, d.bounds.Few), quit: make(chan struct{})}
	err := s.connect(ctx, url, o.dial)
	if err == nil {
		s.packer, err = codec.NewPacker()
	}
	if err == nil {
		err = s.prepare(ctx, o)
	}
	if err != nil {
		s.release()
		return nil, fmt.Errorf("opening the database: %w", asError(err))
	}
	first, slots := o.Slot(s.bounds.Slots), s.bounds.Slots
	for i := range s.bounds.Conns.Writes {
		s.writer.running.Go(func() { s.writer.writes(int16((first + i) % slots)) })
	}
	s.writer.running.Go(s.writer.probes)
	return s, nil
}

// prepare makes sure that the database syncs its commits, and migrates it to this program's schema.
func (s *Store) prepare(ctx context.Context, o Options) error {
	var fsync, commit, encoding, version string
	var number int
	err := s.pool.QueryRow(ctx, "SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('server_encoding'), "+
		"current_setting('server_version'), current_setting('server_version_num')::int").Scan(&fsync, &commit, &encoding, &version, &number)
	switch {
	case err != nil:
		return err
	case number < OldestVersion:
		return grapnel.Errorf(grapnel.CodeInvalid, "the server is PostgreSQL %s; Grapnel needs %d or later", version, OldestVersion/10_000)
	case fsync != "on" || commit == "off":
		return fmt.Errorf("fsync is %s and synchronous_commit is %s: commits would not be durable", fsync, commit)
	case encoding != "UTF8":
		return fmt.Errorf("the database's encoding is %s; Grapnel needs UTF8", encoding)
	}
	if err := migrate(ctx, s.chores, migrations); err != nil {
		return err
	}
	has, err := s.DataKeys(ctx)
	if err != nil {
		return err
	}
	if s.sealer, err = seal.New(ctx, o.Master, has, s, false); err != nil {
		return err
	}
	s.packer.Guard(s.sealer, o.Payloads)
	key, err := readIDKey(ctx, s.pool)
	if err != nil {
		return err
	}
	s.ids = grapnel.NewIDs(key)
	var clock int64
	if err := s.pool.QueryRow(ctx, clockSQL).Scan(&clock); err != nil {
		return err
	}
	if err := s.sealTables(ctx); err != nil {
		return err
	}
	failed := s.begin(ctx, dayAt(clock))
	c, err := s.readDays(ctx)
	switch {
	case err != nil:
		return err
	case failed != nil && !c.has(c.current):
		return failed // a new database: no table takes events
	case failed != nil:
		s.retryBegin(failed)
	}
	return nil
}

// readIDKey reads the key of the ids of deliveries.
func readIDKey(ctx context.Context, db rows.Queries) (key grapnel.IDKey, err error) {
	err = db.QueryRow(ctx, "SELECT secret FROM id_key").Scan(&key)
	return key, err
}

// Sealer is nil if nothing is sealed.
func (s *Store) Sealer() *seal.Sealer { return s.sealer }

// IDs returns what Open has read. All nodes of a database read the same key.
func (s *Store) IDs() *grapnel.IDs { return s.ids }

// Close commits the writes that are queued, and closes the connections. Later calls fail.
func (s *Store) Close() error {
	s.closed.Do(func() {
		close(s.writer.quit)
		s.writer.running.Wait()
		close(s.stopped)
		s.release()
	})
	return nil
}

func (s *Store) release() {
	s.cancel()
	s.reset() // ends calls without a deadline
	for _, p := range s.pools {
		p.Close()
	}
	s.closing.Wait()
	if s.packer != nil {
		s.packer.Close()
	}
}

var _ store.Ownership = (*Store)(nil)
