package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store/postgres/inclear"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
	"github.com/grapnelhq/grapnel/internal/store/schema"
)

// Condition is what a database says about itself, for those who look for its faults.
type Condition struct {
	Version     int // as server_version_num: 150004
	Settings    map[string]string
	Standby     bool
	Clock       time.Time // of the database
	Asked, Told time.Time // of this machine, before and after Clock was read
	MayCreate   bool      // tables in the schema that Grapnel uses
	Connections int       // of all clients
	Most        int       // connections that clients without special rights may have
	Slots       []Slot    // replication slots that no standby uses
	Lags        []Lag     // standbys, as far as the role may see them
	InClear     bool      // the connection crosses a network without TLS
}

// Slot is a replication slot. While no standby uses it, the database retains its log.
type Slot struct {
	Name     string
	Retained int64 // bytes of log
}

// Lag is how far a standby is behind.
type Lag struct {
	Name  string
	Bytes int64
}

// Examined are the settings that a Condition has.
var Examined = []string{"fsync", "synchronous_commit", "full_page_writes", "autovacuum", "server_encoding"}

// Examine looks at the database of a URL over a connection of its own, and changes nothing.
func Examine(ctx context.Context, url string, password Password) (c Condition, err error) {
	_, err = alone(ctx, url, password, func(ctx context.Context, db rows.Queries, _ fs.FS) (schema.Status, error) {
		if conn, is := db.(*pgx.Conn); is {
			c.InClear = inclear.Crosses(conn.PgConn().Conn())
		}
		return schema.Status{}, c.read(ctx, db)
	})
	return c, err
}

func (c *Condition) read(ctx context.Context, db rows.Queries) error {
	c.Settings, c.Asked = map[string]string{}, time.Now()
	err := db.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&c.Clock)
	if c.Told = time.Now(); err != nil {
		return err
	}
	for _, name := range Examined {
		var value string
		if err := db.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value); err != nil {
			return fmt.Errorf("reading the setting %s: %w", name, err)
		}
		c.Settings[name] = value
	}
	err = db.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(),
		coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
		(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int,
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int`).
		Scan(&c.Version, &c.Standby, &c.MayCreate, &c.Connections, &c.Most)
	if err != nil || c.Standby { // a standby has no position of its own log
		return err
	}
	slots, err := db.Query(ctx, `SELECT slot_name::text, coalesce(pg_current_wal_lsn() - restart_lsn, 0)::bigint
		FROM pg_replication_slots WHERE NOT active ORDER BY 1`)
	if err != nil {
		return err
	}
	if c.Slots, err = pgx.CollectRows(slots, pgx.RowToStructByPos[Slot]); err != nil {
		return err
	}
	lags, err := db.Query(ctx, `SELECT application_name, (pg_current_wal_lsn() - replay_lsn)::bigint FROM pg_stat_replication
		WHERE replay_lsn IS NOT NULL ORDER BY 1`) // NULL for roles without pg_monitor
	if err != nil {
		return err
	}
	c.Lags, err = pgx.CollectRows(lags, pgx.RowToStructByPos[Lag])
	return err
}
