package sqlite

import (
	"context"
	"math"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// lateQuery begins behind the heads that are due already, of which there may be many after an
// outage.
const lateQuery = `SELECT seq, due, wide < ? AND token IS NULL FROM pending WHERE head = 1 AND target = ? AND (due, seq) > (?, ?)
	ORDER BY due, seq LIMIT ?`

// MakeDue takes the earliest first. The writer looks the heads up itself: a connection for reading
// would need a flush first, for each of a thousand endpoints that recover together. One operation
// examines few heads, so that Record need not wait for long.
func (s *changer) MakeDue(ctx context.Context, endpoint string, h store.MakingDue, limit int) (n int, err error) {
	after := dueOf{codec.Micros(h.At), math.MaxInt64}
	for more := true; more && n < limit; {
		o := &makingDue{endpoint: endpoint, at: h.At, before: h.Before, after: after, limit: limit - n, look: s.bounds.MadeDue}
		if err = s.write(ctx, o); err != nil {
			return n, err
		}
		n, after, more = n+o.done.n, o.done.last, o.done.more
	}
	return n, nil
}

// dueOf is the position of a head among those of its endpoint.
type dueOf struct{ due, seq int64 }

// makingDue makes heads due, of the next few behind a position.
type makingDue struct {
	endpoint    string
	at, before  time.Time
	after       dueOf
	limit, look int // heads to make due, and to examine
	done        struct {
		n    int
		last dueOf // the position of the last one examined
		more bool  // there may be others behind it
	}
}

func (o *makingDue) grows() bool { return false }

func (o *makingDue) apply(t *tx) error {
	o.done.n, o.done.last, o.done.more = 0, o.after, false
	target, err := rows.Integer(t.conn.Query(targetQuery).Text(o.endpoint))
	if err != nil || target == 0 {
		return err
	}
	at, seen := codec.Micros(o.at), 0
	var late []int64
	q := t.conn.Query(lateQuery)
	q.Int(codec.Micros(o.before)).Int(target).Int(o.after.due).Int(o.after.seq).Int(int64(o.look))
	for len(late) < o.limit && q.More(&err) {
		seen++
		o.done.last = dueOf{q.Integer(1), q.Integer(0)}
		if q.Integer(2) == 1 {
			late = append(late, q.Integer(0))
		}
	}
	q.Reset()
	if err != nil {
		return err
	}
	for _, seq := range late {
		if err := t.q.makeDue.Int(at).Int(seq).Run(); err != nil {
			return err
		}
	}
	o.done.n, o.done.more = len(late), seen == o.look
	return nil
}
