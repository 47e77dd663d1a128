package sqlite

// newest knows the ids of the newest events, so that most new ids need no look-up: an id that is
// above the floor is in no row, unless it is in one of the two sets. Ids that the server draws rise
// with the time, so they are above it. An id that a publisher has chosen may be below; then, and if
// it is in a set, the tables decide.
//
// It stays true when a transaction is rolled back or events are purged: a set may have ids that the
// tables do not have.
type newest struct {
	most       int // ids in a set
	young, old idSet
	floor      string // the highest id that was in an earlier set, or in the tables at the start
}

// idSet is some ids and the highest of them.
type idSet struct {
	ids  map[string]struct{}
	high string
}

const highestIDQuery = "SELECT max(id) FROM event"

func newNewest(most int, floor string) newest {
	return newest{most: most, floor: floor, young: idSet{ids: make(map[string]struct{})}, old: idSet{ids: make(map[string]struct{})}}
}

// mayHave says whether there may be an event with this id.
func (n *newest) mayHave(id string) bool {
	if id <= n.floor {
		return true
	}
	_, young := n.young.ids[id]
	_, old := n.old.ids[id]
	return young || old
}

func (n *newest) add(id string) {
	if len(n.young.ids) >= n.most {
		n.floor = max(n.floor, n.old.high)
		clear(n.old.ids)
		n.young, n.old = idSet{ids: n.old.ids}, n.young
	}
	n.young.ids[id] = struct{}{}
	n.young.high = max(n.young.high, id)
}
