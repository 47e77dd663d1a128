package sqlite

import (
	"slices"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// The keys of Known records are looked up for each incoming event, and hardly ever found. An index
// updated at once is written at a random position for each event, a page every time: four times the
// cost of the event itself. So the entries of the newest events are in memory alone. When enough
// have come, they go to the index together, in its order, so that entries of the same page share
// its write. The rows of known are durable: at the start the store reads those that are not in the
// index.
//
// Deleting a row of known removes nothing from memory or index: an entry without a row is ignored.
// Stale entries are removed from the index when they may be about half of it.

// dedupeCache has the Known keys of the newest events. The writer's goroutine owns it.
type dedupeCache struct {
	most    int
	fresh   map[knownKey]int64 // the events
	moving  map[knownKey]int64 // entries on their way to the index, read-only; nil: none
	changed []dedupeChange     // by this transaction
	out     chan map[knownKey]int64
	back    chan struct{} // gets a token when all moving entries are in the index
}

// dedupeChange is the earlier state of an entry.
type dedupeChange struct {
	key    knownKey
	before int64 // 0: it did not exist
}

const recentQuery = "SELECT seq, key FROM known WHERE seq > (SELECT seq FROM known_moved)"

// load reads the rows that are not in the index.
func (r *dedupeCache) load(conn *sqlite3.Conn, most int) (err error) {
	*r = dedupeCache{most: most, fresh: make(map[knownKey]int64), out: make(chan map[knownKey]int64, 1), back: make(chan struct{}, 1)}
	q := conn.Query(recentQuery)
	for q.More(&err) {
		if key := q.Bytes(1); len(key) == len(knownKey{}) {
			r.fresh[knownKey(key)] = q.Integer(0)
		}
	}
	return err
}

// find returns the event of a key, or 0 if the index must be searched.
func (r *dedupeCache) find(key knownKey) int64 {
	if seq := r.fresh[key]; seq != 0 {
		return seq
	}
	return r.moving[key]
}

func (r *dedupeCache) add(key knownKey, seq int64) {
	r.changed = append(r.changed, dedupeChange{key, r.fresh[key]})
	r.fresh[key] = seq
}

// committed sends entries to the index once there are too many.
func (r *dedupeCache) committed() {
	r.changed = r.changed[:0]
	select {
	case <-r.back:
		r.moving = nil
	default:
	}
	if r.moving == nil && len(r.fresh) >= r.most {
		r.moving, r.fresh = r.fresh, make(map[knownKey]int64)
		r.out <- r.moving
	}
}

func (r *dedupeCache) rolledBack() {
	for _, c := range slices.Backward(r.changed) {
		if r.fresh[c.key] = c.before; c.before == 0 {
			delete(r.fresh, c.key)
		}
	}
	r.changed = r.changed[:0]
}
