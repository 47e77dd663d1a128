package postgres

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
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

func compareKinds(a, b kind) int {
	return cmp.Or(strings.Compare(a.tenant, b.tenant), strings.Compare(a.eventType, b.eventType), strings.Compare(a.source, b.source))
}

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
	forgotten int // how often all of them were
}

// forget evicts all names: some may have been deleted.
func (n *names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.targets)
	clear(n.kinds)
	n.forgotten++
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
	more:    func(endpoints []string) []any { return []any{rows.Column(endpoints, shardOf)} },
	into:    func(endpoint *string) []any { return []any{endpoint} },
	compare: strings.Compare,
}

var kindNaming = naming[kind]{
	query: `SELECT tenant, type, source, number FROM kind
		WHERE (tenant, type, source) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]))`,
	add: "INSERT INTO kind (tenant, type, source) SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) ON CONFLICT DO NOTHING",
	columns: func(kinds []kind) []any {
		return []any{rows.Column(kinds, func(k kind) string { return k.tenant }), rows.Column(kinds, func(k kind) string { return k.eventType }),
			rows.Column(kinds, func(k kind) string { return k.source })}
	},
	more:    func([]kind) []any { return nil },
	into:    func(k *kind) []any { return []any{&k.tenant, &k.eventType, &k.source} },
	compare: compareKinds,
}

// read reads the numbers of names.
func (of *naming[N]) read(ctx context.Context, db rows.Queries, names []N, to map[N]int32) error {
	var name N
	var number int32
	return rows.Ask(ctx, db, of.query, of.columns(names)...).Each(append(of.into(&name), &number), func() { to[name] = number })
}

// give gives numbers to names that have none, and reads them. The names are sorted: two nodes that
// give numbers at the same time must not wait for each other.
func (of *naming[N]) give(ctx context.Context, db rows.Queries, names []N, to map[N]int32) error {
	if _, err := db.Exec(ctx, of.add, append(of.columns(names), of.more(names)...)...); err != nil {
		return err
	}
	return of.read(ctx, db, names, to)
}

func keysOf(m map[string]bool) []string { return sortedKeys(m, strings.Compare) }

// sortedKeys returns the sorted keys of a map.
func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := slices.AppendSeq(make([]K, 0, len(m)), maps.Keys(m))
	slices.SortFunc(keys, compare)
	return keys
}
