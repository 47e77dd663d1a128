package claims

import (
	"context"
	"encoding/json"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// Accept implements receive.InboxStore.
func (s *Store[T]) Accept(ctx context.Context, b receive.Bid, wait time.Duration, i receive.Item) (receive.Claim, error) {
	headers, err := json.Marshal(i.Header)
	if err != nil {
		return receive.Claim{}, err
	}
	return s.transact(ctx, b, wait, receive.Accepted, func(tx Tx[T], _ receive.Claim) (receive.Outcome, error) {
		_, err := tx.Exec(ctx, s.sql.accept, i.Row, i.Source, i.ID, i.OrderingKey, i.Sequence, string(headers), i.Body, b.BodyHash,
			i.ReceivedAt.UnixMilli())
		return receive.Accepted, err
	})
}

// Take implements receive.InboxStore. In PostgreSQL one transaction takes at a time, by a lock of
// the source: each sees the items that the one before has made busy, so an ordering key never has
// two.
func (s *Store[T]) Take(ctx context.Context, t receive.Turn) (i receive.Item, found bool, err error) {
	stops := receive.Busy
	if t.Block {
		stops = receive.Dead
	}
	err = s.within(ctx, func(tx Conn) error {
		if s.sql.lock != "" {
			if _, err := tx.Exec(ctx, s.sql.lock, t.Source); err != nil {
				return err
			}
		}
		return tx.Query(ctx, func(scan func(...any) error) error {
			found = true
			var headers string
			var received int64
			if err := scan(&i.Row, &i.ID, &i.OrderingKey, &i.Sequence, &headers, &i.Body, &i.Attempts, &received); err != nil {
				return err
			}
			i.Source, i.Owner, i.ReceivedAt = t.Source, t.Owner, time.UnixMilli(received)
			return json.Unmarshal([]byte(headers), &i.Header)
		}, s.sql.take, t.Source, t.Owner, t.LeaseUntil.UnixMilli(), t.Now.UnixMilli(), string(stops))
	})
	return i, found && err == nil, err
}

// RenewItem implements receive.InboxStore.
func (s *Store[T]) RenewItem(ctx context.Context, i receive.Item, now, until time.Time) error {
	return owned(s.db.Exec(ctx, s.sql.renewItem, i.Row, i.Owner, until.UnixMilli(), now.UnixMilli()))
}

// SettleItem implements receive.InboxStore.
func (s *Store[T]) SettleItem(ctx context.Context, i receive.Item, to receive.State, next time.Time, reason string, now time.Time) error {
	return s.settleItem(ctx, s.db, i, to, next, reason, now)
}

func (s *Store[T]) settleItem(ctx context.Context, on Conn, i receive.Item, to receive.State, next time.Time, reason string, now time.Time,
) error {
	return owned(on.Exec(ctx, s.sql.settleItem, i.Row, i.Owner, string(to), next.UnixMilli(), reason, now.UnixMilli()))
}

// BuryItem implements receive.InboxStore.
func (s *Store[T]) BuryItem(ctx context.Context, i receive.Item, l receive.Letter) error {
	return s.within(ctx, func(tx Conn) error {
		if err := s.settleItem(ctx, tx, i, receive.Dead, l.LastAt, l.Error, l.LastAt); err != nil {
			return err
		}
		if err := s.turn(ctx, tx, i.Key, receive.Done, receive.Dead, receive.DeadLettered, l.LastAt); err != nil {
			return err
		}
		return s.write(ctx, tx, s.sql.bury, l)
	})
}

// turn changes the state of a key that workers own. The row is missing if the item is older than
// the window.
func (s *Store[T]) turn(ctx context.Context, tx Conn, k receive.Key, from, to receive.State, o receive.Outcome, now time.Time) error {
	_, err := tx.Exec(ctx, s.sql.turn, k.Source, k.ID, string(from), string(to), string(o), now.UnixMilli())
	return err
}

// Revive implements receive.InboxStore.
func (s *Store[T]) Revive(ctx context.Context, k receive.Key, to receive.State, now time.Time) error {
	return s.within(ctx, func(tx Conn) error {
		n, err := tx.Exec(ctx, s.sql.reviveItem, k.Source, k.ID, string(to), now.UnixMilli())
		if err == nil && n == 0 {
			err = receive.ErrNotDead
		}
		if err != nil {
			return err
		}
		return s.turn(ctx, tx, k, receive.Dead, receive.Done, receive.Accepted, now)
	})
}

// CleanInbox implements receive.InboxStore.
func (s *Store[T]) CleanInbox(ctx context.Context, source string, before time.Time, limit int) (int, error) {
	n, err := s.db.Exec(ctx, s.sql.cleanInbox, source, before.UnixMilli(), limit)
	return int(n), err
}
