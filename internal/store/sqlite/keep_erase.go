package sqlite

import (
	"context"
	"errors"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	erasableQuery = `SELECT e.first, e.made, e.key FROM event e JOIN kind k ON k.number = e.kind
		WHERE e.seq = ?1 AND k.tenant = ?2 AND (e.packed <> ?3 OR ?4 AND e.key <> '')`
	emptyEventQuery  = "UPDATE event SET metadata = NULL, intake = NULL, packed = ?, sum = 0, data = ? WHERE seq = ?"
	emptyKeyQuery    = "UPDATE event SET key = '', hash = 0 WHERE seq = ?"
	emptyReasonQuery = "UPDATE finished SET reason = NULL WHERE seq = ?"
	emptyMarkQuery   = "UPDATE mark SET note = '', discard_reason = '' WHERE delivery = ? AND (note <> '' OR discard_reason <> '')"
	lastBodyQuery    = "SELECT target, position, last, iif(typeof(last) = 'integer', last, 0) FROM finished WHERE seq = ?"
	// deadPartsQuery finds dead letters of an event, of which the table letter has a row each.
	deadPartsQuery = "SELECT f.seq FROM finished f JOIN letter l ON l.target = f.target AND l.seq = f.seq WHERE f.seq >= ?1 AND f.seq < ?2" +
		" UNION ALL SELECT f.seq FROM redelivery r JOIN finished f ON f.seq = r.delivery JOIN letter l ON l.target = f.target AND l.seq = f.seq" +
		" WHERE r.event = ?3"
	triesQuery = "SELECT number, body FROM attempt WHERE delivery = ?"
)

// EraseEvents empties a few events in each transaction, and removes the bytes as Purge does. An
// emptied row says so itself (codec.Erasing), so a call that was interrupted is repeated.
func (s *keeper) EraseEvents(ctx context.Context, e store.Erasure) (done store.Erased, err error) {
	if len(e.Events) == 0 {
		return done, ctx.Err()
	}
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	err = s.erased(ctx, func() error {
		for seqs := e.Events; len(seqs) > 0; {
			n := min(s.bounds.Purged, len(seqs))
			var some store.Erased
			if err := s.write(ctx, &change{shrinks: true, do: func(t *tx) error {
				some = store.Erased{}
				for _, seq := range seqs[:n] {
					if err := eraseEvent(t, &e, seq, &some); err != nil {
						return err
					}
				}
				return nil
			}}); err != nil {
				return err
			}
			done.Add(some)
			seqs = seqs[n:]
		}
		return nil
	})
	return done, err
}

// Reclaim removes the bytes of rows that were deleted or replaced before. It reads the whole
// database.
func (s *keeper) Reclaim(ctx context.Context) (string, error) {
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	s.purge.deferred = true
	if err := s.scrubAll(ctx); err != nil {
		return "", err
	}
	return "", s.erased(ctx, func() error { return nil })
}

// eraseEvent empties one event with its deliveries, unless one of these may need it.
func eraseEvent(t *tx, e *store.Erasure, seq int64, done *store.Erased) error {
	data, packed := codec.Erasing(e.At)
	q := t.conn.Query(erasableQuery).Int(seq).Text(e.Tenant).Int(packed).Bool(e.Keys)
	found, err := q.Row()
	if !found || err != nil {
		return err
	}
	first, end, key := q.Integer(0), q.Integer(0)+q.Integer(1), q.String(2)
	q.Reset()
	deliveries := func(query string) ([]int64, error) {
		return rows.Integers(t.conn.Query(query).Int(first).Int(end).Int(seq))
	}
	needing, err := deliveries(ofEvent("pending"))
	if err == nil && len(needing) == 0 && e.LeaveDead {
		needing, err = deliveries(deadPartsQuery)
	}
	if err == nil && len(needing) > 0 {
		done.Pending = append(done.Pending, seq)
		return nil
	}
	finished, unread := deliveries(ofEvent("finished"))
	if err := errors.Join(err, unread, leaveHole(t, seq),
		t.conn.Query(emptyEventQuery).Int(packed).Blob(data).Int(seq).Run()); err != nil {
		return err
	}
	done.Events++
	for _, delivery := range finished {
		n, err := emptyDelivery(t, delivery, key, e.Keys)
		if err != nil {
			return err
		}
		done.Deliveries, done.Attempts = done.Deliveries+1, done.Attempts+n
	}
	if e.Keys && key != "" {
		return t.conn.Query(emptyKeyQuery).Int(seq).Run()
	}
	return nil
}

func ofEvent(table string) string {
	return "SELECT seq FROM " + table + " WHERE seq >= ?1 AND seq < ?2 UNION ALL SELECT seq FROM " + table +
		" WHERE seq IN (SELECT delivery FROM redelivery WHERE event = ?3)"
}

// emptyDelivery empties a finished delivery, and returns how many attempts it had.
func emptyDelivery(t *tx, delivery int64, key string, keys bool) (attempts int, err error) {
	q := t.conn.Query(lastBodyQuery).Int(delivery)
	found, err := q.Row()
	if !found || err != nil {
		return 0, err
	}
	target, position, ended, ending := q.Integer(0), q.Integer(1), q.Bytes(2), q.Integer(3)
	q.Reset()
	if ending != 0 {
		ended, err = rows.First(t.conn.Query("SELECT body FROM ending WHERE number = ?").Int(ending), nil, bodyOf)
	}
	if err == nil && ended != nil {
		attempts++
		if ended, err = codec.EmptyAttempt(ended); err == nil && ending != 0 {
			err = t.conn.Query("UPDATE ending SET body = ? WHERE number = ?").Blob(ended).Int(ending).Run()
		} else if err == nil {
			err = t.conn.Query("UPDATE finished SET last = ? WHERE seq = ?").Blob(ended).Int(delivery).Run()
		}
	}
	if err != nil {
		return 0, err
	}
	type try struct {
		number int64
		body   []byte
	}
	tries, err := rows.Each(t.conn.Query(triesQuery).Int(delivery), func(q *sqlite3.Stmt) (try, error) { return try{q.Integer(0), q.Bytes(1)}, nil })
	for _, one := range tries {
		if err == nil {
			one.body, err = codec.EmptyAttempt(one.body)
		}
		if err == nil {
			err = t.conn.Query("UPDATE attempt SET body = ? WHERE delivery = ? AND number = ?").Blob(one.body).Int(delivery).Int(one.number).Run()
		}
		attempts++
	}
	if keys && key != "" && err == nil {
		err = forgetLane(t, laneOf{target, key}, position, true)
	}
	return attempts, errors.Join(err, t.conn.Query(emptyReasonQuery).Int(delivery).Run(), t.conn.Query(emptyMarkQuery).Int(delivery).Run())
}

func bodyOf(q *sqlite3.Stmt) ([]byte, error) { return q.Bytes(0), nil }
