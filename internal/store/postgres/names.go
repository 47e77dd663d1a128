package postgres

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// shardOf is the shard that an endpoint is in.
func shardOf(endpoint string) int16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(endpoint))
	return int16(h.Sum32() % store.Shards)
}

// kind is what an event's tenant, type and source are together. Queries ask for each of them.
type kind struct{ tenant, eventType, source string }

func kindOf(e *grapnel.Event) kind { return kind{e.Tenant, e.Type, e.Source} }

// names are the numbers that stand for names in rows, as far as this node remembers them. They are given outside of the transactions that
// use them and are never taken back, so what is remembered is true for ever.
type names struct {
	mu      sync.RWMutex
	targets map[string]int32
	kinds   map[kind]int32
}

// namesKept bounds each map. A type is the publisher's to invent, so there may be any number of them.
const namesKept = 1 << 16

func newNames() names { return names{targets: make(map[string]int32), kinds: make(map[kind]int32)} }

const (
	targetsQuery  = "SELECT endpoint, number FROM target WHERE endpoint = ANY($1)"
	addTargetsSQL = "INSERT INTO target (endpoint, shard) SELECT * FROM unnest($1::text[], $2::smallint[]) ON CONFLICT DO NOTHING"
	kindsQuery    = `SELECT tenant, type, source, number FROM kind
		WHERE (tenant, type, source) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]))`
	addKindsSQL = `INSERT INTO kind (tenant, type, source) SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) ON CONFLICT DO NOTHING`
)

// learn makes sure that the numbers of names are known. Those that have none get one.
func (s *Store) learn(ctx context.Context, endpoints map[string]bool, kinds map[kind]bool) error {
	s.names.mu.Lock()
	if len(s.names.targets) > namesKept {
		clear(s.names.targets)
	}
	if len(s.names.kinds) > namesKept {
		clear(s.names.kinds)
	}
	s.names.mu.Unlock()
	for range tries {
		targets, others := s.names.unknown(endpoints, kinds)
		if len(targets) == 0 && len(others) == 0 {
			return nil
		}
		if err := s.number(ctx, targets, others, false); err != nil {
			return err
		}
		if targets, others = s.names.unknown(endpoints, kinds); len(targets) > 0 || len(others) > 0 {
			if err := s.number(ctx, targets, others, true); err != nil {
				return err
			}
		}
	}
	return errors.New("postgres: names cannot be given numbers")
}

// tries is how often something is tried that another node can spoil.
const tries = 10

// unknown are the names without a known number, sorted: two nodes that give numbers at the same time must not wait for each other.
func (n *names) unknown(endpoints map[string]bool, kinds map[kind]bool) (targets []string, others []kind) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for endpoint := range endpoints {
		if n.targets[endpoint] == 0 {
			targets = append(targets, endpoint)
		}
	}
	for k := range kinds {
		if n.kinds[k] == 0 {
			others = append(others, k)
		}
	}
	slices.Sort(targets)
	slices.SortFunc(others, compareKinds)
	return targets, others
}

// number looks names up, after giving them numbers if it is asked to.
func (s *Store) number(ctx context.Context, targets []string, kinds []kind, give bool) error {
	shards := make([]int16, len(targets))
	for i, endpoint := range targets {
		shards[i] = shardOf(endpoint)
	}
	tenants, types, sources := make([]string, len(kinds)), make([]string, len(kinds)), make([]string, len(kinds))
	for i, k := range kinds {
		tenants[i], types[i], sources[i] = k.tenant, k.eventType, k.source
	}
	if len(targets) > 0 {
		if give {
			if _, err := s.pool.Exec(ctx, addTargetsSQL, targets, shards); err != nil {
				return err
			}
		}
		rows, err := s.pool.Query(ctx, targetsQuery, targets)
		if err != nil {
			return err
		}
		var endpoint string
		var number int32
		if _, err := pgx.ForEachRow(rows, []any{&endpoint, &number}, func() error {
			s.names.mu.Lock()
			defer s.names.mu.Unlock()
			s.names.targets[endpoint] = number
			return nil
		}); err != nil {
			return err
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	if give {
		if _, err := s.pool.Exec(ctx, addKindsSQL, tenants, types, sources); err != nil {
			return err
		}
	}
	rows, err := s.pool.Query(ctx, kindsQuery, tenants, types, sources)
	if err != nil {
		return err
	}
	var k kind
	var number int32
	_, err = pgx.ForEachRow(rows, []any{&k.tenant, &k.eventType, &k.source, &number}, func() error {
		s.names.mu.Lock()
		defer s.names.mu.Unlock()
		s.names.kinds[k] = number
		return nil
	})
	return err
}

func (n *names) target(endpoint string) int32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.targets[endpoint]
}

func (n *names) kind(k kind) int32 {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.kinds[k]
}
