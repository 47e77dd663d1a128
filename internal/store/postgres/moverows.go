package postgres

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// moving describes the rows of one table that a move copies.
type moving struct {
	table string
	// columns are all columns of the table. The word behind @ says which value differs in the other
	// database: the row id of an event, a delivery (0: none), a lane (0: none), a replay or an
	// audit entry; the number of a target or a kind; or a value that contains such row ids: the id
	// of a delivery, the document of a replay. tenant fills in the tenant, which rows from before
	// step 9 do not name.
	columns string
	where   string // condition for the tenant's rows; x is the row
	from    string // query instead of the table, if columns have to be computed first
	key     string // primary key; empty: the first column
}

const ofDeliveries = `(SELECT seq FROM pending WHERE target = ANY($targets) AND kind = ANY($kinds)
	UNION ALL SELECT seq FROM finished WHERE target = ANY($targets) AND kind = ANY($kinds))`

// movings are all tables with rows of tenants. staying are the others.
var (
	movings = []moving{
		{table: "api_key", columns: "id tenant body", where: "x.tenant = $tenant"},
		{table: "policy", columns: "id tenant revision name body", where: "x.tenant = $tenant"},
		{table: "event_type", columns: "id tenant revision name body", where: "x.tenant = $tenant"},
		{table: "source", columns: "id tenant revision name body", where: "x.tenant = $tenant"},
		{table: "endpoint", columns: "id tenant revision deleted queue body", where: "x.tenant = $tenant"},
		{table: "document", columns: "tenant kind id revision at body", key: "tenant, kind, id", where: "x.tenant = $tenant"},
		{table: "standing", columns: "endpoint number body", where: "x.endpoint IN (SELECT id FROM endpoint WHERE tenant = $tenant)"},
		{table: "lane", columns: "number@lane target@target key last", where: "x.target = ANY($targets)"},
		{table: "event", columns: eventFields.moving(), where: "x.kind = ANY($kinds)"},
		{table: "pending", columns: pendingFields.moving(), where: "x.target = ANY($targets) AND x.kind = ANY($kinds)"},
		{table: "lease", columns: leaseFields.moving(), where: "x.target = ANY($targets)"},
		{table: "finished", columns: finishedFields.moving(), where: "x.target = ANY($targets) AND x.kind = ANY($kinds)"},
		{table: "attempt", columns: attemptFields.moving(), where: "x.delivery IN " + ofDeliveries},
		{table: "redelivery", columns: redeliveryFields.moving(), where: "x.delivery IN " + ofDeliveries},
		{table: "mark", columns: "delivery@delivery note discarded discard_reason replayed replayed_by replayed_as@delivery replay_result",
			where: "x.delivery IN " + ofDeliveries},
		{table: "replay", columns: "number@replay id tenant endpoint status active finished revision body@document", where: "x.tenant = $tenant"},
		{table: "replay_progress", columns: "replay@replay up_to@delivery cursor@delivery started done delivered failed run",
			where: "x.replay IN (SELECT number FROM replay WHERE tenant = $tenant)"},
		{table: "replay_item", columns: "made@delivery replay@replay original@delivery created at status",
			where: "x.replay IN (SELECT number FROM replay WHERE tenant = $tenant)"},
		{table: "tally", columns: "target@target tenant slot made pending delivered failed dropped discarded skipped",
			where: "x.tenant = $tenant"},
		{table: "total", columns: `at target@target tenant slot whole delivered failed dropped discarded skipped retried first attempts latency
			cells`, key: "at, target, tenant, slot, whole", where: "x.target = ANY($targets) AND x.tenant = $tenant"},
		{table: "total_type", columns: `at tenant type slot whole delivered failed dropped discarded skipped retried first attempts latency
			cells`, key: "at, tenant, type, slot, whole", where: "x.tenant = $tenant"},
		{table: "known", columns: knownFields.moving(), where: "x.kind = ANY($kinds)",
			from: "(SELECT key, seq, sum, until, accepted, made, event, coalesce(kind, (SELECT kind FROM event WHERE seq = known.seq)) AS kind FROM known)"},
		{table: "aside", columns: "id tenant source why at event content_type size packed sum intake body", where: "x.tenant = $tenant"},
		{table: "audit", columns: "seq@entry " + auditFields.moving(),
			where: "x.tenant = $tenant AND x.seq BETWEEN $first AND $last"},
		{table: "answer", columns: answerFields.moving(), where: `x.key IN (SELECT a.key FROM unnest($keys) k
			JOIN answer a ON a.key >= k COLLATE "C" || '/' AND a.key < k COLLATE "C" || '0')`}, // the range of keys that begin with k and a slash
	}
	staying = []string{"grapnel_schema", "configuration", "tenancy", "ledger", "target", "kind", "shard", "node", "peer", "id_key",
		"event_name", "event_named", // filled by the inserts into event
		// of versions that the other store never had; an arrival makes its nodes read the whole
		// configuration
		"configuration_change", "configuration_change_type"}
)

// owned says which rows of a database belong to a tenant.
type owned struct {
	tenant      string
	kinds       map[int32]kind
	targets     map[int32]string
	keys        []string
	first, last int64 // range of its audit entries
}

const (
	kindsOf   = "SELECT number, tenant, type, source FROM kind WHERE tenant = $1"
	targetsBy = "SELECT number, endpoint FROM target WHERE number IN (" + targetsOf +
		" UNION SELECT unnest(targets) FROM tenancy WHERE tenant = $1)"
	keysOfThat = "SELECT id FROM api_key WHERE tenant = $1 UNION SELECT unnest(keys) FROM tenancy WHERE tenant = $1"
	entriesOf  = "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM audit WHERE tenant = $1"
)

// find reads the tenant's kinds, targets, keys and audit range.
func find(ctx context.Context, tx pgx.Tx, tenant string) (*owned, error) {
	o := &owned{tenant: tenant, kinds: make(map[int32]kind), targets: make(map[int32]string),
		keys: []string{store.PassKeys(tenant)}}
	var number int32
	var k kind
	var endpoint string
	for _, q := range []struct {
		sql  string
		into []any
		take func()
	}{
		{kindsOf, []any{&number, &k.tenant, &k.eventType, &k.source}, func() { o.kinds[number] = k }},
		{targetsBy, []any{&number, &endpoint}, func() { o.targets[number] = endpoint }},
		{keysOfThat, []any{&endpoint}, func() { o.keys = append(o.keys, endpoint) }},
		{entriesOf, []any{&o.first, &o.last}, func() {}},
	} {
		if err := ask(ctx, tx, q.sql, tenant).each(q.into, q.take); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// fill puts the values into SQL text, because COPY takes no parameters.
func (o *owned) fill(sql string) string {
	return strings.NewReplacer("$tenant", literal(o.tenant), "$kinds", integers(sortedKeys(o.kinds, cmp.Compare[int32])),
		"$targets", integers(sortedKeys(o.targets, cmp.Compare[int32])),
		"$keys", "ARRAY["+strings.Join(column(o.keys, literal), ",")+"]::text[]",
		"$first", strconv.FormatInt(o.first, 10), "$last", strconv.FormatInt(o.last, 10)).Replace(sql)
}

// literal is SQL for a text, in which no character has a meaning.
func literal(text string) string {
	return "convert_from(decode('" + hex.EncodeToString([]byte(text)) + "', 'hex'), 'UTF8')"
}

func integers(numbers []int32) string {
	return "'{" + strings.Join(column(numbers, func(n int32) string { return strconv.Itoa(int(n)) }), ",") + "}'::int[]"
}

func (m *moving) names() (names []string) {
	for column := range strings.FieldsSeq(m.columns) {
		name, _, _ := strings.Cut(column, "@")
		names = append(names, name)
	}
	return names
}

// here selects a tenant's rows unchanged.
func (m *moving) here(of *owned) string {
	return of.fill("SELECT x." + strings.Join(m.names(), ", x.") + " FROM " + m.source() + " x WHERE " + m.where)
}

func (m *moving) source() string { return cmp.Or(m.from, m.table) }

// there selects a tenant's rows as they become in the other database.
func (m *moving) there(of *owned, by *shifts) string {
	var columns []string
	joins := ""
	for column := range strings.FieldsSeq(m.columns) {
		name, what, _ := strings.Cut(column, "@")
		value := "x." + name
		offset, shifts := by.offsets[what]
		switch {
		case what == "":
		case shifts:
			value = fmt.Sprintf("CASE WHEN %[1]s = 0 THEN 0 ELSE %[1]s + %[2]d END::bigint", value, offset)
		case what == "target":
			joins += by.join(by.targets, value, "t")
			value = "t.new"
		case what == "kind":
			joins += by.join(by.kinds, value, "k")
			value = "k.new"
		case what == "id":
			value = shiftedID(value, by.offsets["delivery"])
		case what == "tenant":
			value = "$tenant"
		case what == "document":
			value = shiftedDocument(value, by.offsets["delivery"])
		default:
			panic("postgres: unknown kind of value in column " + column)
		}
		columns = append(columns, value+" AS "+name)
	}
	return of.fill("SELECT " + strings.Join(columns, ", ") + " FROM " + m.source() + " x" + joins + " WHERE " + m.where)
}

// shifts are the offsets of row ids by kind, and the new numbers of targets and kinds. Offsets keep
// the order, and are small so that ids keep their day (movenumbers.go).
type shifts struct {
	offsets        map[string]int64
	targets, kinds map[int32]int32
}

// join looks numbers up. An unknown one becomes NULL, which no column of numbers accepts.
func (s *shifts) join(numbers map[int32]int32, value, as string) string {
	old := sortedKeys(numbers, cmp.Compare[int32])
	return fmt.Sprintf(" LEFT JOIN unnest(%s, %s) %s(old, new) ON %[3]s.old = %[4]s", integers(old),
		integers(column(old, func(n int32) int32 { return numbers[n] })), as, value)
}

// alphabet is the alphabet of ids.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// shiftedID changes the row id inside a delivery's public id (grapnel.PlainDeliveryID). The id is
// 128 bits, 5 per character; the row id has 16 bits behind it. A text that is no such id stays.
func shiftedID(value string, by int64) string {
	return fmt.Sprintf(`CASE WHEN %[1]s !~ '^%[2]s_[0-7][0-9a-hjkmnp-tv-z]{25}$' THEN %[1]s ELSE (
		SELECT '%[2]s_' || string_agg(substr('%[3]s', (div(n.bits, 32::numeric ^ (26 - i)) %% 32)::int + 1, 1), '' ORDER BY i)
		FROM (SELECT sum((strpos('%[3]s', substr(%[1]s, %[4]d + i, 1)) - 1) * 32::numeric ^ (26 - i)) + %[5]d::numeric * 65536 AS bits
			FROM generate_series(1, 26) i) n, generate_series(1, 26) i) END`, value, grapnel.DeliveryPrefix, alphabet, len(grapnel.DeliveryPrefix)+1, by)
}

// shiftedDocument changes the row ids inside a replay's document. A quote inside one of its texts
// is escaped by a backslash, so the pattern matches only the field.
func shiftedDocument(value string, by int64) string {
	return fmt.Sprintf(`(SELECT CASE WHEN list IS NULL THEN %[1]s ELSE convert_to(replace(document, '"deliveries":[' || list || ']', '"deliveries":[' ||
			(SELECT string_agg((n::bigint + %[2]d)::text, ',' ORDER BY place) FROM unnest(string_to_array(list, ',')) WITH ORDINALITY u(n, place)) || ']'), 'UTF8') END
		FROM (SELECT document, substring(document from '"deliveries":\[([0-9,]+)\]') AS list FROM (SELECT convert_from(%[1]s, 'UTF8') AS document) d) l)`, value, by)
}

// digest is the number of rows and the sum of their hashes. Each database computes it itself, with
// the functions that partitioning by hash uses, which give the same value in every database.
type digest struct {
	rows int64
	sum  string
}

const digestOf = "SELECT count(*), coalesce(sum(hash_record_extended(q, 0)::numeric), 0)::text FROM (%s) q"

func digestRows(ctx context.Context, tx pgx.Tx, rows string) (d digest, err error) {
	err = tx.QueryRow(ctx, fmt.Sprintf(digestOf, rows), pgx.QueryExecModeSimpleProtocol).Scan(&d.rows, &d.sum)
	return d, err
}

// left is a table that has rows of a tenant; empty: none has. Audit entries are not searched: they
// may be about the tenant's moves.
func left(ctx context.Context, tx pgx.Tx, of *owned) (string, error) {
	for i := range movings {
		m := &movings[i]
		if slices.Contains([]string{"audit", "standing"}, m.table) {
			continue
		}
		var some bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS ("+m.here(of)+")", pgx.QueryExecModeSimpleProtocol).Scan(&some); err != nil || some {
			return m.table, err
		}
	}
	return "", nil
}
