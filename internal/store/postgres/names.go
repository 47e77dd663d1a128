package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// shardOf is the shard of an endpoint.
func shardOf(endpoint string) int16 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(endpoint))
	return int16(h.Sum32() % store.Shards)
}

// kind is an event's tenant, type and source together. Queries filter by each of them.
type kind struct{ tenant, eventType, source string }

func kindOf(e *grapnel.Event) kind { return kind{e.Tenant, e.Type, e.Source} }

// named maps names to numbers. Rows contain numbers in place of names. A number is assigned outside
// of the transaction that uses it, and never belongs to another name.
//
// A transaction has its own copy of the numbers that learn returned. The node's cache belongs to
// all writers, and any of them may evict a name at any time; a transaction that read the cache
// directly could miss a name and write 0.
type named struct {
	targets map[string]int32
	kinds   map[kind]int32
}

func newNamed() named { return named{targets: make(map[string]int32), kinds: make(map[kind]int32)} }

// target is the number of an endpoint. No query would find a row with 0 in the place of a number.
// So a name without a number is an error, and the transaction is tried again.
func (n *named) target(endpoint string) (int32, error) {
	if number, known := n.targets[endpoint]; known {
		return number, nil
	}
	return 0, fmt.Errorf("%w: endpoint %q has no number", errSpoiled, endpoint)
}

// kind is the number of a kind, or an error, as for target.
func (n *named) kind(k kind) (int32, error) {
	if number, known := n.kinds[k]; known {
		return number, nil
	}
	return 0, fmt.Errorf("%w: type %q of tenant %q has no number", errSpoiled, k.eventType, k.tenant)
}

// names is the node's cache of numbers. Any of them may be evicted at any time.
type names struct {
	mu sync.Mutex
	named
}

const (
	targetsQuery  = "SELECT endpoint, number FROM target WHERE endpoint = ANY($1)"
	addTargetsSQL = "INSERT INTO target (endpoint, shard) SELECT * FROM unnest($1::text[], $2::smallint[]) ON CONFLICT DO NOTHING"
	kindsQuery    = `SELECT tenant, type, source, number FROM kind
		WHERE (tenant, type, source) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]))`
	addKindsSQL = `INSERT INTO kind (tenant, type, source) SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) ON CONFLICT DO NOTHING`
)

// learn returns the numbers of names, and assigns numbers to new names.
func (s *Store) learn(ctx context.Context, endpoints map[string]bool, kinds map[kind]bool) (named, error) {
	n := newNamed()
	targets := fromMemory(&s.names, s.names.targets, n.targets, endpoints)
	others := fromMemory(&s.names, s.names.kinds, n.kinds, kinds)
	if len(targets) == 0 && len(others) == 0 {
		return n, nil
	}
	for _, give := range []bool{false, true} {
		// Sorted: two nodes that give numbers at the same time must not wait for each other.
		slices.Sort(targets)
		slices.SortFunc(others, compareKinds)
		if err := s.number(ctx, &n, targets, others, give); err != nil {
			return named{}, err
		}
		targets, others = unnumbered(n.targets, targets), unnumbered(n.kinds, others)
	}
	toMemory(&s.names, s.names.targets, n.targets, s.bounds.Names)
	toMemory(&s.names, s.names.kinds, n.kinds, s.bounds.Names)
	return n, nil
}

// fromMemory copies the cached numbers, and returns the names that are not cached.
func fromMemory[N comparable](all *names, remembered, into map[N]int32, wanted map[N]bool) (others []N) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for name := range wanted {
		if number, known := remembered[name]; known {
			into[name] = number
		} else {
			others = append(others, name)
		}
	}
	return others
}

// unnumbered are the names without a number.
func unnumbered[N comparable](numbers map[N]int32, of []N) []N {
	return slices.DeleteFunc(of, func(name N) bool { _, known := numbers[name]; return known })
}

// toMemory adds numbers to the cache, and evicts some beyond the limit.
func toMemory[N comparable](all *names, remembered, numbers map[N]int32, most int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for name, number := range numbers {
		remembered[name] = number
	}
	for name := range remembered {
		if len(remembered) <= most {
			break
		}
		delete(remembered, name)
	}
}

// number looks names up, and first assigns numbers if asked to.
func (s *Store) number(ctx context.Context, n *named, targets []string, kinds []kind, give bool) error {
	if len(targets) > 0 {
		if give {
			if _, err := s.pool.Exec(ctx, addTargetsSQL, targets, column(targets, shardOf)); err != nil {
				return err
			}
		}
		if err := readTargets(ctx, s.pool, n, targets); err != nil {
			return err
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	if give {
		if _, err := s.pool.Exec(ctx, addKindsSQL, columnsOf(kinds)...); err != nil {
			return err
		}
	}
	return readKinds(ctx, s.pool, n, kinds)
}

// columnsOf returns the columns of kinds.
func columnsOf(kinds []kind) []any {
	return []any{column(kinds, func(k kind) string { return k.tenant }), column(kinds, func(k kind) string { return k.eventType }),
		column(kinds, func(k kind) string { return k.source })}
}

type queries interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// asked is a query whose rows are to be read.
type asked struct {
	rows pgx.Rows
	err  error
}

func ask(ctx context.Context, db queries, sql string, args ...any) asked {
	rows, err := db.Query(ctx, sql, args...)
	return asked{rows, err}
}

// each calls do with each row, which it reads to into.
func (a asked) each(into []any, do func()) error {
	return a.try(into, func() error { do(); return nil })
}

// try is each with a do that may fail.
func (a asked) try(into []any, do func() error) error {
	if a.err != nil {
		return a.err
	}
	_, err := pgx.ForEachRow(a.rows, into, do)
	return err
}

// collect returns what read makes of each row.
func collect[T any](a asked, read func(pgx.Row) (T, error)) ([]T, error) {
	if a.err != nil {
		return nil, a.err
	}
	return pgx.AppendRows([]T(nil), a.rows, func(row pgx.CollectableRow) (T, error) { return read(row) })
}

// firstColumn returns the first column of all rows.
func firstColumn[T any](a asked) ([]T, error) {
	if a.err != nil {
		return nil, a.err
	}
	return pgx.CollectRows(a.rows, pgx.RowTo[T])
}

func readTargets(ctx context.Context, db queries, n *named, targets []string) error {
	var endpoint string
	var number int32
	return ask(ctx, db, targetsQuery, targets).each([]any{&endpoint, &number}, func() { n.targets[endpoint] = number })
}

func readKinds(ctx context.Context, db queries, n *named, kinds []kind) error {
	var k kind
	var number int32
	return ask(ctx, db, kindsQuery, columnsOf(kinds)...).each([]any{&k.tenant, &k.eventType, &k.source, &number}, func() {
		n.kinds[k] = number
	})
}
