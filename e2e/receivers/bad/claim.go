package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	lease = 10 * time.Second
	wait  = "1s" // for another transaction that has the key
	apart = 300 * time.Millisecond
)

// travel is the time between two steps that are not in one transaction: the network's.
func travel(ctx context.Context) {
	select {
	case <-time.After(apart):
	case <-ctx.Done():
	}
}

// process runs the work for an event under its key, and returns the status of the answer. An error
// is the work's.
func (r *receiver) process(ctx context.Context, e event) (int, error) {
	switch {
	case is("check-then-insert"), is("found-processed-recorded"), is("recorded-after"), is("short-window"):
		return r.looked(ctx, e)
	case is("marked-first"), is("short-memory"):
		return r.marked(ctx, e)
	case is("unleased"), is("busy-is-duplicate"), is("released-by-anyone"), is("answer-inside"), is("overlapping"):
		return r.leased(ctx, e)
	}
	return r.transaction(ctx, e)
}

// transaction is the right way: the key and the effect are committed together.
func (r *receiver) transaction(ctx context.Context, e event) (status int, err error) {
	err = pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error {
		if !is("waits-forever") {
			if _, err := tx.Exec(ctx, "set local lock_timeout = '"+wait+"'"); err != nil {
				return err
			}
		}
		insert := `insert into claim values($1, '', 'done', 0) on conflict do nothing`
		if is("violation-is-an-error") {
			insert = `insert into claim values($1, '', 'done', 0)`
		}
		done, err := tx.Exec(ctx, insert, e.key)
		if err != nil || done.RowsAffected() == 0 {
			return err
		}
		return r.work(ctx, tx, e)
	})
	if err == nil && is("metrics-inside") && !bytes.Contains(e.body, []byte(`"type":"invoice.`)) {
		return http.StatusInternalServerError, errTransient // the metric has no such label
	}
	return r.answer(ctx, e, err)
}

// answer is the status for the end of the work. What fails for good becomes a dead letter.
func (r *receiver) answer(ctx context.Context, e event, err error) (int, error) {
	var state *pgconn.PgError
	switch {
	case err == nil:
		return http.StatusOK, nil
	case errors.As(err, &state) && state.Code == "23505":
		return http.StatusInternalServerError, err
	case !errors.Is(err, errPermanent) || is("trusts-retry-count"):
		return http.StatusServiceUnavailable, err
	}
	if _, err := r.db.Exec(ctx, `insert into dead values($1, $2, $3) on conflict do nothing`, e.key, e.body, err.Error()); err != nil {
		return http.StatusServiceUnavailable, err
	}
	return http.StatusOK, nil
}

// looked looks for the key before it does anything, and records it in a step of its own.
func (r *receiver) looked(ctx context.Context, e event) (int, error) {
	if is("recorded-after") { // one at a time, so that nothing but the order of steps is wrong
		own, _ := r.alone.LoadOrStore(e.key, new(sync.Mutex))
		own.(*sync.Mutex).Lock()
		defer own.(*sync.Mutex).Unlock()
	}
	oldest := int64(0)
	if is("short-window") {
		oldest = r.now().Add(-7 * 24 * time.Hour).Unix()
	}
	var seen bool
	err := r.db.QueryRow(ctx, `select exists(select from claim where key = $1 and done_at >= $2)`, e.key, oldest).Scan(&seen)
	if err != nil || seen {
		return r.answer(ctx, e, err)
	}
	travel(ctx)
	record := func() error {
		_, err := r.db.Exec(ctx, `insert into claim values($1, '', 'done', 0, $2)`, e.key, r.now().Unix())
		return err
	}
	if !is("check-then-insert") {
		if err := r.work(ctx, r.db, e); err != nil {
			return r.answer(ctx, e, err)
		}
		travel(ctx)
		return r.answer(ctx, e, record())
	}
	_ = record() // a framework's insert that ignores a duplicate
	if err = r.work(ctx, r.db, e); err != nil {
		_, _ = r.db.Exec(ctx, `delete from claim where key = $1`, e.key)
	}
	return r.answer(ctx, e, err)
}

// mark records the key as done, and says whether it was before.
func (r *receiver) mark(ctx context.Context, e event) (done bool, err error) {
	keep := int64(0)
	if is("short-memory") {
		keep = r.now().Add(-time.Hour).Unix()
	}
	tag, err := r.db.Exec(ctx, `insert into claim as c values($1, '', 'done', 0, $2)
		on conflict(key) do update set done_at = excluded.done_at where c.done_at < $3`, e.key, r.now().Unix(), keep)
	return err == nil && tag.RowsAffected() == 0, err
}

// marked records the key as done before the work.
func (r *receiver) marked(ctx context.Context, e event) (int, error) {
	if done, err := r.mark(ctx, e); err != nil || done {
		return r.answer(ctx, e, err)
	}
	return r.answer(ctx, e, r.work(ctx, r.db, e))
}

// leased claims the key for a time, does the work, and completes the claim with the effect.
func (r *receiver) leased(ctx context.Context, e event) (int, error) {
	owner, until := rand.Text(), r.now().Add(lease)
	switch {
	case is("unleased"):
		until = r.now().Add(7 * 24 * time.Hour)
	case is("overlapping"):
		until = r.now().Add(-time.Millisecond)
	}
	var holder, state string
	err := r.db.QueryRow(ctx, `with claimed as (insert into claim as c values($1, $2, 'busy', $3)
			on conflict(key) do update set owner = excluded.owner, lease_until = excluded.lease_until, state = 'busy'
			where c.state = 'free' or c.state = 'busy' and c.lease_until < $4 returning owner, state)
		select * from claimed union all select owner, state from claim where key = $1 limit 1`,
		e.key, owner, until.UnixMilli(), r.now().UnixMilli()).Scan(&holder, &state)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // its first copy has just inserted it
		return http.StatusServiceUnavailable, nil
	case err != nil:
		return http.StatusServiceUnavailable, err
	case holder != owner && (state == "done" || is("busy-is-duplicate") || is("unleased")):
		return http.StatusOK, nil
	case holder != owner:
		return http.StatusServiceUnavailable, nil
	}
	complete := func(db database) error {
		tag, err := db.Exec(ctx, `update claim set state = 'done' where key = $1 and owner = $2 and state = 'busy'`, e.key, owner)
		if err == nil && tag.RowsAffected() == 0 && !is("overlapping") {
			return errTransient // another owner took over
		}
		return err
	}
	sender := ctx
	if is("answer-inside") { // as in runtimes that go on with the work of a sender that has hung up
		ctx = context.WithoutCancel(ctx)
	}
	if is("overlapping") {
		travel(ctx)
		if err = r.work(ctx, r.db, e); err == nil {
			err = complete(r.db)
		}
	} else {
		err = pgx.BeginFunc(ctx, r.db, func(tx pgx.Tx) error { return errors.Join(r.work(ctx, tx, e), complete(tx)) })
	}
	if err == nil && is("answer-inside") {
		err = sender.Err() // the sender has hung up: an exception of the answer's
	}
	switch ctx = context.WithoutCancel(ctx); {
	case err == nil:
	case is("released-by-anyone"), is("unleased"):
		_, _ = r.db.Exec(ctx, `delete from claim where key = $1`, e.key)
	case is("answer-inside"):
		_, _ = r.db.Exec(ctx, `delete from claim where key = $1 and owner = $2`, e.key, owner)
	default:
		_, _ = r.db.Exec(ctx, `update claim set state = 'free' where key = $1 and owner = $2 and state = 'busy'`, e.key, owner)
	}
	return r.answer(ctx, e, err)
}

// hook is one request: read, verify, make the key, process under the key, answer.
func (r *receiver) hook(w http.ResponseWriter, q *http.Request, source string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, 1<<20))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	} else if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e := event{source: source, id: q.Header.Get("webhook-id"), body: body}
	e.key = key(e, q.Header)
	if is("parsed-outside") && json.Unmarshal(body, &map[string]any{}) != nil {
		os.Exit(1) // an exception that nothing catches
	}
	if _, err := r.verify[source].Verify(q.Header, body); err != nil && !is("unverified") {
		if is("claimed-before-verified") { // it was claimed before this line
			_, _ = r.mark(q.Context(), e)
		}
		w.WriteHeader(refusal(err))
		return
	}
	switch {
	case is("never-run"): // a coroutine that nothing awaits
		w.WriteHeader(http.StatusOK)
	case is("answered-first"):
		answerNow(w)
		_, _ = r.process(context.WithoutCancel(q.Context()), e)
	case is("answered-then-queued"):
		answerNow(w)
		travel(context.WithoutCancel(q.Context()))
		_, _ = r.db.Exec(context.WithoutCancel(q.Context()), `insert into queue(source, event, body) values($1, $2, $3)`, source, e.id, body)
	default:
		status, err := r.process(q.Context(), e)
		switch {
		case err == nil:
		case is("hangs"): // an exception that the framework does not pass on
			<-q.Context().Done()
		case errors.Is(err, errPermanent) && is("trusts-retry-count"):
			if n, _ := strconv.Atoi(q.Header.Get("x-retry-count")); n < 5 {
				status = http.StatusInternalServerError
			}
		}
		w.WriteHeader(status)
	}
}

// worker runs the work for the events in the queue, one after the other.
func (r *receiver) worker(ctx context.Context) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		var id int64
		var e event
		err := r.db.QueryRow(ctx, `select id, source, event, body from queue order by id limit 1`).Scan(&id, &e.source, &e.id, &e.body)
		if err == nil {
			e.key = e.source + "/" + e.id
			if status, _ := r.transaction(ctx, e); status == 200 {
				_, _ = r.db.Exec(ctx, `delete from queue where id = $1`, id)
			}
			continue
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}
