package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5"
)

// A change of a delivery without lane (store.Change.Lone) needs no row but the delivery's own, so
// one statement locks and reads it. If the change finishes the delivery, that statement deletes the
// row, before the transaction has decided whether the change applies. If anything is not as
// expected (the delivery has a lane or a lease, is finished already, or the change does not apply),
// the transaction is rolled back and made again, and then reads the delivery like any other.

const leasedQuery = "SELECT delivery FROM lease WHERE delivery = ANY($1)"

var (
	// loneColumns leaves the lane out, and the lease: this statement's snapshot may be older than a
	// lease that was committed while it waited for the row. leasedQuery has a snapshot of its own.
	loneColumns = "SELECT " + placeColumns + ` FROM p JOIN target t ON t.number = p.target JOIN kind k ON k.number = p.kind
		LEFT JOIN lane l ON false LEFT JOIN lease s ON false`
	lockLone = "WITH p AS (SELECT * FROM pending WHERE seq = ANY($1) AND lane = 0 ORDER BY seq FOR UPDATE) " + loneColumns
	takeLone = "WITH p AS (DELETE FROM pending d USING unnest($1::bigint[]) u(seq) WHERE d.seq = u.seq AND d.lane = 0 RETURNING d.*) " +
		loneColumns
)

// carefully has deliveries without lane read like all others, and minted ids looked up like chosen
// ones.
func (n *needs) carefully() {
	for _, name := range n.minted {
		n.ids[name] = true
	}
	n.deliveries = append(n.deliveries, n.sole()...)
	n.lone, n.taken = nil, nil
}

// sole are the deliveries that are expected to have no lane.
func (n *needs) sole() []int64 { return slices.Concat(n.lone, n.taken) }

// took says whether a delivery's row is deleted already. taken is sorted.
func (n *needs) took(seq int64) bool {
	_, is := slices.BinarySearch(n.taken, seq)
	return is
}

// askLone queues the locks and reads of deliveries without lane. The statements that lock such
// rows each do so by row id; if there are several, one statement locks all rows first.
func askLone(t *tx, b *pgx.Batch) {
	n := t.needs
	sole := n.sole()
	if len(n.deliveries) > 0 || len(n.lone) > 0 && len(n.taken) > 0 {
		b.Queue(loneLock, slices.Concat(n.deliveries, sole))
	}
	if len(n.lone) > 0 {
		b.Queue(lockLone, n.lone).Query(t.readPlaces)
	}
	if len(n.taken) > 0 {
		slices.Sort(n.taken) // rows are locked in this order
		b.Queue(takeLone, n.taken).Query(t.readPlaces)
	}
	if len(sole) > 0 {
		b.Queue(leasedQuery, sole).Query(func(got pgx.Rows) error {
			t.unlike = got.Next()
			got.Close()
			return got.Err()
		})
	}
}

// missed says whether one of those deliveries was not read, has a lane, or has a lease.
func missed(t *tx) bool {
	return t.unlike || slices.ContainsFunc(t.needs.sole(), func(seq int64) bool {
		p := t.places[seq]
		return p == nil || p.lane != nil // another operation may have read it with its lane
	})
}

// mistaken says whether a deleted row belongs to a delivery that is still pending.
func mistaken(t *tx) bool {
	return slices.ContainsFunc(t.needs.taken, func(seq int64) bool { return t.places[seq] != nil })
}
