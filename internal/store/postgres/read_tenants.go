package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// tenantTallies finds an endpoint's latest hour in the index total_target.
const tenantTallies = `SELECT y.target, y.tenant, sum(y.pending)::bigint, sum(y.failed)::bigint,
		(SELECT at FROM total WHERE target = y.target ORDER BY at DESC LIMIT 1)
	FROM tally y WHERE y.tenant = ANY($1) GROUP BY y.target, y.tenant`

// TenantCounts reads one snapshot.
func (s *lister) TenantCounts(ctx context.Context, tenants []string, limit int64) (all map[string]store.TenantCount, err error) {
	err = s.snapshot(ctx, s.reading, func(ctx context.Context, tx pgx.Tx) error {
		c := store.NewTenantCounter(tenants)
		b := &backlogs{ctx: ctx, tx: tx}
		var target int32
		var tenant string
		var pending, failed int64
		var hour *int64
		if err := rows.Ask(ctx, tx, tenantTallies, tenants).Each([]any{&target, &tenant, &pending, &failed, &hour}, func() {
			var active time.Time
			if hour != nil {
				active = codec.Moment(codec.HourBegins(*hour))
			}
			b.targets = append(b.targets, target)
			c.Add(tenant, pending, failed, active)
		}); err != nil {
			return err
		}
		all, err = c.Letters(limit, func(shares []int64) ([]int64, error) {
			at, dead := make(map[int32]int, len(shares)), make([]int64, len(shares))
			for i, target := range b.targets {
				at[target] = i
			}
			var n int64
			err := b.each(lettersOf, shares, []any{&target, &n}, func() { dead[at[target]] = n })
			return dead, err
		})
		return err
	})
	return all, err
}
