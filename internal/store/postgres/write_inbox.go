package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
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
	f, err := s.packer.FreezeAside(ctx, &a)
	if err != nil {
		return err
	}
	args := []any{a.ID, a.Tenant, a.Source, string(a.Why), codec.Micros(a.At), a.Event, a.ContentType, a.Size, f.Packed, f.Sum, f.Intake, f.Data}
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
		f, err := s.packer.DescribeAside(ctx, &a)
		if err != nil {
			return err
		}
		sql, args = changeAside, append(args, string(a.Why), a.Event, f.Sum, f.Intake)
	}
	return s.write(ctx, &change{do: func(t *tx) error {
		t.then(sql, args...)
		t.then(atStandbys) // it may be no longer there
		return nil
	}})
}

func (s *reader) readAside(ctx context.Context, row pgx.Row, more ...any) (a grapnel.Aside, err error) {
	var intake []byte
	if err := row.Scan(append([]any{&a.ID, &a.Tenant, &a.Why, &a.Event, &a.ContentType, &a.Size, &intake}, more...)...); err != nil {
		return a, err
	}
	in, err := s.packer.DecodeIntake(ctx, intake, a.Tenant, a.ID)
	if err != nil {
		return a, fmt.Errorf("postgres: intake of request %s: %w", a.ID, err)
	}
	a.Intake = *in
	return a, nil
}
