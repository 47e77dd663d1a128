package postgres

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// A node's memory is keyed by row ids and other numbers of the database: events, deliveries, names,
// epochs. A database that lost commits gives the same numbers a second time, to other objects. So a
// store must notice this before it reads any row of such a database, and then it must refuse every
// call.
//
// It checks each new connection. A PostgreSQL that was promoted, or restored to a point in time,
// has another timeline. One that was created anew has another system identifier. One whose files
// were restored has a shorter log. A connection to a writable server stays in one timeline until it
// breaks, so one check is enough. A pooler may lead each transaction elsewhere, so behind a pooler
// each transaction checks. Some changes leave the timeline and the log as they are, such as a dump
// loaded into the running server. Writers notice those: numbers that a transaction committed are
// never given again (checkNumbers).

// identity says which database a connection leads to, and how long its log is.
type identity struct {
	system   string // system identifier; empty: the server does not say
	timeline int64  // rises with each promotion
	log      int64  // bytes of log on disk: never falls within a timeline
	standby  bool
}

const (
	fullIdentity = `pg_is_in_recovery(),
		CASE WHEN pg_is_in_recovery() THEN '' ELSE (SELECT system_identifier::text FROM pg_control_system()) END,
		CASE WHEN pg_is_in_recovery() THEN 0 ELSE ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::bigint END,
		CASE WHEN pg_is_in_recovery() THEN 0 ELSE (pg_current_wal_flush_lsn() - '0/0')::bigint END`
	blindIdentity = "pg_is_in_recovery(), '', 0::bigint, 0::bigint"
)

func (i *identity) into() []any { return []any{&i.standby, &i.system, &i.timeline, &i.log} }

// parseIdentity parses a row of the simple protocol.
func parseIdentity(row [][]byte) (i identity, err error) {
	if len(row) != 4 {
		return identity{}, fmt.Errorf("postgres: the identity query returned %d columns", len(row))
	}
	i.standby, i.system = string(row[0]) == "t", string(row[1])
	var bad [2]error
	i.timeline, bad[0] = strconv.ParseInt(string(row[2]), 10, 64)
	i.log, bad[1] = strconv.ParseInt(string(row[3]), 10, 64)
	return i, errors.Join(bad[:]...)
}

// History is what a process has seen of a database, over several stores: a server opens a new store
// after the database went back, and must not accept the old primary then. The zero value has seen
// nothing.
type History struct {
	mu     sync.Mutex
	newest identity
	warned time.Time
}

// counters are the numbers that rise with each transaction.
type counters struct{ version, event, delivery int64 }

// highest are the highest numbers that transactions of this store have committed. Any later
// transaction gets higher ones.
type highest struct {
	mu sync.Mutex
	counters
}

func (h *highest) now() counters {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counters
}

func (h *highest) committed(n counters) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counters = counters{max(h.version, n.version), max(h.event, n.event), max(h.delivery, n.delivery)}
}
