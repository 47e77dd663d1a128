package sqlite

import (
	"errors"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// tx is one write transaction: the writer's state that must be dropped if it does not commit, and
// the values written once for all operations in it.
type tx struct {
	conn      *sqlite3.Conn
	bounds    *Bounds
	packer    *codec.Packer
	data      *dataFile
	unflushed *unflushed
	q         *statements
	names     names
	dedupe    dedupeCache
	tallies   map[tally]int64 // how the counts change
	accounts  accounts
	types     typeTotals
	ledger    ledger
	outcomes  outcomes
	holders   holders
	pending   pendingCache
	deferred  deferredRows
	knownIDs  knownIDs
	fresh     place           // the row written last, so that writing one allocates none
	hours     map[int64]int64 // by hour: the highest known row id of the events accepted in it

	events     rowIDs // the row ids of events
	deliveries rowIDs // the row ids of deliveries, pending or finished
	version    int64  // of the configuration
	committed  int64  // version, as of the last commit

	number uint64 // of the last batch in the tables; see unflushed
	needed bool   // they have the note that the journal is needed
}

// ledger is the change of the row of that table.
type ledger struct {
	purged          int64 // deliveries purged
	event, delivery int64 // the highest numbers given; 0: as it was
}

// tally is one count of finished deliveries.
type tally struct{ target, tenant, status int64 }

// The highest number of any event and of any delivery, which is pending or finished; or that were
// given before a purge.
const (
	lastEventQuery = "SELECT max((SELECT ifnull(max(seq), 0) FROM event), (SELECT event FROM ledger))"
	newestQuery    = `SELECT max((SELECT ifnull(max(seq), 0) FROM pending), (SELECT ifnull(max(seq), 0) FROM finished),
		(SELECT delivery FROM ledger))`
)

// prepare makes a tx that has only its connection ready for its first transaction.
func (t *tx) prepare() (err error) {
	if t.q, err = prepare(t.conn, t.bounds.Rows); err != nil {
		return err
	}
	t.deferred.bounds = t.bounds
	t.tallies, t.hours = make(map[tally]int64), make(map[int64]int64)
	t.forget()
	if err := t.dedupe.load(t.conn, t.bounds.Recent); err != nil {
		return err
	}
	for query, into := range map[string]*int64{
		lastEventQuery:                      &t.events.last,
		newestQuery:                         &t.deliveries.last,
		"SELECT version FROM configuration": &t.version,
	} {
		if *into, err = rows.One(t.conn, query); err != nil {
			return err
		}
	}
	if t.knownIDs, err = newestOf(t.conn, t.bounds); err != nil {
		return err
	}
	t.committed = t.version
	t.events.given, t.deliveries.given = t.events.last, t.deliveries.last
	return nil
}

func (t *tx) begin() error { return t.q.begin.Run() }

// rollback forgets the transaction. SQLite may have done so itself already.
func (t *tx) rollback() error {
	t.version = t.committed
	t.dedupe.rolledBack()
	clear(t.tallies)
	t.ledger = ledger{}
	t.data.used = t.data.noted
	clear(t.hours)
	t.forget()
	if t.conn.InTransaction() {
		return t.q.rollback.Run()
	}
	return nil
}

// forget drops everything that the writer caches and a transaction has changed.
func (t *tx) forget() {
	t.names.forget()
	t.accounts.forget()
	t.types.forget()
	t.outcomes.forget()
	t.holders.forget()
	t.pending.forget()
	t.deferred.forget()
	t.data.last = 0
}

// decided says whether an operation failed by its own decision, before it wrote anything. After any
// other error the transaction is lost.
func decided(err error) bool {
	return errors.Is(err, store.ErrStale) || grapnel.CodeOf(err) != ""
}

func (t *tx) tenant(name string) (int64, error) {
	bind := func(s *sqlite3.Stmt) *sqlite3.Stmt { return s.Text(name) }
	return numbered(t, t.names.tenants, name, t.q.tenant, t.q.addTenant, bind)
}

func (t *tx) kind(k kind) (int64, error) {
	bind := func(s *sqlite3.Stmt) *sqlite3.Stmt { return s.Text(k.tenant).Text(k.eventType).Text(k.source) }
	return numbered(t, t.names.kinds, k, t.q.kind, t.q.addKind, bind)
}

// cameIn records the block of events in which a source occurs.
func (t *tx) cameIn(source string, seq int64) error {
	block := seq >> rows.BlockBits
	if last, noted := t.names.blocks[source]; source == "" || noted && last == block {
		return nil
	}
	keep(t.names.blocks, t.bounds.Names, source, block)
	return t.q.addSourceBlock.Text(source).Int(block).Run()
}

func (t *tx) target(endpoint string) (int64, error) {
	bind := func(s *sqlite3.Stmt) *sqlite3.Stmt { return s.Text(endpoint) }
	return numbered(t, t.names.targets, endpoint, t.q.target, t.q.addTarget, bind)
}

// numberOf is the target of an endpoint; 0: nothing was ever delivered there. Names are given to
// deliveries alone, whose counts tell the tenant: so a tenant's end finds all of them.
func (t *tx) numberOf(endpoint string) (int64, error) {
	if number := t.names.targets[endpoint]; number != 0 {
		return number, nil
	}
	return rows.Integer(t.q.target.Text(endpoint))
}

// endpoint is the id behind a target's number.
func (t *tx) endpoint(target int64) (string, error) {
	return cached(t.names.ids, t.bounds.Names, target, func() (string, error) { return rows.LookUpText(t.q.targetID.Int(target)) })
}

// numbered returns the number of a name: that in the cache, or that in the table, to which give, an
// INSERT … RETURNING, adds it. bind binds the name to both statements.
func numbered[K comparable](t *tx, known map[K]int64, name K, look, give *sqlite3.Stmt,
	bind func(*sqlite3.Stmt) *sqlite3.Stmt) (int64, error) {
	return cached(known, t.bounds.Names, name, func() (int64, error) {
		n, err := rows.Integer(bind(look))
		if err == nil && n == 0 {
			n, err = rows.LookUp(bind(give))
		}
		return n, err
	})
}
