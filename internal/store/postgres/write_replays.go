package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

const (
	replayColumns = `r.number, r.revision, r.body, p.up_to, p.cursor, p.started, p.done, p.delivered, p.failed, p.run
		FROM replay r JOIN replay_progress p ON p.replay = r.number `
	replayQuery = "SELECT " + replayColumns + "WHERE r.id = $1"
	replayLock  = replayQuery + " FOR UPDATE"
	addReplay   = `WITH made AS (INSERT INTO replay (id, tenant, endpoint, status, active, finished, revision, body)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			RETURNING number)
		INSERT INTO replay_progress SELECT number, $9, 0, 0, 0, 0, 0, 0 FROM made`
	setReplay  = "UPDATE replay SET status = $2, active = $3, finished = $4, revision = $5, body = $6 WHERE number = $1"
	itemsQuery = "SELECT original, created, made, at, status FROM replay_item WHERE replay = $1 AND original > $2 ORDER BY original LIMIT $3"
	addItems   = `INSERT INTO replay_item (made, replay, original, created, at, status)
		SELECT made, $1, original, (SELECT created FROM finished WHERE seq = original), $4, 'pending' FROM unnest($2::bigint[], $3::bigint[]) u(made, original)`
	advanceTo = "UPDATE replay_progress SET cursor = $2, started = started + $3 WHERE replay = $1"
)

func readReplay(row pgx.Row) (*decide.StoredReplay, error) {
	var r, counted decide.StoredReplay
	var revision int64
	var body []byte
	if err := row.Scan(&r.Number, &revision, &body, &counted.UpTo, &counted.Cursor, &counted.Started, &counted.Done, &counted.Delivered,
		&counted.Failed, &counted.Row); err != nil {
		return nil, err
	}
	var err error
	r.Replay, err = codec.DecodeReplay(revision, body)
	r.UpTo, r.Cursor, r.Started, r.Done = counted.UpTo, counted.Cursor, counted.Started, counted.Done
	r.Delivered, r.Failed, r.Row = counted.Delivered, counted.Failed, counted.Row
	return &r, err
}

// lockReplay returns the replay with this id, or nil, and keeps other transactions from changing
// it.
func lockReplay(t *tx, id string) (*decide.StoredReplay, error) {
	r, err := readReplay(t.conn.QueryRow(t.ctx, replayLock, id))
	if rows.IsNone(err) {
		return nil, nil
	}
	return r, err
}

// PutReplay gives a new replay revision 1. It excludes accepting of events for a moment, so that
// the newest delivery is well defined.
func (s *changer) PutReplay(ctx context.Context, scope store.Scope, r grapnel.Replay, with store.With) (store.Put, error) {
	return s.put(ctx, &putting{with: with, keep: true, do: func(t *tx) (int64, error) {
		there, err := lockReplay(t, r.ID)
		var kept grapnel.Replay
		if err == nil {
			kept, err = decide.Replay(scope, there.Shown(), r)
		}
		if err != nil {
			return 0, err
		}
		body, err := codec.EncodeReplay(kept)
		revision := r.Revision + 1
		if there == nil && err == nil {
			var newest int64 // read before the replay's operational events are stored
			err = t.conn.QueryRow(t.ctx, "SELECT "+newestSQL).Scan(&newest)
			t.then(addReplay, r.ID, r.Tenant, r.Endpoint, string(r.Status), !r.Status.Final(), codec.Micros(r.FinishedAt), revision, body, newest)
		} else if there != nil {
			t.then(setReplay, there.Number, string(r.Status), !r.Status.Final(), codec.Micros(r.FinishedAt), revision, body)
		}
		return revision, err
	}})
}

// Advance creates the next deliveries of a replay.
func (s *changer) Advance(ctx context.Context, step store.ReplayStep) ([]store.Redelivered, error) {
	r, err := readReplay(s.pool.QueryRow(ctx, replayQuery, step.Replay))
	if rows.IsNone(err) {
		return nil, store.ErrNotFound("replay")
	}
	if err != nil {
		return nil, readError(ctx, err)
	}
	found, err := s.origins(ctx, rows.Column(step.Items, func(i store.Redelivery) int64 { return i.Of }))
	if err != nil {
		return nil, err
	}
	var done []store.Redelivered
	err = s.writeAlone(ctx, &change{
		needs: func(n *needs) {
			n.refers, n.endpoints[r.Endpoint] = true, true
			for _, i := range step.Items {
				if of := found[i.Of]; of.seq != 0 && of.endpoint == r.Endpoint {
					of.needAgain(n, i.Ordered)
				}
			}
		},
		do: func(t *tx) (err error) { done, err = advance(t, &step, r.Endpoint, found); return err },
	})
	return result(&done, err)
}

// advance makes a step of a replay of an endpoint.
func advance(t *tx, step *store.ReplayStep, endpoint string, origins map[int64]origin) ([]store.Redelivered, error) {
	r, err := lockReplay(t, step.Replay)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, store.ErrNotFound("replay")
	}
	if err := decide.Step(&r.Replay, step); err != nil {
		return nil, err
	}
	if err := t.open(endpoint); err != nil {
		return nil, err
	}
	done := make([]store.Redelivered, len(step.Items))
	overtaken, err := overtaken(t, step.Items)
	if err != nil {
		return nil, err
	}
	var made, originals []int64
	for n, i := range step.Items {
		if of := origins[i.Of]; of.endpoint == endpoint && t.over[i.Of] != nil && !overtaken[i.Of] && !of.erased {
			if done[n], err = repeatOf(t, of, grapnel.TriggerReplay, i.Ordered, i.Delay, step.At, step.Replay); err != nil {
				return nil, err
			}
			made, originals = append(made, done[n].Delivery), append(originals, i.Of)
		}
	}
	if len(made) > 0 {
		t.then(addItems, r.Number, made, originals, codec.Micros(step.At))
	}
	t.then(advanceTo, r.Number, step.To, len(made))
	return done, nil
}

// marksSeen locks in the order of marksLock.
const marksSeen = `SELECT delivery, replayed_as, discarded IS NOT NULL FROM mark WHERE delivery = ANY($1) ORDER BY delivery FOR UPDATE`

// overtaken are the originals that were redelivered or discarded since the replay chose them.
func overtaken(t *tx, all []store.Redelivery) (map[int64]bool, error) {
	items := make(map[int64]*store.Redelivery, len(all))
	for n := range all {
		items[all[n].Of] = &all[n]
	}
	overtaken := make(map[int64]bool)
	var delivery, as int64
	var discarded bool
	err := rows.Ask(t.ctx, t.conn, marksSeen, rows.Column(all, func(i store.Redelivery) int64 { return i.Of })).
		Each([]any{&delivery, &as, &discarded}, func() { overtaken[delivery] = items[delivery].Overtaken(as, discarded) })
	return overtaken, err
}

// The outcome of a delivery that repeats another one is stored on the original, and counted for the
// replay that created it.
const (
	marksLock = "SELECT FROM mark WHERE delivery = ANY($1) ORDER BY delivery FOR UPDATE"
	// others finds the failed deliveries of the events that redeliveries ($1) have delivered, at their
	// endpoints. Those that failed later in the transaction ($3, each after the redelivery in $2) are
	// left out. It looks at $4 redeliveries of each event and at as many originals of originals.
	others = `WITH RECURSIVE d AS (
			SELECT seq AS made, event, target, created, replay_of FROM finished WHERE seq = ANY($1)
		), up AS (
			SELECT made, replay_of AS seq, 1 AS steps FROM d UNION ALL SELECT made, o.replay_of, steps + 1 FROM up CROSS JOIN LATERAL (
				SELECT replay_of FROM finished WHERE seq = up.seq UNION ALL SELECT replay_of FROM pending WHERE seq = up.seq) o
			WHERE o.replay_of <> 0 AND steps < $4::int
		), near AS (
			SELECT made, seq FROM up
			UNION SELECT made, delivery FROM d CROSS JOIN LATERAL (SELECT delivery FROM redelivery WHERE event = d.event LIMIT $4::int) r
		), others AS (
			SELECT DISTINCT ON (f.seq) f.seq, d.made, d.created FROM near JOIN d USING (made)
				CROSS JOIN LATERAL (SELECT seq, target, status FROM finished WHERE seq = near.seq OFFSET 0) f
			WHERE f.target = d.target AND f.status = 'failed' AND f.seq < d.made
				AND NOT EXISTS (SELECT FROM unnest($2::bigint[], $3::bigint[]) l(made, seq) WHERE l.made = d.made AND l.seq = f.seq)
			ORDER BY f.seq, d.made DESC
		) `
	othersLock = others + `SELECT FROM mark WHERE delivery = ANY(ARRAY(SELECT seq FROM others UNION SELECT unnest($5::bigint[])))
		ORDER BY delivery FOR UPDATE`
	markOthers = others + `INSERT INTO mark (delivery, replayed, replayed_by, replayed_as, replay_result)
		SELECT seq, created, coalesce((SELECT r.id FROM replay_item i JOIN replay r ON r.number = i.replay WHERE i.made = o.made), ''), made,
			'delivered' FROM others o ORDER BY seq
		ON CONFLICT (delivery) DO UPDATE SET replayed = excluded.replayed, replayed_by = excluded.replayed_by, replayed_as = excluded.replayed_as,
			replay_result = excluded.replay_result WHERE mark.replayed_as < excluded.replayed_as`
	setReplayed = `INSERT INTO mark (delivery, replayed, replayed_by, replayed_as, replay_result)
		SELECT *, 'pending' FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[])
		ON CONFLICT (delivery) DO UPDATE SET replayed = excluded.replayed, replayed_by = excluded.replayed_by, replayed_as = excluded.replayed_as,
			replay_result = excluded.replay_result`
	setResults = `UPDATE mark SET replay_result = u.status FROM unnest($1::bigint[], $2::bigint[], $3::text[]) u(original, made, status)
		WHERE delivery = u.original AND replayed_as = u.made`
	progressLock = `SELECT FROM replay_progress WHERE replay IN (SELECT replay FROM replay_item WHERE made = ANY($1)) ORDER BY replay FOR UPDATE`
	countItems   = `WITH done AS (
			UPDATE replay_item i SET status = u.status FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY u(made, status, place)
			WHERE i.made = u.made RETURNING i.replay, u.status, u.place
		), placed AS (
			SELECT *, max(place) FILTER (WHERE status = 'delivered') OVER (PARTITION BY replay) AS delivered FROM done
		), sums AS (
			SELECT replay, count(*) AS n, count(*) FILTER (WHERE status = 'delivered') AS well,
				count(*) FILTER (WHERE place > coalesce(delivered, 0)) AS run, max(delivered) IS NOT NULL AS anew FROM placed GROUP BY replay
		)
		UPDATE replay_progress p SET done = done + n, delivered = p.delivered + well, failed = failed + n - well,
			run = CASE WHEN anew THEN s.run ELSE p.run + s.run END FROM sums s WHERE p.replay = s.replay`
)

func flushRepeated(t *tx, b *pgx.Batch) {
	if len(t.repeated) == 0 && len(t.replayed) == 0 {
		return
	}
	// If a delivery is repeated more than once, only the last repetition counts.
	last := make(map[int64]replayed)
	for _, r := range t.replayed {
		last[r.of] = r
	}
	originals := sortedKeys(last, cmp.Compare[int64])
	locks := append(rows.Column(t.repeated, func(r repeated) int64 { return r.of }), originals...)
	slices.Sort(locks)
	made := rows.Column(t.repeated, func(r repeated) int64 { return r.seq })
	if len(made) > 0 {
		b.Queue(progressLock, made) // before the marks, as Advance does (lockReplay)
	}
	var delivered, after, late []int64
	for _, r := range t.repeated {
		if r.status != grapnel.Delivered {
			continue
		}
		delivered = append(delivered, r.seq)
		event := t.finished[r.later-1].Event
		for _, f := range t.finished[r.later:] {
			if f.status == grapnel.Failed && f.Event == event {
				after, late = append(after, r.seq), append(late, f.Seq)
			}
		}
	}
	if locks = slices.Compact(locks); len(delivered) == 0 {
		b.Queue(marksLock, locks)
	} else {
		b.Queue(othersLock, delivered, after, late, store.MostRedeliveries, locks)
	}
	if len(originals) > 0 {
		b.Queue(setReplayed, originals, rows.Column(originals, func(of int64) int64 { return last[of].at }),
			rows.Column(originals, func(of int64) string { return last[of].by }),
			rows.Column(originals, func(of int64) int64 { return last[of].as }))
	}
	if len(made) > 0 {
		results := rows.Column(t.repeated, func(r repeated) string { return string(r.status) })
		b.Queue(setResults, rows.Column(t.repeated, func(r repeated) int64 { return r.of }), made, results)
		b.Queue(countItems, made, results)
	}
	if len(delivered) > 0 {
		b.Queue(markOthers, delivered, after, late, store.MostRedeliveries)
	}
}
