package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// database is what those who read and the writer share: the way to the writer (write), the lent
// connections (read), and the error after which the files cannot be trusted any more (fail).
type database struct {
	bounds    Bounds
	packer    *codec.Packer
	sealer    *seal.Sealer // nil: nothing is sealed
	data      *dataFile
	line      line
	spare     sync.Pool     // of *request that are in no line
	stopped   chan struct{} // closed when the writer has stopped
	unflushed unflushed
	readers   readers
	lendable  int // number of readers
	stats     stats
	path      string
	log       *slog.Logger
	now       func() time.Time
	closing   chan struct{}
	failure   atomic.Pointer[error]
	fatal     chan error

	step func(string) // a test copies the files at each step to durability; nil: nothing
}

// reach calls step.
func (s *database) reach(step string) {
	if s.step != nil {
		s.step(step)
	}
}

// errClosed is the error of calls on a closed store.
var errClosed = errors.New("sqlite: the store is closed")

// fail makes err the error of every later call, and returns it.
func (s *database) fail(err error) error {
	err = fmt.Errorf("sqlite: the database cannot be trusted any more; it has to be opened anew: %w", err)
	if s.failure.CompareAndSwap(nil, &err) {
		s.log.Error("database failed; refusing every call", "err", err)
		s.fatal <- err
	}
	return s.failed()
}

func (s *database) failed() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// gone is the error of a call that came too late.
func (s *database) gone() error { return cmp.Or(s.failed(), errClosed) }

// reader has the calls that read.
type reader struct{ *database }

// feeder reads feeds of endpoints.
type feeder struct{ *database }

// changer has the calls that write: each makes an operation and waits for it (write).
type changer struct {
	*database
	drained drained
}

// readers is a pool of connections that can only read. An unused connection is in the channel.
type readers chan *sqlite3.Conn

// drained remembers up to which delivery nothing is pending at an endpoint. That stays true because
// new deliveries have higher row ids (rising).
type drained struct {
	mu   sync.Mutex
	most int
	to   map[string]int64
}

func (d *drained) upTo(endpoint string, delivery int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.to, d.most, endpoint, max(d.to[endpoint], delivery))
}

func (d *drained) from(endpoint string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.to[endpoint]
}

func errFull(cause error) error {
	return &grapnel.Error{Code: grapnel.CodeStorageFull, Detail: "the disk that holds the database is full", Err: cause}
}

func full(err error) bool {
	var e *sqlite3.Error
	return errors.As(err, &e) && e.Full() || journal.Full(err)
}

func busy(err error) bool {
	var e *sqlite3.Error
	return errors.As(err, &e) && e.Busy()
}

func broken(err error) bool {
	var e *sqlite3.Error
	return errors.As(err, &e) && e.Broken() || errors.Is(err, errNotRising) || errors.Is(err, journal.ErrFailed) ||
		errors.Is(err, errReplay) && !full(err)
}

// errReplay is in the chain of the error of a frame that cannot be applied again.
var errReplay = errors.New("sqlite: a frame of the journal cannot be applied again")
