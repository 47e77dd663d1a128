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

// held are a tenant's ranges of row ids, by kind.
type held struct {
	of     map[string]numbers
	newest int64 // the highest delivery row id so far, of any tenant
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

// idKinds are the kinds of row ids that an import changes.
var idKinds = []struct {
	name     string
	query    string // a tenant's numbers
	sequence string
	columns  string // columns that have such row ids with a day; empty: no day
}{
	{"event", eventNumbers, "event_number", "event.seq"},
	{"delivery", deliveryNumbers, "delivery_number", "pending.seq finished.seq replay_item.made"},
	{"lane", laneNumbers, "lane_number_seq", ""},
	{"replay", replayNumbers, "replay_number_seq", ""},
	{"entry", entryNumbers, "audit_seq_seq", ""},
}

func numbersOf(ctx context.Context, tx pgx.Tx, of *owned) (held, error) {
	h := held{of: make(map[string]numbers)}
	for _, k := range idKinds {
		var n numbers
		if err := tx.QueryRow(ctx, of.fill(k.query), pgx.QueryExecModeSimpleProtocol).Scan(&n.low, &n.high, &n.first, &n.last); err != nil {
			return h, err
		}
		h.of[k.name] = n
	}
	err := tx.QueryRow(ctx, "SELECT "+newestSQL).Scan(&h.newest)
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
func (s *Store) reserve(ctx context.Context, there *held, by map[string]int64) (here held, err error) {
	ctx, done := s.writing.bound(ctx)
	defer done()
	err = pgx.BeginFunc(ctx, s.writing, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, aloneLock, lockClass, lockConfiguration); err != nil {
			return err
		}
		here = held{make(map[string]numbers), there.newest}
		last := map[string]int64{}
		for _, k := range idKinds {
			var given int64
			if err := tx.QueryRow(ctx, drawn+k.sequence).Scan(&given); err != nil {
				return err
			}
			used := given
			if k.columns != "" {
				used &= 1<<dayBits - 1
			}
			for c := range strings.FieldsSeq(k.columns) {
				table, column, _ := strings.Cut(c, ".")
				var low int64
				if err := tx.QueryRow(ctx, strings.NewReplacer("tab", table, "seq", column).Replace(highestLow)).Scan(&low); err != nil {
					return err
				}
				used = max(used, low)
			}
			n := there.of[k.name]
			offset := max(0, used+1-n.low)
			if k.columns != "" && offset > 0 {
				offset = max(offset, apart)
			}
			if n.last == 0 {
				offset = 0
			}
			if n.high+offset >= 1<<dayBits {
				return grapnel.Errorf(grapnel.CodeConflict, "a day's row ids are used up; the tenant can be imported once that day is purged")
			}
			n.first, n.last = n.first+offset, n.last+offset
			here.of[k.name], by[k.name] = n, offset
			last[k.sequence] = max(given, n.last)
		}
		if here.newest > 0 {
			here.newest += by["delivery"]
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
