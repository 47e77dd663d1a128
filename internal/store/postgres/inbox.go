package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

const (
	asideColumns = "id, tenant, why, event, content_type, size, intake"
	asideQuery   = "SELECT " + asideColumns + ", packed, sum, body FROM aside WHERE id = $1"
	addAside     = `INSERT INTO aside (id, tenant, source, why, at, event, content_type, size, packed, sum, intake, body)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING`
	changeAside = "UPDATE aside SET why = $3, event = $4, sum = $5, intake = $6 WHERE id = $1 AND tenant = $2"
	dropAside   = "DELETE FROM aside WHERE id = $1 AND tenant = $2"
	unlearn     = "DELETE FROM known WHERE key = ANY(ARRAY(SELECT key FROM known WHERE until < $1 ORDER BY until, seq LIMIT $2 FOR UPDATE SKIP LOCKED))"
	dropAsides  = "DELETE FROM aside WHERE id = ANY(ARRAY(SELECT id FROM aside WHERE at < $1" +
		" ORDER BY at, id LIMIT $2 FOR UPDATE SKIP LOCKED))"
)

// reason refuses a value that is no reason to set a request aside.
func reason(why grapnel.AsideReason) error {
	if why == grapnel.AsideUnverified || why == grapnel.AsideConflict || why == grapnel.AsideRefused {
		return nil
	}
	return grapnel.Errorf(grapnel.CodeInvalid, "%q is not a reason to set a request aside", why)
}

// SetAside encodes on the caller's goroutine, as Append does.
func (s *changer) SetAside(ctx context.Context, a grapnel.Aside) error {
	if err := reason(a.Why); err != nil {
		return err
	}
	a.Size = len(a.Body)
	body, packed := s.packer.Shrink(a.Body)
	args := []any{a.ID, a.Tenant, a.Source, string(a.Why), codec.Micros(a.At), a.Event, a.ContentType, a.Size, packed, codec.SumAside(&a),
		codec.EncodeIntake(&a.Intake, a.ID), body}
	return s.write(ctx, &change{do: func(t *tx) error {
		t.then(addAside, args...)
		t.then(atStandbys) // it may be stored already
		return nil
	}})
}

// ChangeAside encodes on the caller's goroutine, as SetAside does.
func (s *changer) ChangeAside(ctx context.Context, a grapnel.Aside, drop bool) error {
	sql, args := dropAside, []any{a.ID, a.Tenant}
	if !drop {
		if err := reason(a.Why); err != nil {
			return err
		}
		a.Size = len(a.Body)
		sql, args = changeAside, append(args, string(a.Why), a.Event, codec.SumAside(&a), codec.EncodeIntake(&a.Intake, a.ID))
	}
	return s.write(ctx, &change{do: func(t *tx) error {
		t.then(sql, args...)
		t.then(atStandbys) // it may be no longer there
		return nil
	}})
}

func readAside(row pgx.Row, more ...any) (a grapnel.Aside, err error) {
	var intake []byte
	if err := row.Scan(append([]any{&a.ID, &a.Tenant, &a.Why, &a.Event, &a.ContentType, &a.Size, &intake}, more...)...); err != nil {
		return a, err
	}
	in, err := codec.DecodeIntake(intake, a.ID)
	if err != nil {
		return a, fmt.Errorf("postgres: intake of request %s: %w", a.ID, err)
	}
	a.Intake = *in
	return a, nil
}

// Aside returns a request with its body.
func (s *reader) Aside(ctx context.Context, scope store.Scope, id string) (grapnel.Aside, error) {
	var packed, sum int64
	var body []byte
	a, err := readAside(s.reading.QueryRow(ctx, asideQuery, id), &packed, &sum, &body)
	switch {
	case rows.IsNone(err) || err == nil && !scope.Allows(a.Tenant):
		return grapnel.Aside{}, store.ErrNotFound("request")
	case err != nil:
		return grapnel.Aside{}, readError(ctx, err)
	}
	if a.Body, err = s.packer.Thaw(body, packed); err != nil || codec.SumAside(&a) != sum {
		return grapnel.Aside{}, fmt.Errorf("postgres: request %s: %w", id, codec.ErrMangled)
	}
	return a, nil
}

// AsideList returns at most Limit requests; no limit: none. It leaves out corrupt ones.
func (s *reader) AsideList(ctx context.Context, scope store.Scope, q store.AsideQuery) (list []grapnel.Aside, err error) {
	tenant, some := scope.Narrow(q.Tenant)
	if !some || q.Limit <= 0 {
		return nil, ctx.Err()
	}
	for len(list) < q.Limit {
		var f filter
		f.text("SELECT "+asideColumns+" FROM aside WHERE true").equal("tenant", tenant).equal("source", q.Source).equal("why", string(q.Why))
		if q.Before != "" {
			f.text(" AND id < ").value(q.Before)
		}
		most, found, order := q.Limit-len(list), 0, " ORDER BY id DESC LIMIT "
		if q.After != "" {
			f.text(" AND id > ").value(q.After)
			order = " ORDER BY id LIMIT "
		}
		f.text(order).value(most)
		rows, err := s.reading.Query(ctx, f.sql(), f.values...)
		if err != nil {
			return nil, readError(ctx, err)
		}
		for rows.Next() {
			a, err := readAside(rows)
			if found++; q.After != "" {
				q.After = a.ID
			} else {
				q.Before = a.ID
			}
			if err != nil {
				s.log.Error("a request in the database is corrupt", "request", a.ID, "err", err)
				continue
			}
			list = append(list, a)
		}
		if err := rows.Err(); err != nil || found < most {
			return list, readError(ctx, err)
		}
	}
	return list, nil
}

// Unlearn deletes the oldest first.
func (s *keeper) Unlearn(ctx context.Context, now, asideBefore time.Time, limit int) (int, error) {
	forgotten, err := s.chores.Exec(ctx, unlearn, codec.Micros(now), max(limit, 0))
	if err != nil {
		return 0, asError(err)
	}
	removed, err := s.chores.Exec(ctx, dropAsides, codec.Micros(asideBefore), max(limit, 0))
	return int(forgotten.RowsAffected() + removed.RowsAffected()), asError(err)
}
