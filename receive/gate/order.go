package gate

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Version applies an event with a larger version than the row's. A row without one gives way.
type Version struct {
	Table  string
	Key    string // its column; empty: id
	Column string // of the version, an integer; empty: version
}

// Apply brings an event to the row with a key.
func (g Version) Apply(ctx context.Context, db DB, key any, version int64, set Set) (Result, error) {
	column := cmp.Or(g.Column, "version")
	p, err := at(db, g.Table, g.Key, key, Set{column: version}, set)
	if err != nil {
		return "", err
	}
	applied, err := p.upsert(ctx, fmt.Sprintf("g.%[1]s is null or excluded.%[1]s > g.%[1]s", column))
	if applied || err != nil {
		return Applied, err
	}
	var now sql.NullInt64
	_, err = p.stored(ctx, column, &now)
	return older(now.Int64 == version), err
}

func older(equal bool) Result {
	if equal {
		return Equal
	}
	return Stale
}

// Timestamp applies an event with a later time than the row's and, of one instant, with the larger
// id by its bytes. A row without a time gives way.
type Timestamp struct {
	Table string
	Key   string        // its column; empty: id
	Time  string        // its column, an integer of 64 bits: nanoseconds since 1970; empty: time_ns
	Event string        // the column of the event's id; empty: event
	Skew  time.Duration // how far ahead of now a time may be; 0: a minute
	Now   func() time.Time
}

const defaultSkew = time.Minute

// Apply brings an event to the row with a key. Refused: its time is ahead by more than Skew, so it
// would keep all others out.
func (g Timestamp) Apply(ctx context.Context, db DB, key any, when time.Time, event string, set Set) (Result, error) {
	now := time.Now
	if g.Now != nil {
		now = g.Now
	}
	ns := when.UnixNano()
	if !time.Unix(0, ns).Equal(when) {
		return "", fmt.Errorf("gate: the time %s has no nanoseconds since 1970 in 64 bits", when)
	}
	if when.Sub(now()) > cmp.Or(g.Skew, defaultSkew) {
		return Refused, nil
	}
	column, id := cmp.Or(g.Time, "time_ns"), cmp.Or(g.Event, "event")
	p, err := at(db, g.Table, g.Key, key, Set{column: ns, id: event}, set)
	if err != nil {
		return "", err
	}
	applied, err := p.upsert(ctx, fmt.Sprintf("g.%[1]s is null or excluded.%[1]s > g.%[1]s "+
		"or excluded.%[1]s = g.%[1]s and excluded.%[2]s%[3]s > g.%[2]s%[3]s", column, id, db.bytes))
	if applied || err != nil {
		return Applied, err
	}
	var storedTime sql.NullInt64
	var storedEvent sql.NullString
	_, err = p.stored(ctx, column+", "+id, &storedTime, &storedEvent)
	return older(storedTime.Int64 == ns && storedEvent.String == event), err
}

// Gap applies version n+1 to a row of version n, and 1 without a row: for events that are
// differences, none of which may be left out.
type Gap struct {
	Table   string
	Key     string        // its column; empty: id
	Column  string        // of the version, an integer; empty: version
	MaxWait time.Duration // for an earlier version; 0: a minute
	Now     func() time.Time
}

// Apply brings an event that came first at a time to the row with a key. Parked: an earlier version
// is missing. Fetch: it is missing for longer than MaxWait.
func (g Gap) Apply(ctx context.Context, db DB, key any, version int64, first time.Time, set Set) (Result, error) {
	now := time.Now
	if g.Now != nil {
		now = g.Now
	}
	column := cmp.Or(g.Column, "version")
	p, err := at(db, g.Table, g.Key, key, Set{column: version}, set)
	if err != nil {
		return "", err
	}
	var stored sql.NullInt64
	if _, err := p.stored(ctx, column, &stored); err != nil {
		return "", err
	}
	if version == stored.Int64+1 {
		applied, err := p.upsert(ctx, fmt.Sprintf("coalesce(g.%[1]s, 0) = excluded.%[1]s - 1", column))
		if applied || err != nil {
			return Applied, err
		}
		// another transaction has applied it in between
		if _, err := p.stored(ctx, column, &stored); err != nil {
			return "", err
		}
	}
	switch {
	case version <= stored.Int64:
		return older(version == stored.Int64), nil
	case now().Sub(first) <= cmp.Or(g.MaxWait, defaultMaxWait):
		return Parked, nil
	default:
		return Fetch, nil
	}
}

const defaultMaxWait = time.Minute
