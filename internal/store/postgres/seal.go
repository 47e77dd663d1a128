package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// What is of a tenant that is on its way to another cell must not change (store.Moving). Whoever writes reads whose things those are together with
// the version of the configuration, under the lock that a write of the configuration takes alone. So what was decided before a tenant was sealed
// is either committed before that, or refused.

// unsealed is what is said of rows that may be removed because they are old. Such a removal takes no lock: it may be committed after the tenant was
// sealed, but only of what was old before.
const unsealed = "tenant <> ALL((SELECT sealed FROM configuration)::text[])"

// seals says whether nothing of a tenant may be written.
func (t *tx) seals(tenant string) bool {
	_, is := slices.BinarySearch(t.sealed, tenant)
	return is
}

// sealsAny says whether one of some pending deliveries is of such a tenant.
func (t *tx) sealsAny(seqs []int64) bool {
	return len(t.sealed) > 0 && slices.ContainsFunc(seqs, func(seq int64) bool {
		p := t.places[seq]
		return p != nil && t.seals(p.tenant)
	})
}

// sealsChange says the same of what a change is about; p is its place, if it has one.
func (t *tx) sealsChange(c *turn, p *place) bool {
	if len(t.sealed) == 0 {
		return false
	}
	is := t.over[c.Delivery]
	return p != nil && t.seals(p.tenant) || is != nil && t.seals(is.tenant) || c.Standing != nil && t.seals(t.endpoints[c.Standing.Endpoint].tenant)
}

// sealed says whether one event of the batch, if there is one, is of such a tenant.
func (b *batch) sealed(t *tx) bool {
	return b != nil && len(t.sealed) > 0 && slices.ContainsFunc(b.events, func(e incoming) bool { return t.seals(e.Tenant) })
}

const sealedEvents = `SELECT e.seq FROM event e CROSS JOIN LATERAL (SELECT tenant FROM kind WHERE number = e.kind OFFSET 0) k
	WHERE e.seq = ANY($1) AND k.tenant = ANY((SELECT sealed FROM configuration)::text[])`

// passSealed leaves events out that are of such a tenant. The caller has the lock.
func passSealed(ctx context.Context, tx pgx.Tx, old []oldEvent) ([]oldEvent, error) {
	rows, err := tx.Query(ctx, sealedEvents, column(old, func(e oldEvent) int64 { return e.seq }))
	if err != nil {
		return nil, err
	}
	sealed, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(sealed) == 0 {
		return old, err
	}
	return slices.DeleteFunc(old, func(e oldEvent) bool { return slices.Contains(sealed, e.seq) }), nil
}
