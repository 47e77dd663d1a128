package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

const (
	// shardsLock keeps shards from being taken until the end of the transaction. guardLock does the
	// same for the shards of some pending deliveries as well; it reads all shards.
	shardsLock = "SELECT number, epoch FROM shard WHERE number = ANY($1) ORDER BY number FOR KEY SHARE"
	guardLock  = `SELECT number, epoch FROM shard WHERE number = ANY($1)
		OR number IN (SELECT t.shard FROM pending p JOIN target t ON t.number = p.target WHERE p.seq = ANY($2)) ORDER BY number FOR KEY SHARE`
	freeShards = `SELECT number FROM shard WHERE number = ANY($1) AND (owner = '' OR until < clock_timestamp()) ORDER BY number FOR UPDATE`
	takeShards = `UPDATE shard SET owner = $2, epoch = epoch + 1, until = clock_timestamp() + $3::bigint * interval '1 microsecond'
		WHERE number = ANY($1) RETURNING number, epoch`
	renewShards = `UPDATE shard s SET until = clock_timestamp() + $4::bigint * interval '1 microsecond' FROM unnest($1::smallint[], $2::bigint[]) u(number, epoch)
		WHERE s.number = u.number AND s.epoch = u.epoch AND s.owner = $3 RETURNING s.number, s.epoch`
	releaseShards = `UPDATE shard s SET owner = '', until = '-infinity' FROM unnest($1::smallint[], $2::bigint[]) u(number, epoch)
		WHERE s.number = u.number AND s.epoch = u.epoch AND s.owner = $3 RETURNING s.number, s.epoch`
	ownedShards = `SELECT number FROM shard WHERE number = ANY($1) AND owner = $2 ORDER BY number FOR NO KEY UPDATE`
	shardsQuery = `SELECT number, epoch, owner, CASE WHEN owner = '' THEN 0
		ELSE (extract(epoch FROM until - clock_timestamp()) * 1000000)::bigint END FROM shard ORDER BY number`

	actingQuery = `SELECT id, address, version FROM node WHERE seen > clock_timestamp() - $1::bigint * interval '1 microsecond'
		UNION SELECT owner, coalesce(address, ''), coalesce(version, 0) FROM shard LEFT JOIN node ON id = owner
		WHERE owner <> '' AND until > clock_timestamp()`

	// It deletes nodes that were killed, or the table would grow with each of them.
	beatSQL = `WITH dead AS (DELETE FROM node WHERE id <> $1 AND seen < clock_timestamp() - interval '1 day')
		INSERT INTO node (id, address, draining, version, fingerprint, seen) VALUES ($1, $2, $3, $4, $5, clock_timestamp())
		ON CONFLICT (id) DO UPDATE SET address = excluded.address, draining = excluded.draining, version = excluded.version,
		fingerprint = excluded.fingerprint, seen = excluded.seen`
	nodesQuery = `SELECT id, address, fingerprint, draining, (extract(epoch FROM clock_timestamp() - seen) * 1000000)::bigint FROM node
		WHERE seen > clock_timestamp() - $1::bigint * interval '1 microsecond' ORDER BY id`
	leaveSQL = "DELETE FROM node WHERE id = $1"
)

func (t *tx) readEpochs(got pgx.Rows) error {
	var shard int16
	var epoch int64
	return rows.Answered(got).Each([]any{&shard, &epoch}, func() { t.epochs[shard] = epoch })
}

// fenced says whether a decision about an endpoint, made in an epoch, comes too late.
func fenced(t *tx, endpoint string, epoch int64) bool {
	return epoch != 0 && t.epochs[shardOf(endpoint)] != epoch
}

// ShardOf is the hash of the endpoint's id.
func (s *owner) ShardOf(endpoint string) int { return int(shardOf(endpoint)) }

// Acquire waits for writes of the shards' previous owners that are being committed.
func (s *owner) Acquire(ctx context.Context, node string, shards []int, lease time.Duration) ([]store.Owned, error) {
	numbers := rows.Column(shards, func(n int) int16 { return int16(n) })
	return s.shards(ctx, freeShards, []any{numbers}, func(tx pgx.Tx, free []int16) rows.Asked {
		return rows.Ask(ctx, tx, takeShards, free, node, lease.Microseconds())
	})
}

// Renew waits for no other node's writes.
func (s *owner) Renew(ctx context.Context, node string, owned []store.Owned, lease time.Duration) ([]store.Owned, error) {
	return s.change(ctx, node, owned, renewShards, lease.Microseconds())
}

// Release leaves the epochs as they are.
func (s *owner) Release(ctx context.Context, node string, owned []store.Owned) error {
	_, err := s.change(ctx, node, owned, releaseShards)
	return err
}

// change changes shards that a node owns.
func (s *owner) change(ctx context.Context, node string, owned []store.Owned, sql string, more ...any) ([]store.Owned, error) {
	numbers, epochs := rows.Column(owned, func(o store.Owned) int16 { return int16(o.Shard) }),
		rows.Column(owned, func(o store.Owned) int64 { return o.Epoch })
	return s.shards(ctx, ownedShards, []any{numbers, node}, func(tx pgx.Tx, _ []int16) rows.Asked {
		return rows.Ask(ctx, tx, sql, append([]any{numbers, epochs, node}, more...)...)
	})
}

// shards locks shards in order, and then changes them.
func (s *owner) shards(ctx context.Context, lock string, args []any,
	change func(pgx.Tx, []int16) rows.Asked) (done []store.Owned, err error) {
	ctx, end := s.owning.bound(ctx)
	defer end()
	err = pgx.BeginFunc(ctx, s.owning, func(tx pgx.Tx) error {
		numbers, err := rows.FirstColumn[int16](rows.Ask(ctx, tx, lock, args...))
		if err != nil || len(numbers) == 0 {
			return err
		}
		var one store.Owned
		return change(tx, numbers).Each([]any{&one.Shard, &one.Epoch}, func() { done = append(done, one) })
	})
	return result(&done, readError(ctx, err))
}

// ShardList returns all shards.
func (s *owner) ShardList(ctx context.Context) ([]store.Shard, error) {
	all := make([]store.Shard, 0, store.Shards)
	var one store.Shard
	var left int64
	err := rows.Ask(ctx, s.owning, shardsQuery).Each([]any{&one.Number, &one.Epoch, &one.Owner, &left}, func() {
		one.Left = time.Duration(left) * time.Microsecond
		all = append(all, one)
	})
	return all, readError(ctx, err)
}

// Acting is one query, because every change of the configuration runs it.
func (s *owner) Acting(ctx context.Context, within time.Duration) (all []store.Node, err error) {
	var one store.Node
	got := rows.Ask(ctx, s.owning, actingQuery, within.Microseconds())
	err = got.Each([]any{&one.ID, &one.Address, &one.Version}, func() { all = append(all, one) })
	return all, readError(ctx, err)
}

var freshQuery = "SELECT " + placeColumns + ` FROM (SELECT p.* FROM pending p JOIN target o ON o.number = p.target
		WHERE p.seq > $1 AND p.due IS NOT NULL AND o.shard = ANY($2) ORDER BY p.seq LIMIT $3) p` + placeJoins + " ORDER BY p.seq"

// Fresh walks the pending deliveries from a row id on.
func (s *owner) Fresh(ctx context.Context, shards []int, after int64, limit int) ([]store.Head, error) {
	heads := []store.Head{}
	numbers := rows.Column(shards, func(n int) int16 { return int16(n) })
	err := s.readHeads(ctx, s.owning, func(p *place) { heads = append(heads, p.Shown()) }, freshQuery, after, numbers, max(limit, 0))
	return heads, err
}

// Beat uses the database's clock. It also deletes nodes that have not been seen for a day.
func (s *owner) Beat(ctx context.Context, node store.Node, within time.Duration) (all []store.Node, err error) {
	if _, err := s.owning.Exec(ctx, beatSQL, node.ID, node.Address, node.Draining, node.Version, node.Fingerprint); err != nil {
		return nil, readError(ctx, err)
	}
	return s.Nodes(ctx, within)
}

// Nodes uses the database's clock.
func (s *owner) Nodes(ctx context.Context, within time.Duration) (all []store.Node, err error) {
	var one store.Node
	var ago int64
	got := rows.Ask(ctx, s.owning, nodesQuery, within.Microseconds())
	err = got.Each([]any{&one.ID, &one.Address, &one.Fingerprint, &one.Draining, &ago}, func() {
		one.Ago = time.Duration(ago) * time.Microsecond
		all = append(all, one)
	})
	return all, readError(ctx, err)
}

// Leave is the last call of a node.
func (s *owner) Leave(ctx context.Context, node string) error {
	_, err := s.owning.Exec(ctx, leaveSQL, node)
	return readError(ctx, err)
}

// Secret was drawn when the database was created. The returned secret also contains the timeline of
// the database that this node uses. Row ids from a node that has not noticed a failover mean other
// rows; it has another timeline, so its messages fail authentication.
func (s *owner) Secret(ctx context.Context) (secret string, err error) {
	err = s.owning.QueryRow(ctx, "SELECT secret FROM peer").Scan(&secret)
	if err == nil {
		secret, err = s.openText(ctx, secret)
	}
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return fmt.Sprintf("%s/%s/%d", secret, s.at.system, s.at.timeline), readError(ctx, err)
}
