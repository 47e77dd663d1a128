package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grapnelhq/grapnel/internal/store/postgres/inclear"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

// connect creates the pools, after it has found out whether the database is behind a pooler. It
// opens no connection of theirs.
func (s *connections) connect(ctx context.Context, url string, dial pgconn.DialFunc) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	c := &s.bounds.Conns
	direct := config.ConnConfig
	limitConnecting(direct, c.Patience)
	if direct.DialFunc = dial; dial == nil {
		direct.DialFunc = dialer(c.Patience).DialContext
	}
	pooled := Unprepared(direct)
	if !pooled {
		first := direct.Copy()
		if err := s.password.give(ctx, first); err != nil {
			return err
		}
		if pooled, err = behindPooler(ctx, first, c.Patience); err != nil {
			return err
		}
		if pooled {
			direct.DefaultQueryExecMode = pgx.QueryExecModeExec
			s.log.Info("database is behind a pooler; statements are not prepared and connections get no settings")
		}
	}
	config.ShouldPing = s.ping
	config.BeforeConnect = s.password.give
	config.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		rows.PlanArrays(conn.TypeMap())
		return nil
	}
	// Reads are described and not prepared, so that each is planned for its own arguments.
	add := func(most int, within, limit time.Duration, cached pgx.QueryExecMode) *pool {
		config := config.Copy()
		config.MaxConns, config.MinConns, config.MinIdleConns = int32(most), 0, 0
		if config.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
			config.ConnConfig.DefaultQueryExecMode = cached
		}
		p := &pool{of: s, within: within, identify: pooled}
		settings := ""
		if pooled { // settings of a pooler's connection would affect other clients
			p.limit = milliseconds(limit)
		} else {
			settings = s.settings(limit)
			if cached == pgx.QueryExecModeCacheStatement {
				settings += plannedOnce
			}
		}
		config.ConnConfig.ValidateConnect = s.validate(direct, config.ConnConfig.ValidateConnect, settings, pooled)
		conns, failed := pgxpool.NewWithConfig(ctx, config)
		if err = errors.Join(err, failed); failed == nil {
			p.Pool, s.pools = conns, append(s.pools, p)
		}
		return p
	}
	// The database ends a slow statement shortly before the deadline, and its connection stays usable.
	// So a statement that reaches the deadline has lost its database.
	within := c.Patience * 9 / 10
	s.owning = add(c.Ownership, c.Patience, within, pgx.QueryExecModeCacheDescribe)
	s.pool = add(c.Engine, c.Patience, within, pgx.QueryExecModeCacheDescribe)
	s.reading = add(c.Reads, c.Reading*10/9, c.Reading, pgx.QueryExecModeCacheDescribe)
	s.writing = add(c.Writes, c.Patience, within, pgx.QueryExecModeCacheStatement)
	s.chores = &pool{Pool: s.reading.Pool, of: s, limit: "0", identify: pooled}
	return err
}

// Unprepared says whether a connection prepares no statements by itself.
func Unprepared(config *pgx.ConnConfig) bool {
	return config.DefaultQueryExecMode == pgx.QueryExecModeExec || config.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol
}

// behindPooler says whether the database of a configuration is behind a pooler.
func behindPooler(ctx context.Context, config *pgx.ConnConfig, patience time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, &config.Copy().Config)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(ctx) }()
	return Pooled(ctx, conn)
}

// Pooled says whether a connection leads to a pooler, which may run each transaction over another
// server connection: statements prepared in one transaction do not exist in the next. A server
// tells each connection the number of its process, for cancel requests. A pooler tells an invented
// number, because the process changes during the connection's life.
func Pooled(ctx context.Context, conn *pgconn.PgConn) (bool, error) {
	row, err := askOne(ctx, conn, "SELECT "+process)
	return err == nil && !isProcess(conn, row[0]), err
}

// process is the number of the server process of the connection.
const process = "pg_backend_pid()"

func isProcess(conn *pgconn.PgConn, number []byte) bool {
	return string(number) == strconv.FormatUint(uint64(conn.PID()), 10)
}

// errPooler is the error of a connection through a pooler if there was none when the store was
// opened.
var errPooler = errors.New("postgres: a pooler was put before the database; restart the node")

// settings are valid for the whole life of a connection. The database ends statements that exceed
// the limit, transactions whose node is silent, and connections whose machine is silent. Otherwise
// a transaction that received half of its statements would wait for the rest without limit, and
// keep its locks. JIT is off: it would compile a part for each table of each day before it reads
// one row, for seconds if there are many days, and a statement that is compiled cannot be ended.
func (s *connections) settings(limit time.Duration) string {
	c := &s.bounds.Conns
	every := strconv.Itoa(int(keepAlive(c.Patience).Interval.Seconds()))
	return "SET jit = off; SET statement_timeout = " + milliseconds(limit) +
		"; SET idle_in_transaction_session_timeout = " + milliseconds(c.Idle) +
		"; SET tcp_keepalives_idle = " + every + "; SET tcp_keepalives_interval = " + every +
		"; SET tcp_keepalives_count = " + strconv.Itoa(probes) + "; SET tcp_user_timeout = " + milliseconds(c.Patience) + "; "
}

// limitConnecting bounds the time for a connection, such that all hosts of the URL can be tried
// within the patience.
func limitConnecting(config *pgx.ConnConfig, patience time.Duration) {
	most := patience / time.Duration(1+len(config.Fallbacks))
	if len(config.Fallbacks) > 0 {
		most = most * 9 / 10
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > most {
		config.ConnectTimeout = most
	}
}

// dialer opens connections that break when the other machine is silent for the patience, whether it
// owes an answer or an acknowledgement. The kernel's own limits are a quarter of an hour.
func dialer(patience time.Duration) *net.Dialer {
	return &net.Dialer{KeepAliveConfig: keepAlive(patience), Control: unacknowledged(patience)}
}

// probes is the number of unanswered probes that end a connection.
const probes = 3

func keepAlive(patience time.Duration) net.KeepAliveConfig {
	every := max(patience/(probes+1), time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: every, Interval: every, Count: probes}
}

// validate returns the check of each new connection: the identity of its database, and whether it
// leads through a pooler. It refuses a standby, so that the next host of the URL is tried.
func (s *connections) validate(direct *pgx.ConnConfig, also pgconn.ValidateConnectFunc, settings string,
	pooled bool) pgconn.ValidateConnectFunc {
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := s.refusal(); err != nil {
			return err
		}
		if also != nil {
			if err := also(ctx, conn); err != nil {
				return err
			}
		}
		if inclear.Crosses(conn.Conn()) && !s.warned.Swap(true) {
			s.log.Warn("database connection without TLS to another host; payloads and secrets cross the network in clear",
				"host", direct.Host, "address", conn.Conn().RemoteAddr().String(), "remedy", inclear.Remedy)
		}
		before := s.mark()
		row, err := askOne(ctx, conn, settings+"SELECT "+process+", "+s.identity())
		if unidentified(err) && !s.blind.Swap(true) {
			s.log.Warn("the database does not say which one it is; a failover is noticed by its numbers alone", "err", err)
		}
		if unidentified(err) {
			row, err = askOne(ctx, conn, settings+"SELECT "+process+", "+s.identity())
		}
		if err != nil {
			return err
		}
		if !pooled && !isProcess(conn, row[0]) {
			return errPooler
		}
		is, err := parseIdentity(row[1:])
		if err != nil {
			return err
		}
		return s.look(is, before)
	}
}

// askOne returns the one row that the last of several statements returns.
func askOne(ctx context.Context, conn *pgconn.PgConn, sql string) ([][]byte, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 || len(results[len(results)-1].Rows) != 1 {
		return nil, fmt.Errorf("postgres: the identity query returned %d results", len(results))
	}
	return results[len(results)-1].Rows[0], nil
}

// Check says whether a text is the URL of a database. It makes no connection.
func Check(url string) error {
	if _, err := pgxpool.ParseConfig(url); err != nil {
		return errors.New("postgres: the URL of the database cannot be read") // the error repeats the URL, which has a password
	}
	return nil
}
