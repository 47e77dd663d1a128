package sqlite

import (
	"errors"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// knownIDs knows the ids of the knownIDs events, so that most new ids need no look-up: an id that
// is above the floor is in no row, unless it is in one of the two sets. Ids that the server draws
// rise with the time, so they are above it. An id that a publisher has chosen may be below; then,
// and if it is in a set, the tables decide.
//
// Ids that begin as those of the server do are apart from others. Otherwise one event "invoice-7"
// would be above all of them, and each would be looked up. One that is above all that the server
// had drawn when the event was accepted is apart too: it costs look-ups to its tenant only.
//
// It stays true when a transaction is rolled back or events are purged: a set may have ids that the
// tables do not have.
type knownIDs struct {
	drawn, chosen newestIDs

	ahead map[string]string // by tenant: the highest id that the server had not reached
	rest  string            // the highest one of tenants without an entry
	most  int               // entries
	at    int64             // a millisecond, and
	next  string            // the lowest id of the next one
}

type newestIDs struct {
	most           int // ids in a set
	unflushed, old idSet
	floor          string // the highest id that was in an earlier set, or in the tables at the start
}

// idSet is some ids and the highest of them.
type idSet struct {
	ids  map[string]struct{}
	high string
}

// The character after the underscore is the backquote, so these are the ids with the prefix.
const (
	highestIDQuery    = "SELECT max(id) FROM event"
	highestDrawnQuery = "SELECT max(id) FROM event WHERE id >= '" + grapnel.EventPrefix + "_' AND id < ?"
	aheadQuery        = `SELECT e.id, k.tenant FROM event e CROSS JOIN kind k ON k.number = e.kind
		WHERE e.id >= ? AND e.id < '` + grapnel.EventPrefix + "`' ORDER BY e.id DESC LIMIT ?"
	lastAcceptedQuery = "SELECT accepted FROM event ORDER BY seq DESC LIMIT 1"
)

// newestOf reads the highest ids of the tables.
func newestOf(conn *sqlite3.Conn, b *Bounds) (n knownIDs, err error) {
	n = knownIDs{ahead: make(map[string]string), most: b.Names}
	accepted, err := rows.Integer(conn.Query(lastAcceptedQuery))
	if err != nil {
		return n, err
	}
	next, highest := n.after(accepted), func(q *sqlite3.Stmt) (id string) {
		err = errors.Join(err, rows.Single(q, func() { id = q.String(0) }))
		return id
	}
	n.chosen = newNewestIDs(b.IDs, highest(conn.Query(highestIDQuery)))
	n.drawn = newNewestIDs(b.IDs, highest(conn.Query(highestDrawnQuery).Text(next)))
	if err != nil {
		return n, err
	}
	q, read := conn.Query(aheadQuery).Text(next).Int(int64(b.Ahead)), 0
	for q.More(&err) {
		if read++; read == b.Ahead { // those of further tenants are not known
			n.rest = max(n.rest, n.chosen.floor)
		}
		n.reach(q.String(1), q.String(0))
	}
	return n, err
}

func newNewestIDs(most int, floor string) newestIDs {
	return newestIDs{most: most, floor: floor, unflushed: idSet{ids: make(map[string]struct{})}, old: idSet{ids: make(map[string]struct{})}}
}

// mayHave says whether there may be an event of the tenant with this id.
func (n *knownIDs) mayHave(tenant, id string) bool {
	if !strings.HasPrefix(id, grapnel.EventPrefix+"_") {
		return n.chosen.mayHave(id)
	}
	return n.drawn.mayHave(id) || id <= n.rest || id <= n.ahead[tenant]
}

// add adds the id of an event accepted at this time.
func (n *knownIDs) add(tenant, id string, accepted int64) {
	switch {
	case !strings.HasPrefix(id, grapnel.EventPrefix+"_"):
		n.chosen.add(id)
	case id < n.after(accepted):
		n.drawn.add(id)
	default:
		n.reach(tenant, id)
	}
}

// after is the lowest id that the server draws in the millisecond after this time.
func (n *knownIDs) after(micros int64) string {
	if at := micros / 1000; n.next == "" || n.at != at {
		id := grapnel.NewID(grapnel.EventPrefix, time.UnixMilli(at+1), strings.NewReader("0123456789"))
		n.at, n.next = at, id[:len(grapnel.EventPrefix)+1+10] // where the random part begins
	}
	return n.next
}

// reach notes an id that the server had not reached.
func (n *knownIDs) reach(tenant, id string) {
	if _, there := n.ahead[tenant]; !there && len(n.ahead) >= n.most {
		for _, highest := range n.ahead {
			n.rest = max(n.rest, highest)
		}
		clear(n.ahead)
	}
	n.ahead[tenant] = max(n.ahead[tenant], id)
}

func (n *newestIDs) mayHave(id string) bool {
	if id <= n.floor {
		return true
	}
	_, unflushed := n.unflushed.ids[id]
	_, old := n.old.ids[id]
	return unflushed || old
}

func (n *newestIDs) add(id string) {
	if len(n.unflushed.ids) >= n.most {
		n.floor = max(n.floor, n.old.high)
		clear(n.old.ids)
		n.unflushed, n.old = idSet{ids: n.old.ids}, n.unflushed
	}
	n.unflushed.ids[id] = struct{}{}
	n.unflushed.high = max(n.unflushed.high, id)
}
