package sqlite

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// live reads the answer that a key has at a time, or returns nil.
func live(q *sqlite3.Stmt, key string, now time.Time) (*store.Answer, error) {
	return rows.First(q.Text(key).Int(codec.Micros(now)), nil, func(q *sqlite3.Stmt) (*store.Answer, error) {
		a := &store.Answer{Status: int(q.Integer(1)), Body: q.Bytes(2)}
		copy(a.Fingerprint[:], q.Bytes(0))
		return a, nil
	})
}

// recall is the first step of every operation with an idempotency key: an answer or an error ends
// the operation.
func recall(t *tx, once *store.Once) (*store.Answer, error) {
	if once == nil {
		return nil, nil
	}
	a, err := live(t.q.answer, once.Key, once.Now)
	if err != nil {
		return nil, err
	}
	return decide.Recall(a, once)
}

// remember is the last step of such an operation: only the transaction can still fail. It returns
// the answer that it has stored. The stored fingerprint is the request's, whatever the answer
// contains.
func remember(t *tx, once *store.Once, done any) (store.Answer, error) {
	if once == nil {
		return store.Answer{}, nil
	}
	a := once.Answer(done)
	return a, t.q.setAnswer.Text(once.Key).Blob(once.Fingerprint[:]).Int(codec.Micros(once.Expires)).Int(int64(a.Status)).Blob(a.Body).Run()
}

// Remember calls Answer with nil.
func (s *changer) Remember(ctx context.Context, once *store.Once) (then *store.Answer, err error) {
	err = s.write(ctx, &change{do: func(t *tx) (err error) {
		if then, err = recall(t, once); then == nil && err == nil {
			_, err = remember(t, once, nil)
		}
		return err
	}})
	return then, err
}

// changes executes a statement, and returns how many rows it has changed.
func (t *tx) changes(s *sqlite3.Stmt) (int, error) {
	if err := s.Run(); err != nil {
		return 0, err
	}
	return t.conn.Changed(), nil
}
