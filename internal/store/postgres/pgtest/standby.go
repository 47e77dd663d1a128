package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Standby is a server that follows another one until it is promoted. It receives the log through
// Link, so that network faults can affect replication.
type Standby struct {
	*Server
	Link    *Proxy
	primary *Server
}

// Standby copies a running server and starts the copy as its standby. If sync is true, no commit of
// the primary returns before the standby has synced it.
func (s *Server) Standby(ctx context.Context, sync bool) (*Standby, error) {
	dir, err := directory(s.options.Parent)
	if err != nil {
		return nil, err
	}
	b := &Standby{Server: &Server{dir: dir, bin: s.bin, options: s.options, identity: s.identity}, primary: s}
	if err := b.follow(ctx, sync); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// follow copies the primary, starts the copy as a standby, and waits until it follows.
func (b *Standby) follow(ctx context.Context, sync bool) (err error) {
	if err := b.primary.own(b.dir); err != nil {
		return err
	}
	if b.Link, err = b.primary.NewProxy(); err != nil {
		return err
	}
	if err := b.primary.copy(ctx, b.data()); err != nil {
		return err
	}
	host, port, _ := strings.Cut(b.Link.Addr(), ":")
	signal := filepath.Join(b.data(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	if err := b.primary.own(signal); err != nil {
		return err
	}
	following := fmt.Sprintf("host=%s port=%s user=postgres sslmode=disable gssencmode=disable application_name=standby", host, port)
	if err := b.Start(ctx, "primary_conninfo="+following, "wal_retrieve_retry_interval=200ms"); err != nil {
		return err
	}
	if err := b.primary.until(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')"); err != nil {
		return fmt.Errorf("the standby does not follow: %w: %s", err, b.lastWords())
	}
	if !sync {
		return nil
	}
	// This comes last: before, the first commit would wait for ever. The copy has no such setting, so
	// it waits for no standby once it is promoted.
	if err := b.primary.Exec(ctx, "ALTER SYSTEM SET synchronous_standby_names = 'standby'"); err != nil {
		return err
	}
	if err := b.primary.Exec(ctx, "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	return b.primary.until(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
}

// CaughtUp waits until the standby has replayed every commit of the primary so far.
func (b *Standby) CaughtUp(ctx context.Context) error {
	at, err := b.primary.Ask(ctx, "SELECT pg_current_wal_flush_lsn()::text")
	if err != nil {
		return err
	}
	return b.until(ctx, "SELECT pg_last_wal_replay_lsn() >= '"+at+"'::pg_lsn")
}

// Promote makes the standby a separate server that takes writes, whatever the primary does.
func (b *Standby) Promote(ctx context.Context) error {
	if err := b.Exec(ctx, "SELECT pg_promote(true, 60)"); err != nil {
		return err
	}
	return b.until(ctx, "SELECT NOT pg_is_in_recovery()")
}

// Stop ends the standby and removes its directory.
func (b *Standby) Stop() error {
	err := b.Server.Stop()
	if b.Link != nil {
		err = errors.Join(err, b.Link.Close())
	}
	return err
}

// copy copies the running server's data into a directory in which a server can start.
func (s *Server) copy(ctx context.Context, to string) error {
	return s.run(ctx, filepath.Join(s.bin, "pg_basebackup"), "--host="+s.dir, "--username=postgres", "--pgdata="+to,
		"--checkpoint=fast", "--wal-method=stream", "--no-sync")
}

// Save stores a copy of the current data and replaces any earlier one.
func (s *Server) Save(ctx context.Context) error {
	if err := os.RemoveAll(s.saved()); err != nil {
		return err
	}
	return s.copy(ctx, s.saved())
}

// Restore kills the server and starts it again with the data of the last Save, like an operator who
// restores a backup. Identity and timeline are unchanged; commits after Save are lost.
func (s *Server) Restore(ctx context.Context) error {
	if err := s.Kill(); err != nil {
		return err
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	if err := s.run(ctx, "cp", "-a", s.saved(), s.data()); err != nil {
		return err
	}
	return s.Start(ctx)
}

func (s *Server) saved() string { return filepath.Join(s.dir, "saved") }

// until waits until a question is answered with true.
func (s *Server) until(ctx context.Context, question string) error {
	err := until(ctx, func(ctx context.Context) (bool, error) {
		answer, err := s.Ask(ctx, "SELECT ("+question+")::text")
		return err != nil || answer == "true", err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", question, err)
	}
	return nil
}
