package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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

func (n *named) target(endpoint string) (int32, error) { return numbered(n.targets, endpoint) }

func (n *named) kind(k kind) (int32, error) { return numbered(n.kinds, k) }

// numbered is the number of a name. No query would find a row with 0 in the place of a number. So a
// name without a number is an error, and the transaction is tried again.
func numbered[N comparable](numbers map[N]int32, name N) (int32, error) {
	if number, known := numbers[name]; known {
		return number, nil
	}
	return 0, fmt.Errorf("%w: the name %q has no number", errSpoiled, fmt.Sprint(name))
}

// names is the node's cache of numbers. Any of them may be evicted at any time.
type names struct {
	mu sync.Mutex
	named
}

// naming is how the database numbers names: of endpoints, or kinds.
type naming[N comparable] struct {
	query   string          // the numbers of names
	add     string          // gives numbers to names that have none
	columns func([]N) []any // of names
	more    func([]N) []any // further columns of a new row
	into    func(*N) []any  // where to read a name
	compare func(a, b N) int
}

var targetNaming = naming[string]{
	query:   "SELECT endpoint, number FROM target WHERE endpoint = ANY($1)",
	add:     "INSERT INTO target (endpoint, shard) SELECT * FROM unnest($1::text[], $2::smallint[]) ON CONFLICT DO NOTHING",
	columns: func(endpoints []string) []any { return []any{endpoints} },
	more:    func(endpoints []string) []any { return []any{column(endpoints, shardOf)} },
	into:    func(endpoint *string) []any { return []any{endpoint} },
	compare: strings.Compare,
}

var kindNaming = naming[kind]{
	query: `SELECT tenant, type, source, number FROM kind
		WHERE (tenant, type, source) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]))`,
	add: "INSERT INTO kind (tenant, type, source) SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) ON CONFLICT DO NOTHING",
	columns: func(kinds []kind) []any {
		return []any{column(kinds, func(k kind) string { return k.tenant }), column(kinds, func(k kind) string { return k.eventType }),
			column(kinds, func(k kind) string { return k.source })}
	},
	more:    func([]kind) []any { return nil },
	into:    func(k *kind) []any { return []any{&k.tenant, &k.eventType, &k.source} },
	compare: compareKinds,
}

// read reads the numbers of names.
func (of *naming[N]) read(ctx context.Context, db queries, names []N, to map[N]int32) error {
	var name N
	var number int32
	return ask(ctx, db, of.query, of.columns(names)...).each(append(of.into(&name), &number), func() { to[name] = number })
}

// give gives numbers to names that have none, and reads them. The names are sorted: two nodes that
// give numbers at the same time must not wait for each other.
func (of *naming[N]) give(ctx context.Context, db queries, names []N, to map[N]int32) error {
	if _, err := db.Exec(ctx, of.add, append(of.columns(names), of.more(names)...)...); err != nil {
		return err
	}
	return of.read(ctx, db, names, to)
}

// learn returns the numbers of names, and assigns numbers to new names.
func (s *database) learn(ctx context.Context, endpoints map[string]bool, kinds map[kind]bool) (n named, err error) {
	if n.targets, err = learnNames(ctx, s, &targetNaming, s.names.targets, endpoints); err == nil {
		n.kinds, err = learnNames(ctx, s, &kindNaming, s.names.kinds, kinds)
	}
	return n, err
}

func learnNames[N comparable](ctx context.Context, s *database, of *naming[N], remembered map[N]int32,
	wanted map[N]bool) (map[N]int32, error) {
	numbers := make(map[N]int32, len(wanted))
	others := fromMemory(&s.names, remembered, numbers, wanted)
	if len(others) == 0 {
		return numbers, nil
	}
	slices.SortFunc(others, of.compare)
	if err := of.read(ctx, s.pool, others, numbers); err != nil {
		return nil, err
	}
	others = slices.DeleteFunc(others, func(name N) bool { _, known := numbers[name]; return known })
	if len(others) > 0 {
		if err := of.give(ctx, s.pool, others, numbers); err != nil {
			return nil, err
		}
	}
	toMemory(&s.names, remembered, numbers, s.bounds.Names)
	return numbers, nil
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

// toMemory adds numbers to the cache, and evicts some beyond the limit.
func toMemory[N comparable](all *names, remembered, numbers map[N]int32, most int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	maps.Copy(remembered, numbers)
	for name := range remembered {
		if len(remembered) <= most {
			break
		}
		delete(remembered, name)
	}
}

// queries is a connection, a pool or a transaction.
type queries interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
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
