package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Pooler is PgBouncer in front of a server. It gives each transaction any free connection, so no
// state of a session survives a transaction.
type Pooler struct {
	server  *Server
	running escort
}

// poolerPort is part of the socket's name; nothing listens on the network.
const poolerPort = "6432"

const poolerSettings = `[databases]
* = host=%[1]s user=postgres
[pgbouncer]
listen_addr =
listen_port = ` + poolerPort + `
unix_socket_dir = %[1]s
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
logfile = %[1]s/pooler.log
`

// beside runs a program until its own input ends. A pooler ends by no gentler signal while it has
// clients.
const beside = `"$@" </dev/null &
program=$!
read -r last
kill -KILL $program 2>/dev/null
wait $program`

// NewPooler starts a pooler with four connections per database.
func (s *Server) NewPooler(ctx context.Context) (*Pooler, error) {
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			return nil, err
		}
	}
	settings := filepath.Join(s.dir, "pooler.ini")
	if err := os.WriteFile(settings, fmt.Appendf(nil, poolerSettings, s.dir), 0o600); err != nil {
		return nil, err
	}
	if err := s.own(settings); err != nil {
		return nil, err
	}
	p := &Pooler{server: s}
	shell := s.command(context.WithoutCancel(ctx), "/bin/sh", "-c", beside, "beside", path, "-q", settings)
	if err := p.running.start(shell); err != nil {
		return nil, err
	}
	if err := answers(ctx, p.URL("postgres")); err != nil {
		return nil, errors.Join(fmt.Errorf("the pooler does not start: %w", err), p.Close())
	}
	return p, nil
}

// URL is the address of a database through the pooler.
func (p *Pooler) URL(database string) string { return p.server.at(database, poolerPort) }

// Close ends the pooler.
func (p *Pooler) Close() error { return p.running.end("") }
