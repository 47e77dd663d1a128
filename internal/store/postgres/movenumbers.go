package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
)

// Import adds one offset to every row id of a kind. One offset keeps their order; a small one keeps
// the day in the high bits (days.go). It is the smallest offset (but see apart) that lifts the low
// bits of the incoming ids above those of every id in use, on any day; zero if they already are. So
// the reserved ids are free, and moving a tenant back and forth does not exhaust the range.

// apart is the smallest offset of ids with a day, if one is needed at all. A delivery's earlier
// public id is resolved by its row id and the millisecond of its creation; the shifted id must not
// be that of another delivery created in the same millisecond, and those have adjacent row ids.
const apart = 1 << 20

// numbers is the range of row ids of one kind that a tenant uses.
type numbers struct {
	low, high   int64 // the lowest and the highest low bits
	first, last int64
}

// held are a tenant's ranges of row ids of all kinds.
type held struct {
	events, deliveries, lanes, replays, entries numbers
	newest                                      int64 // the highest delivery row id so far, of any tenant
}

const (
	rangeOf   = "coalesce(min(n), 0), coalesce(max(n), 0) FROM ("
	lowBounds = "SELECT coalesce(min(n & 68719476735), 0), coalesce(max(n & 68719476735), 0), " + rangeOf
	allBounds = "SELECT coalesce(min(n), 0), 0::bigint, " + rangeOf

	eventNumbers = lowBounds + "SELECT seq AS n FROM event WHERE kind = ANY($kinds)) e"
	// deliveryNumbers includes the deliveries that a replay refers to.
	deliveryNumbers = lowBounds + `SELECT seq AS n FROM pending WHERE target = ANY($targets) UNION ALL SELECT seq FROM finished WHERE target = ANY($targets)
		UNION ALL SELECT unnest(ARRAY[made, original]) FROM replay_item JOIN replay r ON r.number = replay WHERE r.tenant = $tenant
		UNION ALL SELECT nullif(unnest(ARRAY[up_to, cursor]), 0) FROM replay_progress JOIN replay r ON r.number = replay WHERE r.tenant = $tenant) d`
	laneNumbers   = allBounds + "SELECT number AS n FROM lane WHERE target = ANY($targets)) l"
	replayNumbers = allBounds + "SELECT number AS n FROM replay WHERE tenant = $tenant) r"
	entryNumbers  = allBounds + "SELECT seq AS n FROM audit WHERE tenant = $tenant) a"
)

func numbersOf(ctx context.Context, tx pgx.Tx, of *owned) (h held, err error) {
	for _, q := range []struct {
		sql  string
		into *numbers
	}{{eventNumbers, &h.events}, {deliveryNumbers, &h.deliveries}, {laneNumbers, &h.lanes}, {replayNumbers,
		&h.replays}, {entryNumbers, &h.entries}} {
		err := tx.QueryRow(ctx, of.fill(q.sql), pgx.QueryExecModeSimpleProtocol).Scan(&q.into.low, &q.into.high, &q.into.first, &q.into.last)
		if err != nil {
			return h, err
		}
	}
	err = tx.QueryRow(ctx, "SELECT "+newestSQL).Scan(&h.newest)
	return h, err
}

const (
	// highestLow is the highest value of the low bits of a column's row ids on any day. It reads
	// one row per day.
	highestLow = `WITH RECURSIVE last AS (
			SELECT max(seq) AS n FROM tab
			UNION ALL SELECT (SELECT max(seq) FROM tab WHERE seq < last.n >> 36 << 36) FROM last WHERE last.n IS NOT NULL
		) SELECT coalesce(max(n & 68719476735), 0) FROM last`
	drawn = "SELECT last_value FROM "
	raise = "SELECT setval($1::text::regclass, $2)"
)

// reserve computes the offsets that make a tenant's row ids free here, and raises the sequences
// above them, under the lock that excludes every other writer. If the import fails the reserved ids
// stay unused. It returns the tenant's row ids with the offsets added.
func (s *Store) reserve(ctx context.Context, there *held, by *shifts) (here held, err error) {
	ctx, done := s.writing.bound(ctx)
	defer done()
	err = pgx.BeginFunc(ctx, s.writing, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, aloneLock, lockClass, lockConfiguration); err != nil {
			return err
		}
		here = *there
		last := map[string]int64{}
		for _, n := range []struct {
			sequence string
			columns  string // columns that have such row ids with a day; empty: no day
			is       *numbers
			by       *int64
		}{
			{"event_number", "event.seq", &here.events, &by.events},
			{"delivery_number", "pending.seq finished.seq replay_item.made", &here.deliveries, &by.deliveries},
			{"lane_number_seq", "", &here.lanes, &by.lanes},
			{"replay_number_seq", "", &here.replays, &by.replays},
			{"audit_seq_seq", "", &here.entries, &by.entries},
		} {
			var given int64
			if err := tx.QueryRow(ctx, drawn+n.sequence).Scan(&given); err != nil {
				return err
			}
			used := given
			if n.columns != "" {
				used &= 1<<dayBits - 1
			}
			for c := range strings.FieldsSeq(n.columns) {
				table, column, _ := strings.Cut(c, ".")
				var low int64
				if err := tx.QueryRow(ctx, strings.NewReplacer("tab", table, "seq", column).Replace(highestLow)).Scan(&low); err != nil {
					return err
				}
				used = max(used, low)
			}
			*n.by = max(0, used+1-n.is.low)
			if n.columns != "" && *n.by > 0 {
				*n.by = max(*n.by, apart)
			}
			if n.is.last == 0 {
				*n.by = 0
			}
			if n.is.high+*n.by >= 1<<dayBits {
				return grapnel.Errorf(grapnel.CodeConflict, "a day's row ids are used up; the tenant can be imported once that day is purged")
			}
			n.is.first, n.is.last = n.is.first+*n.by, n.is.last+*n.by
			last[n.sequence] = max(given, n.is.last)
		}
		if here.newest > 0 {
			here.newest += by.deliveries
		}
		last["delivery_number"] = max(last["delivery_number"], here.newest)
		// Events and deliveries drawn by one transaction must have the same day.
		day := max(last["event_number"], last["delivery_number"]) >> dayBits << dayBits
		for _, sequence := range []string{"event_number", "delivery_number"} {
			last[sequence] = max(last[sequence], day)
		}
		for sequence, n := range last {
			if _, err := tx.Exec(ctx, raise, sequence, n); err != nil {
				return err
			}
		}
		return nil
	})
	return here, err
}
