package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
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

// identity is the list of columns to select.
func (s *connections) identity() string {
	if s.blind.Load() {
		return blindIdentity
	}
	return fullIdentity
}

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

// unidentified says whether a server refuses to report its identity, as some hosted ones do.
func unidentified(err error) bool {
	return slices.Contains([]string{"0A000", "42501", "42883"}, stateOf(err)) // not supported, not allowed, no such function
}

// History is what a process has seen of a database, over several stores: a server opens a new store
// after the database went back, and must not accept the old primary then. The zero value has seen
// nothing.
type History struct {
	mu     sync.Mutex
	newest identity
	warned time.Time
}

var (
	errStandby = errors.New("postgres: the server is a standby")
	errOldLine = errors.New("postgres: the server is on an older timeline than one that this process has used")
)

// mark is a known length of the log; any later answer must be at least as long.
func (s *connections) mark() int64 {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return s.at.log
}

// look compares a connection's database with that of the store. before is the mark from before the
// question.
func (s *connections) look(is identity, before int64) error {
	if is.standby {
		return errStandby
	}
	if is.system == "" {
		return nil
	}
	h := s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if is.system == h.newest.system && is.timeline < h.newest.timeline {
		if now := s.now(); now.Sub(h.warned) > time.Minute {
			h.warned = now
			s.log.Error("connection refused: the server is an old primary; stop it, or restart this node if the server is the right one",
				"timeline", is.timeline, "newest", h.newest.timeline)
		}
		return errOldLine
	}
	switch {
	case s.at.system == "":
		s.at, h.newest = is, is
		return nil
	case is.system != s.at.system:
		return s.wentBack("system identifier %s, was %s", is.system, s.at.system)
	case is.timeline > s.at.timeline:
		return s.wentBack("timeline %d, was %d", is.timeline, s.at.timeline)
	case is.log < before:
		return s.wentBack("%d bytes of log, had %d", is.log, before)
	}
	s.at.log = max(s.at.log, is.log)
	return nil
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

// checkNumbers refuses numbers that were given before. were are the highest numbers committed at
// the beginning of the transaction.
func checkNumbers(t *tx, were counters) error {
	t.drawn = counters{version: t.version}
	if n := len(t.eventSeqs); n > 0 {
		if t.eventSeqs[0] <= were.event {
			return t.store.wentBack("event number %d was given again", t.eventSeqs[0])
		}
		t.drawn.event = t.eventSeqs[n-1]
	}
	if n := len(t.seqs); n > 0 {
		if t.seqs[0] <= were.delivery {
			return t.store.wentBack("delivery number %d was given again", t.seqs[0])
		}
		t.drawn.delivery = t.seqs[n-1]
	}
	return t.store.checkVersion(t.version, were)
}

func (s *connections) checkVersion(version int64, were counters) error {
	if version < were.version {
		return s.wentBack("configuration version %d, was %d", version, were.version)
	}
	return nil
}

// wentBack ends the store: every later call fails with store.ErrWentBack.
func (s *connections) wentBack(how string, args ...any) error {
	err := error(&grapnel.Error{
		Code: grapnel.CodeUnavailable, Detail: "the database is not the one that it was",
		Err: fmt.Errorf("%w: "+how, append([]any{store.ErrWentBack}, args...)...),
	})
	if s.lost.CompareAndSwap(nil, &err) {
		s.fatal <- err
		s.cancel()
	}
	return *s.lost.Load()
}

// refusal is the error of every call once the database went back.
func (s *connections) refusal() error {
	if err := s.lost.Load(); err != nil {
		return *err
	}
	return nil
}

// Fatal delivers the error after which the store refuses all calls; store.ErrWentBack is in its
// chain.
func (s *connections) Fatal() <-chan error { return s.fatal }
