package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// transact runs one transaction for the requests. careful says that it expects nothing of the
// deliveries that it changes, nor of minted ids: see write_lone.go.
func (s *writer) transact(ctx context.Context, slot int16, batch []*request, careful bool) error {
	t := &tx{conns: &s.connections, callers: s.callers, slot: slot, needs: newNeeds()}
	for _, r := range batch {
		r.need(t.needs)
	}
	if careful {
		t.needs.carefully()
	}
	var err error
	if t.names, err = s.learn(ctx, t.needs.targets, t.needs.kinds); err != nil {
		return err
	}
	if t.calendar, err = s.learnDays(ctx); err != nil {
		return err
	}
	conn, err := s.writing.Acquire(ctx)
	if err != nil {
		return err
	}
	defer s.giveBack(conn) // closes it if it is still in a transaction
	t.ctx, t.conn = ctx, conn.Conn()
	if err := begin(s.database, t); err != nil {
		return t.undo(err)
	}
	applied := 0
	for _, r := range batch {
		switch err := r.apply(t); {
		case err == nil:
			applied++
		case decided(err):
			r.err = err
		default:
			return t.undo(err)
		}
	}
	if applied == 0 {
		return t.undo(nil)
	}
	return commit(s.database, t)
}

// begin takes the locks and reads the rows, in one round trip.
func begin(s *database, t *tx) error {
	n := t.needs
	t.epochs = make(map[int16]int64)
	t.endpoints, t.answers, t.events, t.known = make(map[string]decide.Object), make(map[string]*answer), make(map[eventName]*met),
		make(map[string]*known)
	t.named = make(map[int64]bool)
	t.places, t.over, t.lanes, t.byName = make(map[int64]*place), make(map[int64]*over), make(map[int64]*lane), make(map[laneOf]*lane)
	t.standings, t.tallies, t.totals = make(map[string]standing), make(map[tallyOf]*tally), make(map[totalOf]*grapnel.Totals)
	t.types = make(map[typeOf]*grapnel.Totals)

	were := s.highest.now()
	b := new(pgx.Batch)
	b.Queue("begin")
	if w := s.writing; w.prelude() != "" { // its connections do not have plannedOnce either
		w.queuePrelude(b)
		b.Queue("SELECT " + planned)
	}
	lock := shareLock
	if n.exclusive {
		lock = aloneLock
	}
	b.Queue(lock, lockClass, lockConfiguration)
	if n.refers {
		b.Queue(shareLock, lockClass, lockRemoval)
	}
	if n.queue != "" {
		queue, err := t.names.target(n.queue)
		if err != nil {
			return err
		}
		b.Queue(queueLock, queue)
	}
	switch shards := sortedKeys(n.shards, cmp.Compare[int16]); {
	case len(n.guarded) > 0:
		b.Queue(guardLock, shards, n.guarded).Query(t.readEpochs)
	case len(shards) > 0:
		b.Queue(shardsLock, shards).Query(t.readEpochs)
	}
	if len(n.keys) > 0 {
		b.Queue(answersQuery, keysOf(n.keys)).Query(t.readAnswers)
	}
	targets, keys, counts, err := n.wanted(&t.names)
	if err != nil {
		return err
	}
	ended := t.calendar.of("finished", n.deliveries)
	switch {
	case len(targets) > 0:
		b.Queue(positionsSQL, targets, keys, counts, n.deliveries).Query(t.readPositions)
		b.Queue(forgottenQuery, targets).Query(t.readForgotten)
	case len(n.deliveries) > 0:
		b.Queue(lanesLock, n.deliveries)
	}
	askLone(t, b)
	b.Queue(versionQuery, n.newEvents, n.newNumbers).QueryRow(func(row pgx.Row) error {
		return row.Scan(&t.version, &t.clock, &t.eventSeqs, &t.seqs)
	})
	if len(n.deliveries) > 0 {
		b.Queue(placesQuery, n.deliveries).Query(t.readPlaces)
	}
	if len(n.deliveries) > 0 || len(targets) > 0 {
		b.Queue(linesQuery(ended), n.deliveries, targets, keys).Query(t.readPlaces)
	}
	if len(n.deliveries) > 0 {
		b.Queue(overQuery(ended), n.deliveries).Query(t.readOver)
	}
	if len(n.endpoints) > 0 {
		b.Queue(endpointsQuery, rows.Possible(keysOf(n.endpoints))).Query(t.readEndpoints)
	}
	if len(n.ids) > 0 {
		ids := rows.Column(sortedKeys(n.ids, byName), func(name eventName) string { return name.id })
		b.Queue(metQuery(t.calendar.holders(ids)), ids, n.tenants()).Query(t.readMet)
	}
	if len(n.known) > 0 {
		b.Queue(knownQuery, rows.Column(keysOf(n.known), func(key string) []byte { return []byte(key) })).Query(t.readKnown)
	}
	if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
		return err
	}
	if err := checkNumbers(t, were); err != nil {
		return err
	}
	if missed(t) {
		return errUnlike
	}
	s.days.clock.Store(t.clock)
	if len(t.eventSeqs) > 0 && dayOf(t.eventSeqs[0]) != t.calendar.current {
		return fmt.Errorf("%w: a day has begun", errSpoiled)
	}
	return readNamed(t)
}

// flush queues everything that the transaction writes.
func flush(t *tx, b *pgx.Batch) {
	for _, queue := range t.first {
		queue(b)
	}
	slices.SortFunc(t.newEvents, func(x, y *incoming) int { return byName(eventName{x.ID, x.Tenant}, eventName{y.ID, y.Tenant}) })
	addEvents.Queue(b, t.newEvents)
	flushKnown(t, b)
	flushLanes(t, b)
	flushPending(t, b)
	addFinished.Queue(b, t.finished)
	addAttempts.Queue(b, t.attempts)
	addRedeliveries.Queue(b, t.redeliveries)
	for _, queue := range t.also {
		queue(b)
	}
	flushRepeated(t, b)
	if len(t.standings) > 0 {
		endpoints := sortedKeys(t.standings, strings.Compare)
		b.Queue(setStandings, endpoints, rows.Column(endpoints, func(e string) int64 { return t.standings[e].number }),
			rows.Column(endpoints, func(e string) []byte { return t.standings[e].body }))
	}
	// Entries keep their order, and so their row ids. Two calls that write the same entries write them
	// in the same order.
	addAudit.Queue(b, t.audit)
	flushTallies(t, b)
	flushTotals(t, b)
	flushAnswers(t, b)
	if t.bumped {
		b.Queue(bumpVersion)
	}
}

// commit writes all changes, and commits, in one round trip.
func commit(s *database, t *tx) error {
	if mistaken(t) {
		return t.undo(errUnlike)
	}
	b := new(pgx.Batch)
	flush(t, b)
	committed := false
	b.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT"
		return nil
	})
	err := t.conn.SendBatch(t.ctx, b).Close()
	var refused *pgconn.PgError
	switch {
	case committed:
		s.highest.committed(t.drawn)
		return nil
	case errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR":
		return t.undo(err) // the server refused a statement before the commit, or the commit
	case err == nil:
		return errors.New("postgres: the transaction was not committed")
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}
