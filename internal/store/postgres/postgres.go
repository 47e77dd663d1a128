// Package postgres keeps everything in a PostgreSQL database: the store of more than one machine.
// Any number of nodes use one database at the same time, and each may do everything that the
// contract has.
//
// A write is a transaction of two round trips. The first takes the locks and reads what the
// operations need; what they do is then decided in memory; the second writes it, each table with
// one statement, and commits. Operations that arrive while all connections that write are busy make
// up the next transaction together. An operation that cannot be done is refused before anything is
// written.
//
// Locks are taken in one order everywhere, so that transactions wait for each other but never in a
// circle: the configuration (shared, unless it is changed), shards, lanes by endpoint and key,
// pending deliveries without a lane by number, then the tables in the order in which they are
// written. What two may make at the same time (an event's id, an idempotency key) is not locked: a
// unique index refuses the second one, whose transaction is made again and finds it. A lane's row
// stands for all that waits in the lane: whoever holds it gives positions and moves heads, so
// positions follow the order of commits, without gaps, whichever node accepts.
//
// Behind a pooler no session state is used, so it may hand out connections for single transactions
// (behindPooler). Times are arguments; only leases end by the database's clock.
//
// Errors: one with a code means that nothing was written. CodeUnavailable is the one for a database
// that cannot be reached or gave up a transaction that was not about to commit. When the answer to
// a commit is lost, the error has no code: nobody knows. store.ErrWentBack ends the store
// (identity.go). No call waits for a silent network for longer than its patience (conns.go).
//
// What is over is in tables of a day each (days.go), and goes with its day (daysclear.go).
//
// What is not promised: that a purge leaves no byte in the database's files. What goes with its day
// goes with its files; what is removed row by row PostgreSQL overwrites when it needs the room. And
// commits are as durable as the server makes them: Open refuses one that does not sync.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

// Options are the settings of a store. The zero value is good for most.
type Options struct {
	Bounds Bounds // inside this room; zero: their defaults
	// History is given from a store of the same database that ended to the one that is opened after
	// it. nil: nothing has been seen.
	History *History
	// CallersClock ends leases by the times that calls bring along, and not by the database's. Only
	// what plays with time wants that, alone.
	CallersClock bool
	// Logger gets what the owner of the machine should know. nil: nobody does.
	Logger *slog.Logger
	// Now is used to measure how long things take, for Stats. nil: time.Now.
	Now func() time.Time
	// Slot returns a number from 0 to n-1, another one for each connection that writes as far as
	// there are enough. nil: any.
	Slot func(n int) int

	dial pgconn.DialFunc // nil: dialer; tests lead connections elsewhere
}

// Store is an open database.
type Store struct {
	bounds  Bounds
	pools   []*pool // all but chores, which shares its connections with reading
	owning  *pool   // for leases of shards and the list of nodes
	pool    *pool   // for what publishing and delivering read
	reading *pool   // for callers of the API
	chores  *pool   // for what takes as long as it takes
	writing *pool   // for the writers
	eras    eras
	names   names
	days    days
	packer  *codec.Packer
	ids     *grapnel.IDs
	log     *slog.Logger
	now     func() time.Time
	callers bool
	stats   stats
	able    able

	history *History
	at      identity    // of the database, since the first connection; guarded by history.mu
	blind   atomic.Bool // the server does not say which database it is
	highest highest
	warned  atomic.Bool           // that a connection is in clear
	lost    atomic.Pointer[error] // why every call is refused; nil: none is
	fatal   chan error

	moves    chan struct{} // has one place: who brings a tenant, or drops one, holds a connection for long
	requests chan *request
	writers  sync.WaitGroup
	closing  sync.WaitGroup // broken connections that are being closed
	quit     chan struct{}  // closed to stop the writers
	stopped  chan struct{}  // closed when they have
	drained  sync.Once
	closed   sync.Once
	ctx      context.Context // of transactions: callers give up waiting, not the write
	cancel   context.CancelFunc
}

var _ store.Store = (*Store)(nil)

// errClosed is what calls on a closed store return.
var errClosed = errors.New("postgres: the store is closed")

// Check says whether a text is the URL of a database. It does not look whether there is one.
func Check(url string) error {
	if _, err := pgxpool.ParseConfig(url); err != nil {
		return errors.New("postgres: the URL of the database cannot be read") // the error repeats the URL, which has a password
	}
	return nil
}

// Open opens the database at url, and brings it to the schema that this program knows.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	if err := Check(url); err != nil {
		return nil, err
	}
	inside := bounds.Fill(o.Bounds)
	s := &Store{
		bounds: inside, names: names{named: newNamed()}, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), now: o.Now, callers: o.CallersClock,
		history: cmp.Or(o.History, new(History)), fatal: make(chan error, 1),
		requests: make(chan *request, inside.Line), moves: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.days.worth = s.bounds.DayWorth
	if s.now == nil {
		s.now = time.Now
	}
	if o.Slot == nil {
		o.Slot = rand.IntN
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	err := s.connect(ctx, url, o.dial)
	if err == nil {
		s.packer, err = codec.NewPacker()
	}
	if err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		s.release()
		return nil, fmt.Errorf("opening the database: %w", asError(err))
	}
	first, slots := o.Slot(s.bounds.Slots), s.bounds.Slots
	for i := range inside.Conns.Writes {
		s.writers.Go(func() { s.writes(int16((first + i) % slots)) })
	}
	s.writers.Go(s.probes)
	return s, nil
}

// prepare makes sure that the database does what is promised, and brings it to this program's
// schema.
func (s *Store) prepare(ctx context.Context) error {
	var fsync, commit, encoding string
	err := s.pool.QueryRow(ctx, "SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('server_encoding')").
		Scan(&fsync, &commit, &encoding)
	switch {
	case err != nil:
		return err
	case fsync != "on" || commit == "off":
		return fmt.Errorf("fsync is %s and synchronous_commit is %s: commits would not be durable", fsync, commit)
	case encoding != "UTF8":
		return fmt.Errorf("the database's encoding is %s; Grapnel needs UTF8", encoding)
	}
	if err := migrate(ctx, s.chores, migrations); err != nil {
		return err
	}
	key, err := readIDKey(ctx, s.pool)
	if err != nil {
		return err
	}
	s.ids = grapnel.NewIDs(key)
	problems, err := unnamed(ctx, s.chores)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		s.log.Error("rows without a name found; see grapnel migrate status", "problem", problem)
	}
	var clock int64
	if err := s.pool.QueryRow(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(&clock); err != nil {
		return err
	}
	s.beginOrLog(ctx, dayAt(clock))
	_, err = s.learnDays(ctx)
	return err
}

// readIDKey reads what the ids of deliveries are made with.
func readIDKey(ctx context.Context, db querier) (key grapnel.IDKey, err error) {
	err = db.QueryRow(ctx, "SELECT secret, plain FROM id_key").Scan(&key.Secret, &key.Plain)
	return key, err
}

// IDs were read when the store was opened. All nodes of a database read the same key.
func (s *Store) IDs() *grapnel.IDs { return s.ids }

// drain commits what has been handed in. Writes that come later fail.
func (s *Store) drain() {
	s.drained.Do(func() {
		close(s.quit)
		s.writers.Wait()
		close(s.stopped)
	})
}

// Close drains the store and closes the connections. Calls that come later fail.
func (s *Store) Close() error {
	s.drain()
	s.closed.Do(func() {
		s.release()
	})
	return nil
}

func (s *Store) release() {
	s.cancel()
	s.reset() // what has no deadline ends
	for _, p := range s.pools {
		p.Close()
	}
	s.closing.Wait()
	if s.packer != nil {
		s.packer.Close()
	}
}
