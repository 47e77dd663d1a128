package sqlite

import (
	"strings"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// objectKind is a kind of configuration objects.
type objectKind int

const (
	endpoints objectKind = iota
	sources
	policies
	eventTypes
	keys
	accessRecords
)

// objectKinds say how errors call a kind and its names, and which columns its table has: the state
// of an object, and all of them in the order in which putObject binds them. Keys and access records
// have no names.
var objectKinds = [...]struct{ what, named, table, name, state, columns string }{
	endpoints:  {"endpoint", "queue", "endpoint", "queue", "tenant, revision, deleted", "id, tenant, body, revision, queue, deleted"},
	sources:    {"source", "source", "source", "name", "tenant, revision", "id, tenant, body, revision, name"},
	policies:   {"policy", "policy", "policy", "name", "tenant, revision", "id, tenant, body, revision, name"},
	eventTypes: {"event type", "event type", "event_type", "name", "tenant, revision", "id, tenant, body, revision, name"},
	keys:       {"key", "", "api_key", "", "tenant", "id, tenant, body"},

	accessRecords: {"access record", "", "access_record", "", "tenant", "id, tenant, body"},
}

// objects are the statements of a kind.
type objects struct{ row, named, set, drop *sqlite3.Stmt }

func (o *objects) all(kind int) []text {
	k := &objectKinds[kind]
	values := "?" + strings.Repeat(", ?", strings.Count(k.columns, ","))
	texts := []text{
		{&o.row, "SELECT " + k.state + " FROM " + k.table + " WHERE id = ?"},
		{&o.set, "INSERT INTO " + k.table + " (" + k.columns + ") VALUES (" + values + ") ON CONFLICT (id) DO UPDATE SET (" +
			k.columns + ") = (excluded." + strings.ReplaceAll(k.columns, ", ", ", excluded.") + ")"},
		{&o.drop, "DELETE FROM " + k.table + " WHERE id = ?"},
	}
	if k.name != "" {
		texts = append(texts, text{&o.named, "SELECT id FROM " + k.table + " WHERE tenant = ? AND " + k.name + " = ?"})
	}
	return texts
}

// text is the SQL of a statement.
type text struct {
	into **sqlite3.Stmt
	sql  string
}
