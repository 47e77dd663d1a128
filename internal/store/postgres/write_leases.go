package postgres

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// at is the time against which leases expire: the database's, so that all nodes agree.
func (t *tx) at(callers time.Time) time.Time {
	if t.callers {
		return callers
	}
	return codec.Moment(t.clock)
}

// release ends the lease of p, if it has one.
func (t *tx) release(p *place) {
	if p.Token != "" {
		p.Token = ""
		t.released = append(t.released, p.Seq)
	}
}

const (
	queueLock = "SELECT pg_advisory_xact_lock(1735552119, $1::int)" // a class of its own
	heldQuery = "SELECT consumer, count(*) FROM lease WHERE target = $1 GROUP BY consumer"
	// overLeases finds expired leases from the leases, which are few, and not from the heads.
	overLeases = `SELECT p.seq, p.due FROM lease s JOIN pending p ON p.seq = s.delivery WHERE s.target = $1 AND p.due <= $2 ORDER BY p.due, p.seq LIMIT $3`
	freeHeads  = `SELECT p.seq, p.due, EXISTS (SELECT FROM lease WHERE delivery = p.seq) FROM pending p
		WHERE p.target = $1 AND p.due IS NOT NULL AND p.seq <> ALL($2) ORDER BY p.due, p.seq LIMIT $3`
)

// claiming is the operation of Claim. Claims of one queue run one after another, so that they do
// not compete for the same heads.
type claiming struct {
	store.Claim
	done store.Claimed
}

func (o *claiming) need(n *needs) {
	n.queue, n.targets[o.Queue], n.endpoints[o.Queue] = o.Queue, true, true
}

func (o *claiming) apply(t *tx) error {
	o.done = store.Claimed{}
	target, err := t.names.target(o.Queue)
	if err != nil {
		return err
	}
	at := t.at(o.Now)
	now := codec.Micros(at)
	over, heads, err := lookFor(t, target, now, len(o.Wants))
	if err != nil {
		return err
	}
	wants, err := granted(t, target, o.Wants)
	if err != nil {
		return err
	}
	var last *spot
	if len(over) == store.MostOver {
		last = &over[len(over)-1]
	}
	var take []int64
	for _, h := range heads {
		looked := h.due <= now && (last == nil || !last.before(h)) && !h.leased
		if !looked || len(take) == len(wants) {
			o.done.Next = codec.Moment(h.due)
			break
		}
		take = append(take, h.seq)
	}
	seqs := append(rows.Column(over, func(h spot) int64 { return h.seq }), take...)
	if err := t.load(seqs); err != nil {
		return err
	}
	for i, seq := range seqs {
		p := t.places[seq]
		switch {
		case p == nil || !p.Head || p.Blocked || p.Due > now || (p.Token != "") != (i < len(over)):
			// Another transaction changed it before it was locked; the next call sees the change.
		case i < len(over):
			o.done.Over = append(o.done.Over, p.Leased(&p.lease))
		default:
			p.lease, p.dirty = p.Grant(&wants[i-len(over)], at), true
			t.leased = append(t.leased, p)
			o.done.Leases = append(o.done.Leases, p.Leased(&p.lease))
		}
	}
	return nil
}

// spot is the position of a head in the order of its queue.
type spot struct {
	seq, due int64
	leased   bool
}

func (a spot) before(b spot) bool { return a.due < b.due || a.due == b.due && a.seq < b.seq }

// lookFor returns the expired leases, and as many other heads as are examined, earliest first.
func lookFor(t *tx, target int32, now int64, wants int) (over, heads []spot, err error) {
	var h spot
	if err := rows.Ask(t.ctx, t.conn, overLeases, target, now, store.MostOver).
		Each([]any{&h.seq, &h.due}, func() { over = append(over, h) }); err != nil {
		return nil, nil, err
	}
	known := rows.Column(over, func(h spot) int64 { return h.seq })
	err = rows.Ask(t.ctx, t.conn, freeHeads, target, known, wants+1).
		Each([]any{&h.seq, &h.due, &h.leased}, func() { heads = append(heads, h) })
	return over, heads, err
}

// granted are the wants that get a lease.
func granted(t *tx, target int32, wants []store.Want) ([]store.Want, error) {
	held := make(map[string]int)
	var consumer string
	var n int
	if err := rows.Ask(t.ctx, t.conn, heldQuery, target).Each([]any{&consumer, &n}, func() { held[consumer] = n }); err != nil {
		return nil, err
	}
	return decide.Served(wants, func(consumer string) int { return held[consumer] }), nil
}

// Claim examines the heads of one queue. It excludes other claims of that queue.
func (s *changer) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	o := &claiming{Claim: c}
	return result(&o.done, s.writeAlone(ctx, o))
}

// Extend moves the end of a lease.
func (s *changer) Extend(ctx context.Context, token string, now time.Time, by time.Duration) (grapnel.Lease, error) {
	is, err := (&reader{s.database}).Lease(ctx, token)
	if grapnel.CodeOf(err) == grapnel.CodeNotFound {
		return grapnel.Lease{}, decide.ErrLeaseOver()
	}
	if err != nil {
		return grapnel.Lease{}, err
	}
	var extended grapnel.Lease
	err = s.write(ctx, &change{
		needs: func(n *needs) { n.deliveries = append(n.deliveries, is.Delivery) },
		do: func(t *tx) error {
			p, at := t.places[is.Delivery], t.at(now)
			if p == nil || p.Token != token || p.Due <= codec.Micros(at) {
				return decide.ErrLeaseOver()
			}
			p.Due, p.dirty = codec.Micros(at.Add(by)), true
			extended = p.Leased(&p.lease)
			return nil
		},
	})
	return extended, err
}
