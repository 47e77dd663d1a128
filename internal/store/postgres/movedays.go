package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

const (
	// daysOf are the days in which a tenant has rows.
	daysOf = `SELECT DISTINCT n >> 36 FROM (SELECT seq AS n FROM event WHERE kind = ANY($kinds) UNION ALL SELECT seq FROM pending WHERE target = ANY($targets)
		UNION ALL SELECT seq FROM finished WHERE target = ANY($targets)) d ORDER BY 1`
	// useDays keeps days from being removed. Days can still be created.
	useDays = "LOCK TABLE ONLY event, ONLY finished, ONLY attempt IN ROW EXCLUSIVE MODE"
	// nameFirst adds names for events whose day's table adds none, so that their ids are unique
	// here.
	nameFirst = "INSERT INTO event_named (id, tenant, seq) SELECT id, tenant, seq FROM event WHERE kind = ANY($kinds) AND seq < 68719476736"
)

// accommodate creates the missing tables of these days, and makes ids unique by tenant there.
func (s *Store) accommodate(ctx context.Context, days []int64) error {
	for _, day := range days {
		if err := s.inDays(ctx, func(tx pgx.Tx) error { return makeDay(ctx, tx, day) }); err != nil {
			return err
		}
	}
	return nil
}
