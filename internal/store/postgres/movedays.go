package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

const (
	daysOf = `SELECT DISTINCT n >> 36 FROM (SELECT seq AS n FROM event WHERE kind = ANY($kinds) UNION ALL SELECT seq FROM pending WHERE target = ANY($targets)
		UNION ALL SELECT seq FROM finished WHERE target = ANY($targets)) d ORDER BY 1`
	// useDays keeps days from being removed. Making some is possible meanwhile.
	useDays = "LOCK TABLE ONLY event, ONLY finished, ONLY attempt IN ROW EXCLUSIVE MODE"
	// nameFirst gives names to events whose day's table gives none, so that their ids are unique here.
	nameFirst = "INSERT INTO event_name (id, seq) SELECT id, seq FROM event WHERE kind = ANY($kinds) AND seq < 68719476736"
)

// accommodate makes sure that there are tables for all days that a tenant has something of.
func (s *Store) accommodate(ctx context.Context, from, to pgx.Tx, of *owned) error {
	rows, err := from.Query(ctx, of.fill(daysOf), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	days, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	if _, err := to.Exec(ctx, useDays); err != nil {
		return err
	}
	for _, day := range days {
		if err := s.inDays(ctx, func(tx pgx.Tx) error { return makeDay(ctx, tx, day) }); err != nil {
			return err
		}
	}
	return nil
}
