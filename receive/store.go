package receive

import (
	"context"
	"time"
)

// Key is the name of an event at the receiver: the source, and the id that the source signed.
type Key struct{ Source, ID string }

// State is the state of a key or of a request in the inbox.
type State string

// The states of keys. A key without a row has the state "".
const (
	Busy State = "busy" // an owner has it until its lease passes
	Done State = "done" // its effect is committed
	Free State = "free" // its last owner failed; the next request takes it
	Dead State = "dead" // it failed for good
)

// Ready is the state of a request in the inbox that waits for a worker. The others are Busy, Done
// and Dead.
const Ready State = "ready"

// Bid asks for a key. It wins if the key has no row, is free, is busy with a lease that has passed,
// or is done and no longer retained.
type Bid struct {
	Key
	Owner      string // random for each bid
	BodyHash   string // SHA-256 of the body, in hex
	Now        time.Time
	LeaseUntil time.Time
	KeepUntil  time.Time
	Replay     bool // wins only if the key is dead, or busy with a lease that has passed
}

// Claim is the row of a key. A bid has won if the row's owner is the bid's.
type Claim struct {
	Key
	State      State
	Owner      string
	Generation int64
	LeaseUntil time.Time
	BodyHash   string
	Outcome    Outcome // of the last owner that finished
	Deliveries int64
}

// Store keeps the claims. Each method is one atomic step that is durable when it returns, and
// compares times with those it is given, never with a clock of its own.
//
// storetest.Run is the suite that a store has to pass.
type Store interface {
	// Claim makes a bid in one step, never by reading first. A bid that wins makes the key busy with
	// the bid's owner, hash and times, and adds one to generation and deliveries. The result is the
	// row after the step, of the bid's owner or another; the zero Claim if a replay found no row.
	Claim(ctx context.Context, b Bid) (Claim, error)
	// Look returns the row of a key; the zero Claim if the key has none.
	Look(ctx context.Context, k Key) (Claim, error)
	// Renew moves the end of a busy claim's lease. ErrLostClaim: the key has another owner or state.
	Renew(ctx context.Context, c Claim, now, until time.Time) error
	// Settle gives a busy claim its next state and outcome. ErrLostClaim: the key has another owner
	// or state, and nothing was changed.
	Settle(ctx context.Context, c Claim, to State, o Outcome, now time.Time) error
	// Clean deletes at most limit rows of a source that are done or free and no longer retained, and
	// returns their number.
	Clean(ctx context.Context, source string, now time.Time, limit int) (int, error)
}

// Transactor is a store of the database that the handler's effects are in. T is its type of a
// transaction, such as *sql.Tx.
type Transactor[T any] interface {
	Store
	// Transact makes a bid in a new transaction. If it wins, f runs in the transaction and says the
	// outcome that the key is done with; an error of f rolls back and is returned. If it does not
	// win, f does not run. The transaction waits at most wait for another one that has the key, and
	// then fails with ErrLocked. The result is the row of the key as the transaction leaves it.
	Transact(ctx context.Context, b Bid, wait time.Duration, f func(tx T, c Claim) (Outcome, error)) (Claim, error)
}

// Letter is a dead letter: a request whose handler failed for good, or whose body differs from the
// one that its key was processed with (Error begins with "conflict").
type Letter struct {
	Key
	Header     map[string]string // names in lower case; no header that carries a secret
	Body       []byte
	Error      string
	Deliveries int64
	FirstAt    time.Time
	LastAt     time.Time
	ReplayedAt time.Time // zero: never
	Result     string    // outcome of the last replay
}

// Letters is a store that keeps dead letters.
type Letters interface {
	Store
	// Bury stores a letter and makes the busy claim dead, in one transaction. ErrLostClaim as for
	// Settle, and then no letter is stored. A letter of the same key keeps its FirstAt.
	Bury(ctx context.Context, c Claim, l Letter) error
	// Keep stores a letter without a change of the key's claim. It replaces no letter that exists.
	Keep(ctx context.Context, l Letter) error
	// Letter returns the letter of a key, and false if the key has none.
	Letter(ctx context.Context, k Key) (Letter, bool, error)
	// Letters lists at most limit letters of a source by their ids, beginning after an id.
	Letters(ctx context.Context, source, after string, limit int) ([]Letter, error)
	// Replayed records the result of a replay.
	Replayed(ctx context.Context, k Key, at time.Time, result string) error
}

// Item is a request in the inbox.
type Item struct {
	Key
	Row         string // the name of this row; sorts by arrival within one process
	OrderingKey string // "": no order
	Sequence    int64
	Header      map[string]string
	Body        []byte
	Attempts    int64 // this one included
	Owner       string
	ReceivedAt  time.Time
}

// Turn asks for an item.
type Turn struct {
	Source     string
	Owner      string
	Now        time.Time
	LeaseUntil time.Time
	Block      bool // a dead item stops its ordering key
}

// InboxStore is a store that keeps requests for workers.
type InboxStore interface {
	Letters
	// Accept makes a bid, and stores the item as ready if it wins, in one transaction that leaves the
	// key done. It waits like Transact, and its result is the same.
	Accept(ctx context.Context, b Bid, wait time.Duration, i Item) (Claim, error)
	// Take makes one item busy that is ready and due, or busy with a lease that has passed. An
	// ordering key has one busy item at a time, and none before its earlier ones, by sequence and then
	// arrival, are done (or dead, unless Block). Of all others the first that arrived is taken.
	Take(ctx context.Context, t Turn) (Item, bool, error)
	// RenewItem and SettleItem are Renew and Settle for an item. An item that becomes ready is due at
	// next; reason is the text of its last error.
	RenewItem(ctx context.Context, i Item, now, until time.Time) error
	SettleItem(ctx context.Context, i Item, to State, next time.Time, reason string, now time.Time) error
	// BuryItem makes a busy item and its key dead and stores a letter, in one transaction.
	BuryItem(ctx context.Context, i Item, l Letter) error
	// Revive makes a dead item ready with no attempts, or done, and its key done. ErrNotDead: the key
	// has no dead item.
	Revive(ctx context.Context, k Key, to State, now time.Time) error
	// CleanInbox deletes at most limit items of a source that were done before a time.
	CleanInbox(ctx context.Context, source string, before time.Time, limit int) (int, error)
}
