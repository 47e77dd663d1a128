package sqlite

import (
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// newest knows the ids of the newest events, so that most new ids need no look-up: an id that is
// above the floor is in no row, unless it is in one of the two sets. Ids that the server draws rise
// with the time, so they are above it. An id that a publisher has chosen may be below; then, and if
// it is in a set, the tables decide.
//
// Ids that begin as those of the server do are apart from others. Otherwise one event "invoice-7"
// would be above all of them, and each would be looked up.
//
// It stays true when a transaction is rolled back or events are purged: a set may have ids that the
// tables do not have.
type newest struct{ drawn, chosen newestIDs }

type newestIDs struct {
	most       int // ids in a set
	young, old idSet
	floor      string // the highest id that was in an earlier set, or in the tables at the start
}

// idSet is some ids and the highest of them.
type idSet struct {
	ids  map[string]struct{}
	high string
}

const (
	highestIDQuery = "SELECT max(id) FROM event"
	// The character after the underscore is the backquote, so these are the ids with the prefix.
	highestDrawnQuery = "SELECT max(id) FROM event WHERE id >= '" + grapnel.EventPrefix + "_' AND id < '" + grapnel.EventPrefix + "`'"
)

// newestOf reads the highest ids of the tables. most is how many ids a set has.
func newestOf(conn *sqlite3.Conn, most int) (n newest, err error) {
	for query, ids := range map[string]*newestIDs{highestDrawnQuery: &n.drawn, highestIDQuery: &n.chosen} {
		q := conn.Query(query)
		if err := single(q, func() { *ids = newNewestIDs(most, q.String(0)) }); err != nil {
			return n, err
		}
	}
	return n, nil
}

func newNewestIDs(most int, floor string) newestIDs {
	return newestIDs{most: most, floor: floor, young: idSet{ids: make(map[string]struct{})}, old: idSet{ids: make(map[string]struct{})}}
}

func (n *newest) like(id string) *newestIDs {
	if strings.HasPrefix(id, grapnel.EventPrefix+"_") {
		return &n.drawn
	}
	return &n.chosen
}

// mayHave says whether there may be an event with this id.
func (n *newest) mayHave(id string) bool { return n.like(id).mayHave(id) }

func (n *newest) add(id string) { n.like(id).add(id) }

func (n *newestIDs) mayHave(id string) bool {
	if id <= n.floor {
		return true
	}
	_, young := n.young.ids[id]
	_, old := n.old.ids[id]
	return young || old
}

func (n *newestIDs) add(id string) {
	if len(n.young.ids) >= n.most {
		n.floor = max(n.floor, n.old.high)
		clear(n.old.ids)
		n.young, n.old = idSet{ids: n.old.ids}, n.young
	}
	n.young.ids[id] = struct{}{}
	n.young.high = max(n.young.high, id)
}
