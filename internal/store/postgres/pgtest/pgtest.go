// Package pgtest starts a private PostgreSQL for tests: a new cluster in a directory of its own,
// reached only through a socket in that directory. It needs no preparation and touches nothing else
// on the machine.
//
// A server ends with its owner, however that ends: a shell that holds a pipe to the owner stops the
// server when the pipe closes, and removes the directory. Servers keep their default of syncing
// every commit. The directory is in memory if the machine has such a file system, so a sync costs
// little; a test about disks chooses its directory (Options.Parent).
//
// PostgreSQL refuses to run as root. If the tests run as root, the server runs as the user postgres
// or, if there is none, as the user with the fewest rights.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options say how to start a server. The zero value has good defaults.
type Options struct {
	Parent   string            // parent of the server's directory; empty: in memory, or the one for temporary files
	Settings map[string]string // of the server, such as max_connections
}

// Server is a running PostgreSQL.
type Server struct {
	dir      string
	bin      string // directory of initdb and postgres
	options  Options
	identity *syscall.SysProcAttr // nil: the user that runs the tests
	running  escort
}

// Start creates a cluster and starts its server.
func Start(ctx context.Context, o Options) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, options: o}
	if s.dir, err = directory(o.Parent); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// For starts a server for a test and stops it at the test's end.
func For(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// programs finds the directory PGTEST_BIN, or else the newest PostgreSQL of Debian's, which is not
// in the path, or else the one in the path.
func programs() (string, error) {
	if chosen := os.Getenv("PGTEST_BIN"); chosen != "" {
		return chosen, nil
	}
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	if len(installed) > 0 {
		newest := slices.MaxFunc(installed, func(a, b string) int { return version(a) - version(b) })
		return filepath.Dir(newest), nil
	}
	found, err := exec.LookPath("postgres")
	if err != nil {
		return "", errors.New("these tests need PostgreSQL: apt-get install postgresql")
	}
	found, err = filepath.EvalSymlinks(found)
	return filepath.Dir(found), err
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

func directory(parent string) (string, error) {
	if parent == "" {
		if dir, err := os.MkdirTemp("/dev/shm", "grapnel-pg"); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp(parent, "grapnel-pg") // a socket's path may have about a hundred bytes
}

// humble makes the server's directory, and every program of the server, a user's who is not root.
func (s *Server) humble() error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid, err := unprivileged()
	if err != nil {
		return err
	}
	s.identity = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return s.own(s.dir)
}

// prepare creates the cluster.
func (s *Server) prepare(ctx context.Context) error {
	if err := s.humble(); err != nil {
		return err
	}
	// The cluster is removed with the test, so creating it needs no sync. Commits do.
	return s.run(ctx, filepath.Join(s.bin, "initdb"), "--pgdata="+s.data(), "--username=postgres", "--auth=trust", "--encoding=UTF8",
		"--locale=C", "--no-sync")
}

func unprivileged() (uid, gid uint32, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, lookup := user.Lookup(name)
		if err = lookup; err != nil {
			continue
		}
		id, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return 0, 0, err
		}
		group, err := strconv.ParseUint(u.Gid, 10, 32)
		return uint32(id), uint32(group), err
	}
	return 0, 0, err
}

func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, s.identity
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	return cmd
}

// run runs a program to its end. Its error has what the program said.
func (s *Server) run(ctx context.Context, name string, args ...string) error {
	if said, err := s.command(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, said)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// guard runs the server until its own input ends. Then it removes the directory, unless the last
// input was "keep".
const guard = `dir=$1; shift
"$@" >>"$dir/log" 2>&1 &
server=$!
read -r last
kill -QUIT $server 2>/dev/null
kill -CONT $server 2>/dev/null
wait $server
[ "$last" = keep ] || rm -rf "$dir"`

// Start starts the server with its data, and with more settings.
func (s *Server) Start(ctx context.Context, more ...string) error {
	settings := map[string]string{
		"listen_addresses": "", "unix_socket_directories": s.dir, "max_connections": "200", "shared_buffers": "64MB",
		"logging_collector": "off", "cluster_name": "grapnel-test", "dynamic_shared_memory_type": "mmap", // inside the directory
	}
	maps.Copy(settings, s.options.Settings)
	args := []string{"-c", guard, "guard", s.dir, filepath.Join(s.bin, "postgres"), "-D", s.data()}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	for _, setting := range more {
		args = append(args, "-c", setting)
	}
	// The server outlives the context it is started with; Stop ends it.
	if err := s.running.start(s.command(context.WithoutCancel(ctx), "/bin/sh", args...)); err != nil {
		return err
	}
	if err := answers(ctx, s.URL("postgres")); err != nil {
		return fmt.Errorf("PostgreSQL does not start: %w: %s", err, s.lastWords())
	}
	return nil
}

// answers waits until a connection to a URL succeeds.
func answers(ctx context.Context, url string) error {
	return until(ctx, func(ctx context.Context) (bool, error) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return false, err
		}
		return true, conn.Close(ctx)
	})
}

// until asks again and again until the answer is yes, at most for a minute. Its error has the last
// one.
func until(ctx context.Context, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		yes, err := ask(ctx)
		if yes {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// lastWords is the end of the server's log.
func (s *Server) lastWords() string {
	log, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// URL is the address of a database of the server.
func (s *Server) URL(database string) string { return s.at(database, "5432") }

// at is the URL of a database at one of the sockets in the server's directory.
func (s *Server) at(database, port string) string {
	u := url.URL{Scheme: "postgres", Path: "/" + database,
		RawQuery: url.Values{"host": {s.dir}, "port": {port}, "user": {"postgres"}}.Encode()}
	return u.String()
}

// Create creates an empty database and returns its URL.
func (s *Server) Create(ctx context.Context, database string) (string, error) {
	err := s.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize())
	return s.URL(database), err
}

// Exec runs a statement as the server's administrator.
func (s *Server) Exec(ctx context.Context, sql string) error {
	return s.connected(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

// Ask returns the single text that a query returns.
func (s *Server) Ask(ctx context.Context, sql string) (answer string, err error) {
	err = s.connected(ctx, func(conn *pgx.Conn) error { return conn.QueryRow(ctx, sql).Scan(&answer) })
	return answer, err
}

func (s *Server) connected(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(ctx))
}

// Crash ends the server at once, as a loss of power does except for the disk's own memory, and
// starts it again.
func (s *Server) Crash(ctx context.Context) error {
	if err := s.running.end("keep\n"); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Stop ends the server and removes its directory.
func (s *Server) Stop() error {
	return errors.Join(s.running.end(""), os.RemoveAll(s.dir))
}

// escort is a shell that runs a program until the shell's input ends: at the latest when the test's
// process ends.
type escort struct {
	shell *exec.Cmd
	input io.WriteCloser // nil: nothing runs
}

func (e *escort) start(shell *exec.Cmd) (err error) {
	e.shell = shell
	if e.input, err = shell.StdinPipe(); err != nil {
		return err
	}
	return shell.Start()
}

// end ends the input with a last text, and waits for the shell.
func (e *escort) end(last string) error {
	if e.input == nil {
		return nil
	}
	_, err := io.WriteString(e.input, last)
	err = errors.Join(err, e.input.Close())
	e.input = nil
	// The shell's exit status is that of its last command, which is meaningless.
	if wait := e.shell.Wait(); wait != nil && !errors.As(wait, new(*exec.ExitError)) {
		err = errors.Join(err, wait)
	}
	return err
}

// own makes the server's user the owner of a file.
func (s *Server) own(path string) error {
	if s.identity == nil {
		return nil
	}
	return os.Chown(path, int(s.identity.Credential.Uid), int(s.identity.Credential.Gid))
}
