package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Rows of a sealed tenant must not change (store.Moving). Every writer reads the list of sealed
// tenants together with the configuration's version, under a lock that a write of the configuration
// takes exclusively. So a write that was decided before a tenant was sealed is either committed
// before the sealing, or refused.

// unsealed restricts the deletion of old rows to tenants that are not sealed. Such a deletion takes
// no lock. It may commit after the tenant was sealed, but deletes only rows that were old before.
const unsealed = "tenant <> ALL((SELECT sealed FROM configuration)::text[])"

// seals says whether the rows of a tenant must not change.
func (t *tx) seals(tenant string) bool {
	_, is := slices.BinarySearch(t.sealed, tenant)
	return is
}

// sealsAny says whether one of some pending deliveries belongs to a sealed tenant.
func (t *tx) sealsAny(seqs []int64) bool {
	return len(t.sealed) > 0 && slices.ContainsFunc(seqs, func(seq int64) bool {
		p := t.places[seq]
		return p != nil && t.seals(p.tenant)
	})
}

// sealsChange says whether a change is about a sealed tenant; p is the delivery's place, if it has
// one.
func (t *tx) sealsChange(c *turn, p *place) bool {
	if len(t.sealed) == 0 {
		return false
	}
	is := t.over[c.Delivery]
	return p != nil && t.seals(p.tenant) || is != nil && t.seals(is.tenant) || c.Standing != nil &&
		t.seals(t.endpoints[c.Standing.Endpoint].Tenant)
}

// sealed says whether the batch has an event of a sealed tenant. b may be nil.
func (b *batch) sealed(t *tx) bool {
	return b != nil && len(t.sealed) > 0 && slices.ContainsFunc(b.events, func(e incoming) bool { return t.seals(e.Tenant) })
}

const sealedEvents = `SELECT e.seq FROM event e CROSS JOIN LATERAL (SELECT tenant FROM kind WHERE number = e.kind OFFSET 0) k
	WHERE e.seq = ANY($1) AND k.tenant = ANY((SELECT sealed FROM configuration)::text[])`

// passSealed leaves out events of sealed tenants. The caller holds the lock.
func passSealed(ctx context.Context, tx pgx.Tx, old []oldEvent) ([]oldEvent, error) {
	sealed, err := firstColumn[int64](ask(ctx, tx, sealedEvents, column(old, func(e oldEvent) int64 { return e.seq })))
	if err != nil || len(sealed) == 0 {
		return old, err
	}
	return slices.DeleteFunc(old, func(e oldEvent) bool { return slices.Contains(sealed, e.seq) }), nil
}
