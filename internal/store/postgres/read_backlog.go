package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// The numbers of pending and of failed deliveries are in the tally. Heads are counted in the order
// of pending_due, which has no other deliveries with a due time.
const (
	tallied = `SELECT y.target, t.endpoint, sum(y.pending)::bigint, sum(y.failed)::bigint FROM tally y JOIN target t ON t.number = y.target
		WHERE $1 = '' OR y.tenant = $1 GROUP BY y.target, t.endpoint HAVING sum(y.pending) <> 0 OR sum(y.failed) <> 0 ORDER BY t.endpoint`
	blockedHeads = `SELECT u.target, count(*), min(p.seq) FROM unnest($1::int[], $2::bigint[]) u(target, most)
		CROSS JOIN LATERAL (SELECT seq FROM pending WHERE target = u.target AND blocked ORDER BY seq LIMIT u.most) p GROUP BY u.target`
	// partsOfHeads also counts those of the counted heads that are leased.
	partsOfHeads = `SELECT u.target, width_bucket(p.due, $3::bigint[]), count(*), min(p.seq), count(s.delivery)
		FROM unnest($1::int[], $2::bigint[]) u(target, most)
		CROSS JOIN LATERAL (SELECT due, seq FROM pending WHERE target = u.target AND due IS NOT NULL ORDER BY due, seq LIMIT u.most) p
		LEFT JOIN lease s ON s.delivery = p.seq GROUP BY 1, 2`
	creations = "SELECT seq, created FROM pending WHERE seq = ANY($1)"
	// lettersOf examines an endpoint's failed deliveries, the newest first.
	lettersOf = `SELECT u.target, count(*) FROM unnest($1::int[], $2::bigint[]) u(target, most)
		CROSS JOIN LATERAL (SELECT seq FROM finished WHERE target = u.target AND status = 'failed' AND status <> 'delivered'
			ORDER BY seq DESC LIMIT u.most) d
		WHERE NOT EXISTS (SELECT FROM mark WHERE delivery = d.seq AND (discarded IS NOT NULL OR replay_result = 'delivered')) GROUP BY u.target`
)

// backlogs are the counts of endpoints, in the order of their ids.
type backlogs struct {
	ctx     context.Context
	tx      pgx.Tx
	list    []store.Backlog
	targets []int32
	at      map[int32]int // a target's index in the lists
	oldest  map[int32]int64
	counted []int64
	heads   []int64 // how many may be counted
	ends    []int64 // of parts, in microseconds
}

// Backlogs reads one snapshot.
func (s *lister) Backlogs(ctx context.Context, scope store.Scope, tenant string, now time.Time,
	limit int64) (list []store.Backlog, err error) {
	tenant, some := scope.Narrow(tenant)
	if !some {
		return nil, ctx.Err()
	}
	err = s.snapshot(ctx, s.reading, func(ctx context.Context, tx pgx.Tx) error {
		list = nil
		b := &backlogs{ctx: ctx, tx: tx, at: make(map[int32]int), oldest: make(map[int32]int64)}
		at, err := s.clock(ctx, tx, now)
		if err == nil {
			err = b.count(tenant, at, limit)
		}
		if err != nil {
			return err
		}
		for i := range b.list {
			if one := &b.list[i]; one.Pending > 0 || one.Dead > 0 || one.DeadMore {
				list = append(list, *one)
			}
		}
		return nil
	})
	return list, err
}

func (b *backlogs) count(tenant string, now, limit int64) error {
	pending, failed, err := b.tallied(tenant)
	if err != nil || len(b.list) == 0 {
		return err
	}
	b.heads, b.counted = store.Shares(pending, limit), make([]int64, len(b.list))
	b.ends = []int64{now + 1} // a head that is due at the time itself is ready
	for i := range store.AheadParts {
		b.ends = append(b.ends, now+store.AheadEnd(i).Microseconds())
	}
	for _, read := range []func() error{b.blocked, b.due, b.created} {
		if err := read(); err != nil {
			return err
		}
	}
	for i := range b.list {
		b.list[i].Settle(b.counted[i], b.heads[i])
	}
	return b.letters(failed, store.Shares(failed, limit))
}

func (b *backlogs) tallied(tenant string) (pending, failed []int64, err error) {
	var target int32
	var one store.Backlog
	var dead int64
	err = rows.Ask(b.ctx, b.tx, tallied, tenant).Each([]any{&target, &one.Endpoint, &one.Pending, &dead}, func() {
		b.at[target] = len(b.list)
		b.list, b.targets = append(b.list, one), append(b.targets, target)
		pending, failed = append(pending, one.Pending), append(failed, dead)
	})
	return pending, failed, err
}

// each runs a query over all targets with a limit for each of them.
func (b *backlogs) each(query string, most []int64, into []any, do func(), more ...any) error {
	return rows.Ask(b.ctx, b.tx, query, append([]any{b.targets, most}, more...)...).Each(into, do)
}

func (b *backlogs) took(target int32, n, oldest int64) {
	b.counted[b.at[target]] += n
	if first, some := b.oldest[target]; !some || oldest < first {
		b.oldest[target] = oldest
	}
}

func (b *backlogs) blocked() error {
	var target int32
	var n, oldest int64
	return b.each(blockedHeads, b.heads, []any{&target, &n, &oldest}, func() {
		b.list[b.at[target]].Blocked = n
		b.took(target, n, oldest)
	})
}

// due counts heads with a due time, the leased ones apart.
func (b *backlogs) due() error {
	left := make([]int64, len(b.heads))
	for i := range left {
		left[i] = b.heads[i] - b.counted[i]
	}
	var target int32
	var part int
	var n, oldest, leased int64
	return b.each(partsOfHeads, left, []any{&target, &part, &n, &oldest, &leased}, func() {
		one := &b.list[b.at[target]]
		one.AddPart(part, n-leased)
		one.Leased += leased
		b.took(target, n, oldest)
	}, b.ends)
}

func (b *backlogs) created() error {
	seqs := make([]int64, 0, len(b.oldest))
	of := make(map[int64]int, len(b.oldest))
	for target, seq := range b.oldest {
		seqs, of[seq] = append(seqs, seq), b.at[target]
	}
	var seq, created int64
	return rows.Ask(b.ctx, b.tx, creations, seqs).Each([]any{&seq, &created}, func() { b.list[of[seq]].Oldest = codec.Moment(created) })
}

func (b *backlogs) letters(failed, most []int64) error {
	for i := range b.list {
		b.list[i].DeadMore = most[i] < failed[i]
	}
	var target int32
	var n int64
	return b.each(lettersOf, most, []any{&target, &n}, func() { b.list[b.at[target]].Dead = n })
}

// Size is the size of the database in bytes, with its indexes.
func (s *reader) Size(ctx context.Context) (bytes int64, err error) {
	err = s.reading.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&bytes)
	return bytes, readError(ctx, err)
}
