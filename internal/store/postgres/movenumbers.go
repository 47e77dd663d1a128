package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
)

// A number that has a day has it in its high bits (days.go). All numbers of a kind become higher by the same, so they keep their order, and by little, so they
// keep their days: by so much that what comes is above all that there is on any day, and not at all if it is already. So numbers are free, and a tenant that
// is taken to and fro does not use them up.

// apart is by how much numbers with a day become higher if they have to. An id that a delivery had before is found by its number and the millisecond of
// its acceptance; it must not be that of another one which was accepted in the same millisecond, and those have numbers near each other.
const apart = 1 << 20

// numbers are what numbers of one kind a tenant has.
type numbers struct {
	low, high   int64 // the lowest and the highest that the low bits are
	first, last int64
}

// held are all numbers of a tenant.
type held struct {
	events, deliveries, lanes, replays, entries numbers
	newest                                      int64 // the number of the newest delivery that there has been, of whomever
}

const (
	rangeOf   = "coalesce(min(n), 0), coalesce(max(n), 0) FROM ("
	lowBounds = "SELECT coalesce(min(n & 68719476735), 0), coalesce(max(n & 68719476735), 0), " + rangeOf
	allBounds = "SELECT coalesce(min(n), 0), 0::bigint, " + rangeOf

	eventNumbers = lowBounds + "SELECT seq AS n FROM event WHERE kind = ANY($kinds)) e"
	// deliveryNumbers are also those that a replay names.
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
	}{{eventNumbers, &h.events}, {deliveryNumbers, &h.deliveries}, {laneNumbers, &h.lanes}, {replayNumbers, &h.replays}, {entryNumbers, &h.entries}} {
		err := tx.QueryRow(ctx, of.fill(q.sql), pgx.QueryExecModeSimpleProtocol).Scan(&q.into.low, &q.into.high, &q.into.first, &q.into.last)
		if err != nil {
			return h, err
		}
	}
	err = tx.QueryRow(ctx, "SELECT "+newestSQL).Scan(&h.newest)
	return h, err
}

const (
	// highestLow is the highest that the low bits of numbers in a column are on any day. It looks at one number of each day.
	highestLow = `WITH RECURSIVE last AS (
			SELECT max(seq) AS n FROM tab
			UNION ALL SELECT (SELECT max(seq) FROM tab WHERE seq < last.n >> 36 << 36) FROM last WHERE last.n IS NOT NULL
		) SELECT coalesce(max(n & 68719476735), 0) FROM last`
	drawn = "SELECT last_value FROM "
	raise = "SELECT setval($1::text::regclass, $2)"
)

// reserve finds out what has to be added to a tenant's numbers, so that they are free here, and lets all that are drawn from now on be higher. Nobody draws
// one meanwhile. If the tenant does not come, numbers have been given in vain. It returns the numbers as they will be.
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
			columns  string // that have such numbers, with a day; empty: these have none
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
				return grapnel.Errorf(grapnel.CodeConflict, "the numbers of a day are used up: the tenant can come once that day is forgotten")
			}
			n.is.first, n.is.last = n.is.first+*n.by, n.is.last+*n.by
			last[n.sequence] = max(given, n.is.last)
		}
		if here.newest > 0 {
			here.newest += by.deliveries
		}
		last["delivery_number"] = max(last["delivery_number"], here.newest)
		// What is drawn at the same time is of the same day.
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
