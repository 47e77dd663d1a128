package postgres

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

const (
	answerColumns = "key, fingerprint, expires, status, body"
	answersQuery  = "SELECT " + answerColumns + " FROM answer WHERE key = ANY($1)"
	recallQuery   = "SELECT " + answerColumns + " FROM answer WHERE key = $1 AND expires > $2"
	dropExpired   = "DELETE FROM answer a USING unnest($1::text[], $2::bigint[]) u(key, now) WHERE a.key = u.key AND a.expires <= u.now"
	dropAnswers   = `DELETE FROM answer WHERE key = ANY(ARRAY(SELECT key FROM answer WHERE expires <= $1 ORDER BY expires, key LIMIT $2
		FOR UPDATE SKIP LOCKED)) AND expires <= $1`
)

var (
	answerFields = rows.Fields[*answer]{
		rows.Value("key", "text", func(a *answer) string { return a.key }),
		rows.Value("fingerprint", "bytea", func(a *answer) []byte { return a.Fingerprint[:] }),
		rows.Value("expires", "bigint", func(a *answer) int64 { return a.expires }),
		rows.Value("status", "integer", func(a *answer) int32 { return int32(a.Status) }),
		rows.Value("body", "bytea", func(a *answer) []byte { return a.Body }),
	}
	addAnswers = answerFields.Insert("answer", "")
)

func readAnswer(row pgx.Row) (*answer, error) {
	a := new(answer)
	var fingerprint []byte
	if err := row.Scan(&a.key, &fingerprint, &a.expires, &a.Status, &a.Body); err != nil {
		return nil, err
	}
	copy(a.Fingerprint[:], fingerprint)
	return a, nil
}

func (t *tx) readAnswers(got pgx.Rows) error {
	list, err := rows.Collect(rows.Answered(got), readAnswer)
	for _, a := range list {
		t.answers[a.key] = a
	}
	return err
}

// atStandbys makes the commit wait for the synchronous standbys. A commit without any change does
// not wait. What it has read may be missing there: a commit that waits for a standby shows its rows
// when its connection breaks, as the driver then cancels the wait.
const atStandbys = "SELECT pg_logical_emit_message(true, 'grapnel', '')"

// recall is the first step of every call with an idempotency key: a non-nil answer or an error ends
// the call. An answer is given again only once it is at the standbys, with its effect.
func recall(t *tx, once *store.Once) (*store.Answer, error) {
	if once == nil {
		return nil, nil
	}
	a := liveAnswer(t, once.Key, once.Now)
	if a == nil {
		return nil, nil
	}
	then := a.Answer
	then.Body = bytes.Clone(a.Body)
	given, err := decide.Recall(&then, once)
	if given != nil {
		t.then(atStandbys)
	}
	return given, err
}

// liveAnswer is the answer that a key has at a time, or nil.
func liveAnswer(t *tx, key string, now time.Time) *answer {
	if a := t.answers[key]; a != nil && codec.Micros(now) < a.expires {
		return a
	}
	return nil
}

// remember is the last step of such a call, after every step that can fail.
func remember(t *tx, once *store.Once, done any) {
	if once == nil {
		return
	}
	a := &answer{Answer: once.Answer(done), key: once.Key, expires: codec.Micros(once.Expires), now: codec.Micros(once.Now)}
	a.Fingerprint, a.Body = once.Fingerprint, bytes.Clone(a.Body)
	t.answers[once.Key] = a
	t.remembered = append(t.remembered, a)
}

// flushAnswers conflicts if another transaction has stored an answer for the same key meanwhile;
// the next try finds that answer.
func flushAnswers(t *tx, b *pgx.Batch) {
	list := slices.DeleteFunc(t.remembered, func(a *answer) bool { return t.answers[a.key] != a })
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(x, y *answer) int { return strings.Compare(x.key, y.key) })
	b.Queue(dropExpired, rows.Column(list, func(a *answer) string { return a.key }), rows.Column(list, func(a *answer) int64 { return a.now }))
	addAnswers.Queue(b, list)
}

// Recall returns the stored answer of a key.
func (s *changer) Recall(ctx context.Context, key string, now time.Time) (*store.Answer, error) {
	a, err := readAnswer(s.pool.QueryRow(ctx, recallQuery, key, codec.Micros(now)))
	if rows.IsNone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, readError(ctx, err)
	}
	err = s.write(ctx, &change{do: func(t *tx) error { t.then(atStandbys); return nil }})
	if err != nil {
		return nil, err
	}
	return &a.Answer, nil
}

// Remember calls Answer with nil.
func (s *changer) Remember(ctx context.Context, once *store.Once) (then *store.Answer, err error) {
	err = s.write(ctx, &change{
		needs: func(n *needs) { n.once(once) },
		do: func(t *tx) (err error) {
			if then, err = recall(t, once); then == nil && err == nil {
				remember(t, once, nil)
			}
			return err
		},
	})
	return then, err
}
