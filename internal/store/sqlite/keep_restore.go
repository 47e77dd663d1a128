package sqlite

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/lock"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Restore makes the database at path from a backup, after verifying it. use may read and write the
// new database, before any server can open it.
//
// Everything happens to a file of another name, which gets its own name once it is complete and
// synced: a kill at any moment leaves no database or a complete one. A path with a database is
// refused.
func Restore(ctx context.Context, backup io.Reader, path string, o Options, use func(*Store) error) (err error) {
	if err := vacant(path); err != nil {
		return err
	}
	held, err := lock.Own(path + ".lock")
	if err != nil {
		return err
	}
	part := path + unfinished
	remove := func() {
		for _, suffix := range []string{"", "-wal", "-shm", "-journal", ".journal", ".data", ".ballast", ".lock"} {
			_ = os.Remove(part + suffix)
		}
	}
	remove() // of a restore that was interrupted
	defer func() {
		remove()
		if err != nil {
			_ = os.Remove(path + ".lock")
		}
		err = errors.Join(err, held.Close())
	}()
	if err := copyBackup(ctx, backup, part); err != nil {
		return err
	}
	if err := verifyBackup(ctx, part); err != nil {
		return err
	}
	o.Ballast = -1
	s, err := Open(ctx, part, o)
	if err != nil {
		return err
	}
	if err = s.verifyRows(ctx); err == nil {
		err = use(s)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	conn, err := connect(part, sqlite3.ReadWrite, 64)
	if err != nil {
		return err
	}
	if err := closeSingle(conn, standsAlone(conn)); err != nil {
		return err
	}
	return errors.Join(vacant(path), syncFile(part), os.Rename(part, path), syncFile(filepath.Dir(path)))
}

// vacant fails if a database is at path, or a part of one.
func vacant(path string) error {
	for _, suffix := range []string{"", "-wal", ".journal", ".data"} {
		info, err := os.Lstat(path + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case info.Size() > 0 || !info.Mode().IsRegular():
			return grapnel.Errorf(grapnel.CodeConflict, "%s exists already; a restore goes to a directory without a database: "+
				"move the earlier one away first", path+suffix)
		}
	}
	return nil
}

// copyBackup copies a backup to a new file.
func copyBackup(ctx context.Context, backup io.Reader, to string) error {
	if err := create(to); err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(f, backup, 8<<20)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// verifyBackup fails if a file is not a whole backup that this program can read.
func verifyBackup(ctx context.Context, path string) error {
	bad := func(format string, args ...any) error {
		return grapnel.Errorf(grapnel.CodeInvalid, "the file is not a complete backup: "+format, args...)
	}
	head := make([]byte, 20)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, failed := io.ReadFull(f, head)
	if err := f.Close(); err != nil {
		return err
	}
	switch {
	case failed != nil || string(head[:16]) != "SQLite format 3\x00":
		return bad("it is no database")
	case head[18] != 1: // see unmixed
		return bad("it is the file of a database, whose last writes may be in other files; make a backup of that database: " +
			"grapnel backup --store sqlite:PATH --to FILE")
	}
	conn, err := sqlite3.Open(path, sqlite3.ReadOnly)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, conn.Interrupt)()
	if err := owned(conn); grapnel.CodeOf(err) == grapnel.CodeConflict {
		return err
	} else if err != nil {
		return bad("%v", err)
	}
	found, err := rows.First(conn.Query("PRAGMA integrity_check(1)"), nil, func(q *sqlite3.Stmt) (string, error) { return q.String(0), nil })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || found != "ok" {
		return bad("%s", errors.Join(err, errors.New(found)))
	}
	status, err := missing(conn, migrations)
	if err != nil {
		return err
	}
	if status.Has == 0 {
		return bad("it is an empty database")
	}
	return standsAlone(conn)
}

// standsAlone fails if the tables need a journal or a file of data beside them.
func standsAlone(conn *sqlite3.Conn) error {
	needs, err := rows.One(conn, "SELECT count(*) FROM journal WHERE needed <> 0 OR data <> 0")
	if err == nil && needs > 0 {
		err = grapnel.Errorf(grapnel.CodeInvalid, "the file is not a complete backup: its last writes, or data of its events, "+
			"are in other files; make a backup of that database: grapnel backup --store sqlite:PATH --to FILE")
	}
	return err
}

// wrongRows count rows that contradict each other. A server trusts that there are none.
var wrongRows = []struct{ what, query string }{
	{"pending deliveries without their event",
		"SELECT count(*) FROM pending p WHERE NOT EXISTS (SELECT 1 FROM event WHERE seq = p.event)"},
	{"pending deliveries without their endpoint",
		`SELECT count(*) FROM pending p
			WHERE NOT EXISTS (SELECT 1 FROM target t JOIN endpoint e ON e.id = t.endpoint WHERE t.number = p.target)`},
	{"deliveries that are pending and finished",
		"SELECT count(*) FROM pending JOIN finished USING (seq)"},
	{"pending deliveries of another event than their row id and time say", // store.Identity
		`SELECT count(*) FROM pending p JOIN event e ON e.seq = p.event WHERE CASE WHEN p.seq >= e.first AND p.seq < e.first + e.made
			THEN p.created <> e.accepted ELSE NOT EXISTS (SELECT 1 FROM redelivery r WHERE r.delivery = p.seq AND r.event = p.event) END`},
	{"keys whose first delivery is not the only head",
		`SELECT count(*) FROM (SELECT min(position) AS lowest, sum(head) AS heads, min(CASE WHEN head = 1 THEN position END) AS first
			FROM pending WHERE position > 0 GROUP BY target, lane) WHERE heads <> 1 OR first <> lowest`},
	{"endpoints whose count of pending deliveries is wrong",
		`SELECT count(*) FROM (SELECT target, tenant, count(*) AS n FROM pending GROUP BY target, tenant
			EXCEPT SELECT target, tenant, n FROM tally WHERE status = 1)`},
	{"counts of all pending deliveries that are wrong",
		"SELECT (SELECT coalesce(sum(n), 0) FROM tally WHERE status = 1) <> (SELECT count(*) FROM pending)"},
	{"endpoints whose count of dead letters is wrong",
		`SELECT count(*) FROM (SELECT target, tenant, count(*) AS n FROM letter GROUP BY target, tenant
			EXCEPT SELECT target, tenant, letters FROM tally WHERE status = 1)`},
	{"counts of all dead letters that are wrong",
		"SELECT (SELECT coalesce(sum(letters), 0) FROM tally) <> (SELECT count(*) FROM letter)"},
}

// verifyRows fails if rows contradict each other, or if data of an event that is still to be sent
// do not match their checksum.
func (s *Store) verifyRows(ctx context.Context) error {
	for _, wrong := range wrongRows {
		n, err := rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (int64, error) { return rows.Integer(r.Query(wrong.query)) })
		if err != nil {
			return err
		}
		if n > 0 {
			return grapnel.Errorf(grapnel.CodeInvalid, "the backup is damaged: it has %d %s", n, wrong.what)
		}
	}
	for last := int64(0); ; {
		seqs, err := rows.Reading(ctx, s.read, func(r *sqlite3.Conn) ([]int64, error) {
			q := r.Query("SELECT seq, event FROM pending WHERE seq > ? ORDER BY seq LIMIT 256").Int(last)
			return rows.Each(q, func(q *sqlite3.Stmt) (int64, error) {
				last = q.Integer(0)
				return q.Integer(1), nil
			})
		})
		if err != nil || len(seqs) == 0 {
			return err
		}
		seqs = slices.Compact(seqs) // deliveries of one event stand side by side
		events, err := s.Events(ctx, seqs)
		if err != nil {
			return err
		}
		for i := range events {
			if events[i] == nil {
				return grapnel.Errorf(grapnel.CodeInvalid, "the backup is damaged: the data of event %d are not those that were accepted. "+
					"The backup was not complete when it was made, or the file was changed", seqs[i])
			}
		}
	}
}
