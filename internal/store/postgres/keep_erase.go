package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

const (
	erasableQuery = "SELECT seq, first, last FROM event WHERE seq = ANY($1) AND tenant = $2 AND (packed <> $3 OR $4 AND key <> '') ORDER BY seq"
	endedBodies   = "SELECT seq, 0, body FROM finished WHERE seq = ANY($1) AND body IS NOT NULL"
	triedBodies   = "SELECT delivery, number, body FROM attempt WHERE delivery = ANY($1)"

	deadQuery = "SELECT u.event FROM unnest($1::bigint[], $2::bigint[]) u(event, seq) WHERE NOT EXISTS" +
		" (SELECT FROM mark WHERE delivery = u.seq AND (discarded IS NOT NULL OR replay_result = 'delivered'))"

	emptyEvents  = "UPDATE event SET metadata = NULL, intake = NULL, packed = $2, sum = 0, data = $3 WHERE seq = ANY($1)"
	emptyKeys    = "UPDATE event SET key = '' WHERE seq = ANY($1)"
	leaveLanes   = "UPDATE finished SET lane = 0 WHERE seq = ANY($1)"
	emptyReasons = "UPDATE finished SET reason = '' WHERE seq = ANY($1)"
	emptyEnded   = "UPDATE finished f SET body = u.body FROM unnest($1::bigint[], $2::int[], $3::bytea[]) u(seq, number, body) WHERE f.seq = u.seq"
	emptyTried   = `UPDATE attempt a SET body = u.body FROM unnest($1::bigint[], $2::int[], $3::bytea[]) u(delivery, number, body)
		WHERE a.delivery = u.delivery AND a.number = u.number`
	emptyMarks = "UPDATE mark SET note = '', discard_reason = '' WHERE delivery = ANY($1)"
)

// EraseEvents excludes the writes that refer to finished deliveries: no redelivery of an event can
// begin between the look at its deliveries and the end of the transaction.
func (s *keeper) EraseEvents(ctx context.Context, e store.Erasure) (done store.Erased, err error) {
	for some := range slices.Chunk(e.Events, s.bounds.PurgePage) {
		var of store.Erased
		err := s.inChore(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			of, err = eraseSome(ctx, tx, &e, some)
			return err
		})
		if err != nil {
			return done, err
		}
		done.Add(of)
	}
	return done, ctx.Err()
}

func eraseSome(ctx context.Context, tx pgx.Tx, e *store.Erasure, seqs []int64) (done store.Erased, err error) {
	b := new(pgx.Batch)
	b.Queue(beginShared, lockClass, lockConfiguration)
	b.Queue(aloneLock, lockClass, lockRemoval)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return done, err
	}
	data, packed := codec.Erasing(e.At)
	var of oldEvent
	var all []oldEvent
	if err := rows.Ask(ctx, tx, erasableQuery, seqs, e.Tenant, packed, e.Keys).Each([]any{&of.seq, &of.first, &of.last}, func() {
		all = append(all, of)
	}); err != nil || len(all) == 0 {
		return done, err
	}
	finished, pending := make(map[int64][]int64), make(map[int64]bool)
	var failed, failedOf []int64
	var p part
	if err := rows.Ask(ctx, tx, partsQuery, rows.Column(all, func(e oldEvent) int64 { return e.seq }),
		rows.Column(all, func(e oldEvent) int64 { return e.first }), rows.Column(all, func(e oldEvent) int64 { return e.last })).
		Each(p.into(), func() {
			if p.finished == nil {
				pending[p.event] = true
			} else {
				finished[p.event] = append(finished[p.event], p.seq)
				if p.status == grapnel.Failed {
					failed, failedOf = append(failed, p.seq), append(failedOf, p.event)
				}
			}
		}); err != nil {
		return done, err
	}
	if e.LeaveDead && len(failed) > 0 {
		var event int64
		if err := rows.Ask(ctx, tx, deadQuery, failedOf, failed).Each([]any{&event}, func() { pending[event] = true }); err != nil {
			return done, err
		}
	}
	var events, deliveries []int64
	for _, of := range all {
		if !pending[of.seq] {
			events, deliveries = append(events, of.seq), append(deliveries, finished[of.seq]...)
		}
	}
	for _, seq := range seqs { // in the order asked for
		if pending[seq] {
			done.Pending = append(done.Pending, seq)
		}
	}
	done.Events, done.Deliveries = len(events), len(deliveries)
	if len(events) == 0 {
		return done, nil
	}
	b = new(pgx.Batch)
	for _, of := range [][2]string{{endedBodies, emptyEnded}, {triedBodies, emptyTried}} {
		n, err := emptyBodies(ctx, tx, b, of[0], of[1], deliveries)
		if err != nil {
			return done, err
		}
		done.Attempts += n
	}
	b.Queue(emptyEvents, events, packed, data)
	b.Queue(marksLock, deliveries)
	b.Queue(emptyMarks, deliveries)
	b.Queue(emptyReasons, deliveries)
	if e.Keys {
		b.Queue(forgetLanes, deliveries, int64(-1)<<62) // however short they were pending
		b.Queue(emptyKeys, events)
		b.Queue(leaveLanes, deliveries)
	}
	return done, tx.SendBatch(ctx, b).Close()
}

// emptyBodies reads attempts of deliveries and queues their replacement. It returns how many there
// are.
func emptyBodies(ctx context.Context, tx pgx.Tx, b *pgx.Batch, query, update string, deliveries []int64) (int, error) {
	var seqs []int64
	var numbers []int32
	var bodies [][]byte
	var seq int64
	var number int32
	var body []byte
	var broken error
	err := rows.Ask(ctx, tx, query, deliveries).Each([]any{&seq, &number, &body}, func() {
		empty, err := codec.EmptyAttempt(body)
		if err != nil && broken == nil {
			broken = fmt.Errorf("attempt %d of delivery number %d: %w", number, seq, err)
		}
		seqs, numbers, bodies = append(seqs, seq), append(numbers, number), append(bodies, empty)
	})
	if err == nil {
		err = broken
	}
	b.Queue(update, seqs, numbers, bodies)
	return len(seqs), err
}

// reclaimed are the tables that Reclaim vacuums.
var reclaimed = []string{"event", "event_name", "finished", "attempt", "mark", "lane", "audit", "document", "answer", "aside", "known", "replay",
	"kind", "target", "pending", "lease", "configuration_change", "data_key", "endpoint", "source", "policy", "event_type", "api_key",
	"access_record", "standing", "total", "total_type", "tally"}

// Reclaim vacuums, which frees the space of old rows, and replaces the samples of values in the
// server's statistics. PostgreSQL leaves the bytes in its files until new rows are written over
// them. Only VACUUM FULL writes the files anew; it locks them meanwhile.
func (s *keeper) Reclaim(ctx context.Context) (string, error) {
	left := "run VACUUM FULL when a pause is possible: PostgreSQL leaves deleted bytes in the free space of its files. " +
		"Its log (WAL), archives of it, and replicas hold them until they are recycled"
	conn, err := s.chores.Acquire(ctx)
	if err != nil {
		return "", asError(err)
	}
	defer s.giveBack(conn)
	for _, table := range reclaimed {
		// Without the pool's own beginning of a transaction, in which no table can be vacuumed.
		if _, err := conn.Exec(ctx, "VACUUM (ANALYZE) "+table, pgx.QueryExecModeSimpleProtocol); err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			s.log.Warn("vacuum after an erasure failed; the space of deleted rows is freed by autovacuum", "table", table, "err", err)
			return left + "; VACUUM failed: " + asError(err).Error(), nil
		}
	}
	return left, nil
}
