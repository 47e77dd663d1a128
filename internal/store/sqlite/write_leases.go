package sqlite

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// readLease reads the leaseColumns of a row.
func readLease(q *sqlite3.Stmt, queue string) grapnel.Lease {
	return grapnel.Lease{
		Token: q.String(0), Queue: queue, Consumer: q.String(2), Delivery: q.Integer(3), Event: q.Integer(4), Number: int(q.Integer(5)) + 1,
		Trigger: rows.ReadWord(q, 6, codec.Triggers), Scheduled: codec.Moment(q.Integer(7)), GrantedAt: codec.Moment(q.Integer(8)),
		Until:     codec.Moment(q.Integer(9)),
		CreatedAt: codec.Moment(q.Integer(10)), Anchor: rows.ReadTime(q, 11),
	}
}

func readLeases(q *sqlite3.Stmt, queue string, limit int) (all []grapnel.Lease, err error) {
	for len(all) < limit {
		more, err := q.Next()
		if !more {
			return all, err
		}
		all = append(all, readLease(q, queue))
	}
	q.Reset()
	return all, nil
}

// held is how many leases each consumer has.
func held(t *tx) (all map[holder]int, err error) {
	if t.holders.known {
		return t.holders.held, nil
	}
	held, q := make(map[holder]int), t.q.holders
	for q.More(&err) {
		held[holder{q.Integer(0), q.String(1)}]++
	}
	if err != nil {
		return nil, err
	}
	t.holders = holders{known: true, held: held}
	return held, nil
}

// releaseLease counts a lease that ends, if d has one. The caller writes or removes the row of d,
// which has the lease.
func releaseLease(t *tx, d *place) {
	if d.Token != "" {
		t.holders.add(holder{d.target, d.consumer}, -1)
		d.Token = ""
	}
}

// Claim is one operation of the writer, so that concurrent claims share a transaction.
func (s *changer) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	o := &claiming{claim: c}
	err := s.write(ctx, o)
	return o.done, err
}

// claiming is the operation of Claim. It works while the disk is full, because leased deliveries
// are about to finish.
type claiming struct {
	claim store.Claim
	done  store.Claimed
}

func (o *claiming) grows() bool { return false }

func (o *claiming) apply(t *tx) error {
	o.done = store.Claimed{}
	target, err := t.numberOf(o.claim.Queue)
	if err != nil {
		return err
	}
	wants, err := wanted(t, target, o.claim.Wants)
	if err != nil {
		return err
	}
	now := codec.Micros(o.claim.Now)
	if o.done.Over, err = readLeases(t.q.over.Int(target).Int(now), o.claim.Queue, store.MostOver); err != nil {
		return err
	}
	heads, next, err := claimable(t, target, o.claim.Queue, now, len(wants), o.done.Over)
	if err != nil {
		return err
	}
	o.done.Next = next
	for i := range heads {
		l := grapnel.Lease{
			Token: wants[i].Token, Queue: o.claim.Queue, Consumer: wants[i].Consumer, Delivery: heads[i].Delivery, Event: heads[i].Event,
			Number: heads[i].Attempts + 1, Trigger: heads[i].Trigger, Scheduled: heads[i].Due, GrantedAt: codec.Moment(now),
			Until: codec.Moment(codec.Micros(o.claim.Now.Add(wants[i].For))), CreatedAt: heads[i].CreatedAt, Anchor: heads[i].Anchor,
		}
		grant := t.q.grant.Int(codec.Micros(l.Until)).Text(l.Token).Text(l.Consumer).Int(codec.Micros(l.Scheduled)).Int(now)
		if err := grant.Int(l.Delivery).Run(); err != nil {
			return err
		}
		t.holders.add(holder{target, l.Consumer}, 1)
		o.done.Leases = append(o.done.Leases, l)
	}
	return nil
}

// wanted are the Wants that are not skipped.
func wanted(t *tx, target int64, wants []store.Want) ([]store.Want, error) {
	held, err := held(t)
	if err != nil {
		return nil, err
	}
	return decide.Served(wants, func(consumer string) int { return held[holder{target, consumer}] }), nil
}

// claimable returns the heads that can be leased, at most limit, and the due time of the next one.
// A head with an expired lease cannot be leased; after MostOver of those no further head can.
func claimable(t *tx, target int64, queue string, now int64, limit int,
	over []grapnel.Lease) (heads []store.Head, next time.Time, err error) {
	settled := make(map[int64]bool, len(over))
	for _, l := range over {
		settled[l.Delivery] = true
	}
	q := t.q.claimable.Int(target)
	for q.More(&err) {
		h := readHead(q, queue)
		if settled[h.Delivery] {
			continue
		}
		if len(heads) == limit || codec.Micros(h.Due) > now || beyond(&h, over) {
			q.Reset()
			return heads, h.Due, nil
		}
		heads = append(heads, h)
	}
	return heads, next, err
}

// beyond says whether a head comes after the last of MostOver expired leases.
func beyond(h *store.Head, over []grapnel.Lease) bool {
	if len(over) < store.MostOver {
		return false
	}
	last := &over[len(over)-1]
	return h.Due.After(last.Until) || h.Due.Equal(last.Until) && h.Delivery > last.Delivery
}

// Extend is one operation of the writer.
func (s *changer) Extend(ctx context.Context, token string, now time.Time, by time.Duration) (grapnel.Lease, error) {
	o := &extending{token: token, now: now, by: by}
	err := s.write(ctx, o)
	return o.done, err
}

// extending is the operation of Extend.
type extending struct {
	token string
	now   time.Time
	by    time.Duration
	done  grapnel.Lease
}

func (o *extending) grows() bool { return false }

func (o *extending) apply(t *tx) error {
	o.done = grapnel.Lease{}
	over := decide.ErrLeaseOver()
	l, err := rows.First(t.q.lease.Text(o.token), over, func(q *sqlite3.Stmt) (l grapnel.Lease, err error) {
		if l = readLease(q, ""); !l.Until.After(o.now) {
			return l, over
		}
		l.Queue, err = t.endpoint(q.Integer(1))
		return l, err
	})
	if err != nil {
		return err
	}
	l.Until = codec.Moment(codec.Micros(o.now.Add(o.by)))
	o.done = l
	return t.q.extend.Int(codec.Micros(l.Until)).Int(l.Delivery).Run()
}

// readHead reads the columns of headsQuery; those of headQuery begin with the same ones.
func readHead(q *sqlite3.Stmt, endpoint string) store.Head {
	return store.Head{
		Delivery: q.Integer(0), Event: q.Integer(1), Endpoint: endpoint, Lane: q.String(2), Position: q.Integer(3),
		Due: rows.ReadTime(q, 4), Blocked: q.Integer(5) == 1, Attempts: int(q.Integer(6)), Anchor: rows.ReadTime(q, 7),
		Trigger: rows.ReadWord(q, 8, codec.Triggers), CreatedAt: codec.Moment(q.Integer(9)),
	}
}
