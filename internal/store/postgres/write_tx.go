package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// tx is one transaction: the rows read when its locks were taken, and the rows it will write.
type tx struct {
	conns   *connections
	ctx     context.Context
	conn    *pgx.Conn
	callers bool // leases end by the times that calls pass
	slot    int16
	needs   *needs

	calendar *calendar
	names    named    // the numbers of the names it needs, for its whole duration
	drawn    counters // see checkNumbers

	// The state that was read.
	version   int64                    // of the configuration
	clock     int64                    // the database's
	epochs    map[int16]int64          // of shards
	endpoints map[string]decide.Object // those that exist
	answers   map[string]*answer
	events    map[eventName]*met
	named     map[int64]bool    // row ids of events that have a name (event_name) and were not found yet
	known     map[string]*known // by key
	places    map[int64]*place  // pending deliveries
	over      map[int64]*over
	lanes     map[int64]*lane // by number
	byName    map[laneOf]*lane
	unlike    bool    // a delivery that is expected to have no lane has a lease
	eventSeqs []int64 // row ids to assign
	seqs      []int64

	// The changes to write.
	bumped       bool // the configuration gets a new version
	newEvents    []*incoming
	fresh        []*place
	gone         []*place
	finished     []finished
	attempts     []attempt
	redeliveries []redelivery
	learned      []*known
	released     []int64 // deliveries whose lease ended
	leased       []*place
	repeated     []repeated
	replayed     []replayed
	remembered   []*answer
	audit        []*grapnel.AuditEntry
	standings    map[string]standing
	tallies      map[tallyOf]*tally
	totals       map[totalOf]*grapnel.Totals
	types        map[typeOf]*grapnel.Totals
	first        []func(*pgx.Batch) // statements that are written before all others
	also         []func(*pgx.Batch) // further statements to write
}

// over is a finished delivery that the transaction has read.
type over struct {
	decide.Found
	tenant string
	lane   *lane // nil: it has none, or no pending delivery is in it
}

type finished struct {
	*place
	status grapnel.Status
	at     int64
	body   []byte
}

type attempt struct {
	delivery int64
	number   int32
	body     []byte
}

type redelivery struct{ delivery, event int64 }

// repeated is the outcome of a delivery that repeats another one.
type repeated struct {
	of, seq int64
	status  grapnel.Status
	later   int // index in finished of the deliveries that the transaction finished afterwards
}

// replayed records that a delivery is repeated.
type replayed struct {
	of, as, at int64
	by         string
}

type standing struct {
	number int64
	body   []byte
}

// answer is a stored answer. It is valid before its expiry, and not at that instant.
type answer struct {
	store.Answer
	key     string
	expires int64
	now     int64 // when it was stored
}

// draw returns the next row id of a delivery.
func (t *tx) draw() int64 {
	seq := t.seqs[0]
	t.seqs = t.seqs[1:]
	return seq
}

// undo rolls the transaction back.
func (t *tx) undo(why error) error {
	if t.conn.IsClosed() {
		return why
	}
	if _, err := t.conn.Exec(t.ctx, "rollback"); err != nil && why == nil {
		return err
	}
	return why
}

// note stores an audit entry, unless it exists.
func (t *tx) note(e *grapnel.AuditEntry) {
	if e != nil {
		t.audit = append(t.audit, e)
	}
}

// stand stores the standing of a change, unless a newer one is stored. It stores none for a deleted
// endpoint, because no call would ever delete it.
func (t *tx) stand(s *store.Standing, body []byte) {
	if s == nil || !t.endpoints[s.Endpoint].There {
		return
	}
	if kept, there := t.standings[s.Endpoint]; !there || kept.number < s.Number {
		t.standings[s.Endpoint] = standing{s.Number, body}
	}
}

// then queues a statement that is written with all others.
func (t *tx) then(sql string, args ...any) {
	t.also = append(t.also, func(b *pgx.Batch) { b.Queue(sql, args...) })
}

// laneBy is the lane of a key. An ordered delivery without its lane would be sent out of order, so
// a lane that was not read is an error.
func (t *tx) laneBy(target int32, key string) (*lane, error) {
	if l := t.byName[laneOf{target, key}]; l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("%w: key %q has no lane at endpoint number %d", errSpoiled, key, target)
}

// lane is the lane with this number.
func (t *tx) lane(number int64, of laneOf) *lane {
	l := t.lanes[number]
	if l == nil {
		l = &lane{laneOf: of, number: number}
		t.lanes[number], t.byName[of] = l, l
	}
	return l
}

// open refuses an endpoint that takes no new deliveries.
func (t *tx) open(endpoint string) error {
	is := t.endpoints[endpoint]
	return is.Open()
}
