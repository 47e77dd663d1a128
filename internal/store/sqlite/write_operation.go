package sqlite

import "github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"

// operation is one call of a writing method. Its result is valid when the transaction has
// committed.
type operation interface {
	// apply decides whether it can be done, then does it. An error that is decided leaves the
	// transaction as it was. apply may be called again for another transaction.
	apply(*tx) error
	// grows says whether it needs space that is reserved for outcomes.
	grows() bool
}

// change is an operation made of two functions.
type change struct {
	do      func(*tx) error
	shrinks bool
}

func (o *change) grows() bool { return !o.shrinks }

func (o *change) apply(t *tx) error { return o.do(t) }

// nothing is an operation without effect, which wakes the writer. flushing is answered when all
// earlier writes are in the tables. looking reads rows; seeing also reads sums, which the commit
// would write.
type (
	nothing  struct{}
	flushing struct{}
	looking  func(*sqlite3.Conn) error
	seeing   func(*sqlite3.Conn) error
)

func (nothing) grows() bool { return false }

func (nothing) apply(*tx) error { return nil }

func (flushing) grows() bool { return false }

func (flushing) apply(*tx) error { return nil }

func (looking) grows() bool { return false }

func (do looking) apply(t *tx) error { return do(t.conn) }

func (seeing) grows() bool { return false }

func (do seeing) apply(t *tx) error {
	if err := t.combine(t.unflushed.number, t.needed); err != nil {
		return err
	}
	return do(t.conn)
}
