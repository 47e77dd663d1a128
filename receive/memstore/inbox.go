package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// Accept implements receive.InboxStore.
func (s *Store) Accept(ctx context.Context, b receive.Bid, wait time.Duration, i receive.Item) (receive.Claim, error) {
	return s.Transact(ctx, b, wait, func(tx *Tx, _ receive.Claim) (receive.Outcome, error) {
		tx.OnCommit(func() { s.inbox = append(s.inbox, &item{Item: i, state: receive.Ready, nextAt: i.ReceivedAt}) })
		return receive.Accepted, nil
	})
}

// Take implements receive.InboxStore.
func (s *Store) Take(_ context.Context, t receive.Turn) (receive.Item, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *item
	for _, i := range s.inbox {
		due := i.state == receive.Ready && !i.nextAt.After(t.Now) || i.state == receive.Busy && i.leaseUntil.Before(t.Now)
		stopped := func() bool { return slices.ContainsFunc(s.inbox, func(e *item) bool { return stops(e, i, t) }) }
		if i.Source == t.Source && due && (first == nil || arrived(i, first) < 0) && (i.OrderingKey == "" || !stopped()) {
			first = i
		}
	}
	if first == nil {
		return receive.Item{}, false, nil
	}
	first.state, first.Owner, first.leaseUntil = receive.Busy, t.Owner, t.LeaseUntil
	first.Attempts++
	return first.Item, true, nil
}

func arrived(a, b *item) int {
	return cmp.Or(a.ReceivedAt.Compare(b.ReceivedAt), cmp.Compare(a.Row, b.Row))
}

// stops says whether e keeps i from being taken.
func stops(e, i *item, t receive.Turn) bool {
	if e == i || e.Source != i.Source || e.OrderingKey != i.OrderingKey || e.state == receive.Done {
		return false
	}
	earlier := cmp.Or(cmp.Compare(e.Sequence, i.Sequence), arrived(e, i)) < 0
	return e.state == receive.Busy && !e.leaseUntil.Before(t.Now) || earlier && (e.state != receive.Dead || t.Block)
}

// RenewItem implements receive.InboxStore.
func (s *Store) RenewItem(_ context.Context, i receive.Item, _, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changeItem(i, func(own *item) { own.leaseUntil = until })
}

// SettleItem implements receive.InboxStore.
func (s *Store) SettleItem(_ context.Context, i receive.Item, to receive.State, next time.Time, _ string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changeItem(i, func(own *item) { own.state, own.nextAt, own.updatedAt = to, next, now })
}

// BuryItem implements receive.InboxStore.
func (s *Store) BuryItem(_ context.Context, i receive.Item, l receive.Letter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changeItem(i, func(own *item) {
		own.state, own.updatedAt = receive.Dead, l.LastAt
		s.pass(i.Key, receive.Done, receive.Dead, receive.DeadLettered)
		s.bury(l)
	})
}

// changeItem changes an item that is its owner's still.
func (s *Store) changeItem(i receive.Item, f func(*item)) error {
	for _, own := range s.inbox {
		if own.Row == i.Row && own.Owner == i.Owner && own.state == receive.Busy {
			f(own)
			return nil
		}
	}
	return receive.ErrLostClaim
}

// pass changes the state of a key that workers own.
func (s *Store) pass(k receive.Key, from, to receive.State, o receive.Outcome) {
	if r, exists := s.claims[k]; exists && r.State == from {
		r.State, r.Outcome = to, o
		s.claims[k] = r
	}
}

// Revive implements receive.InboxStore.
func (s *Store) Revive(_ context.Context, k receive.Key, to receive.State, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.inbox {
		if i.Key == k && i.state == receive.Dead {
			i.state, i.Attempts, i.nextAt, i.updatedAt = to, 0, now, now
			s.pass(k, receive.Dead, receive.Done, receive.Accepted)
			return nil
		}
	}
	return receive.ErrNotDead
}

// CleanInbox implements receive.InboxStore.
func (s *Store) CleanInbox(_ context.Context, source string, before time.Time, limit int) (n int, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox = slices.DeleteFunc(s.inbox, func(i *item) bool {
		old := n < limit && i.Source == source && i.state == receive.Done && i.updatedAt.Before(before)
		if old {
			n++
		}
		return old
	})
	return n, nil
}
