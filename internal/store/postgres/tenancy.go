package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
)

var _ store.Moving = (*Store)(nil)

const (
	tenancyColumns = "tenant, state, move, other, since, shifts"
	tenanciesQuery = "SELECT " + tenancyColumns + " FROM tenancy ORDER BY tenant"
	tenancyQuery   = "SELECT " + tenancyColumns + " FROM tenancy WHERE tenant = $1"
	setTenancy     = `INSERT INTO tenancy (tenant, state, move, other, since) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant) DO UPDATE SET state = excluded.state, move = excluded.move, other = excluded.other, since = excluded.since, before = ''`
	// sealThose runs after every change of a tenancy.
	sealThose = `UPDATE configuration SET sealed = ARRAY(SELECT tenant FROM tenancy WHERE state IN ('sealed', 'arrived', 'gone') ORDER BY tenant)`

	// targetsOf are all endpoints that ever had a row of the tenant, including deleted ones.
	targetsOf = `SELECT number FROM target WHERE endpoint IN (SELECT id FROM endpoint WHERE tenant = $1)
		UNION SELECT target FROM tally WHERE tenant = $1`
	// leaveBehind stores what rows are found by once the configuration is deleted.
	leaveBehind = `UPDATE tenancy SET shifts = '[]', targets = ARRAY(` + targetsOf + `), keys = ARRAY(SELECT id FROM api_key WHERE tenant = $1),
		first = 0, last = coalesce((SELECT max(seq) FROM audit WHERE tenant = $1), 0) WHERE tenant = $1`
)

// configTables have a tenant's configuration.
var configTables = []string{"endpoint", "source", "policy", "event_type", "api_key"}

// unconfigure deletes a tenant's configuration, and the rows of its endpoints.
var unconfigure = append([]string{"DELETE FROM standing WHERE endpoint IN (SELECT id FROM endpoint WHERE tenant = $1)"},
	column(configTables, func(table string) string { return "DELETE FROM " + table + " WHERE tenant = $1" })...)

func readTenancy(row pgx.Row) (t grapnel.Tenancy, err error) {
	var since int64
	var shifts string
	if err := row.Scan(&t.Tenant, &t.State, &t.Move, &t.Other, &since, &shifts); err != nil {
		return t, err
	}
	t.Since = codec.Moment(since)
	if err := json.Unmarshal([]byte(shifts), &t.Shifts); err != nil {
		return t, fmt.Errorf("postgres: reading the state of tenant %s: %w", t.Tenant, err)
	}
	return t, nil
}

// tenancyOf is a tenant's stored state; an empty state: none is stored.
func tenancyOf(ctx context.Context, db queries, tenant string) (grapnel.Tenancy, error) {
	t, err := readTenancy(db.QueryRow(ctx, tenancyQuery, tenant))
	if isNone(err) {
		return grapnel.Tenancy{Tenant: tenant}, nil
	}
	return t, err
}

// settle puts a tenant into a state, and returns the version of the configuration.
func (t *tx) settle(o *grapnel.Tenancy, from grapnel.TenancyState, audit *grapnel.AuditEntry) (version int64, err error) {
	is, err := tenancyOf(t.ctx, t.conn, o.Tenant)
	switch {
	case err != nil:
		return 0, err
	case is.State == o.State && is.Move == o.Move:
		return t.version, nil // the same call succeeded before
	case is.State != from && !(is.State.Open() && from.Open()):
		return 0, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is not in the state %q", o.Tenant, from)
	case is.Move != o.Move && goesOn(from, o.State):
		return 0, grapnel.Errorf(grapnel.CodeConflict, "tenant %s is in another move", o.Tenant)
	}
	t.then(setTenancy, o.Tenant, string(o.State), o.Move, o.Other, codec.Micros(o.Since))
	if o.State == grapnel.TenancyGone {
		t.then(leaveBehind, o.Tenant)
		for _, sql := range unconfigure {
			t.then(sql, o.Tenant)
		}
	}
	t.then(sealThose)
	t.note(audit)
	t.bumped = true
	return t.version + 1, nil
}

// goesOn says whether from → to is a legal step of this move. It rejects a late step of an earlier
// move.
func goesOn(from, to grapnel.TenancyState) bool {
	return from == grapnel.TenancyClosing && to == grapnel.TenancySealed || from == grapnel.TenancySealed && to == grapnel.TenancyGone ||
		from == grapnel.TenancyArrived && to == grapnel.TenancyHere
}

// PutTenancy is a change of the configuration: writes that were decided before are committed before
// it, or refused.
func (s *Store) PutTenancy(ctx context.Context, t grapnel.Tenancy, from grapnel.TenancyState,
	audit *grapnel.AuditEntry) (done store.Put, err error) {
	switch t.State {
	case grapnel.TenancyHere, grapnel.TenancyClosing, grapnel.TenancySealed, grapnel.TenancyGone:
	default:
		return store.Put{}, grapnel.Errorf(grapnel.CodeInvalid, "a tenant cannot be put into state %q", t.State)
	}
	err = s.writeAlone(ctx, &change{
		needs: func(n *needs) { n.exclusive = true },
		do:    func(tx *tx) (err error) { done.Version, err = tx.settle(&t, from, audit); return err },
	})
	return result(&done, err)
}
