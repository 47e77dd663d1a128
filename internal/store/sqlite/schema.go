package sqlite

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/grapnelhq/grapnel/internal/store/schema"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// The schema is a row of steps forward, one file each, numbered from 1. A database knows which of
// them it has taken (grapnel_schema) and that it is Grapnel's (application_id).
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrateAt brings the database at path to the schema of this program. One without tables has no
// journal yet.
func migrateAt(path string, conn *sqlite3.Conn) error {
	if status, err := missing(conn, migrations); err != nil {
		return err
	} else if status.Has == 0 {
		if err := alone(path, ".journal", ".data"); err != nil {
			return err
		}
	}
	return migrate(conn, migrations, usable)
}

// missing returns how far a database is, and refuses one whose schema this program does not know.
func missing(conn *sqlite3.Conn, files fs.FS) (schema.Status, error) {
	taken, err := stepsTaken(conn)
	if err != nil {
		return schema.Status{}, err
	}
	return schema.Missing("", taken, files)
}

const (
	stepsTable = "CREATE TABLE IF NOT EXISTS grapnel_schema (step INTEGER PRIMARY KEY, name TEXT NOT NULL, sum TEXT NOT NULL)"
	takenQuery = "SELECT step, name, sum FROM grapnel_schema ORDER BY step"
)

// stepsTaken are the steps that a database has taken. An unreleased build stored no list of them in
// its databases; then the first step is one that no program knows.
func stepsTaken(conn *sqlite3.Conn) ([]schema.Taken, error) {
	listed, err := rows.One(conn, "SELECT count(*) FROM sqlite_schema WHERE name = 'grapnel_schema'")
	if err != nil {
		return nil, err
	}
	if listed == 0 {
		owner, err := rows.One(conn, "PRAGMA application_id")
		if owner == applicationID {
			return []schema.Taken{{Number: 1}}, err
		}
		return nil, err
	}
	return rows.Each(conn.Query(takenQuery), func(q *sqlite3.Stmt) (schema.Taken, error) {
		return schema.Taken{Number: int(q.Integer(0)), Name: q.String(1), Sum: q.String(2)}, nil
	})
}

// migrate brings a database to the schema of this program, or leaves it unchanged: the steps commit
// together, after check has accepted their result.
func migrate(conn *sqlite3.Conn, files fs.FS, check func(*sqlite3.Conn) error) (err error) {
	plan, err := missing(conn, files)
	if err != nil || len(plan.Steps) == 0 {
		return err
	}
	if err := conn.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil && conn.InTransaction() {
			_ = conn.Exec("ROLLBACK")
		}
	}()
	if err := conn.Exec(stepsTable); err != nil {
		return err
	}
	for _, step := range plan.Steps {
		record := fmt.Sprintf("INSERT INTO grapnel_schema VALUES (%d, '%s', '%s')", step.Number, step.Name, step.Sum)
		if err := conn.Exec(step.SQL + "\n;" + record); err != nil {
			return fmt.Errorf("step %d (%s): %w", step.Number, step.Name, err)
		}
	}
	if err := check(conn); err != nil {
		return fmt.Errorf("the database has a schema of its own, and is left as it was: %w", err)
	}
	return conn.Exec(fmt.Sprintf("PRAGMA application_id = %d; COMMIT", applicationID))
}

// usable says whether this program's statements can be prepared with the schema of a database.
func usable(conn *sqlite3.Conn) error {
	_, err := prepare(conn, 1)
	return err
}
