// Package mariadbtest starts a private MariaDB for tests: a process of its own, on a port of
// loopback, with its data in a directory of its own. It touches nothing else on the machine.
//
// A server ends with its owner, however that ends: a shell that holds a pipe to the owner kills the
// server when the pipe closes, and removes the directory. Commits are synced; the directory is in
// memory if the machine has such a file system.
package mariadbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver
)

// Password is that of the user owner, who may do everything.
const Password = "of-the-owner"

// Server is a running MariaDB.
type Server struct {
	dir, port string
	settings  []string
	guard     *exec.Cmd
	input     io.WriteCloser
}

// Start creates the data and starts a server, with settings such as --ssl-cert=FILE.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	s := &Server{settings: settings}
	program, err := exec.LookPath("mariadb-install-db")
	if err != nil {
		return nil, errors.New("these tests need MariaDB: apt-get install mariadb-server")
	}
	if s.dir, err = os.MkdirTemp("/dev/shm", "grapnel-my"); err != nil {
		if s.dir, err = os.MkdirTemp("", "grapnel-my"); err != nil {
			return nil, err
		}
	}
	install := exec.CommandContext(ctx, program, "--no-defaults", "--datadir="+s.data(), "--skip-test-db", "--user="+user(),
		"--auth-root-authentication-method=normal", "--innodb-log-file-size=16M")
	said, err := install.CombinedOutput()
	if err == nil {
		users := fmt.Sprintf("CREATE USER IF NOT EXISTS owner@'%%' IDENTIFIED BY '%s';\n"+
			"GRANT ALL ON *.* TO owner@'%%' WITH GRANT OPTION;\n", Password)
		err = os.WriteFile(filepath.Join(s.dir, "init.sql"), []byte(users), 0o600)
	}
	if err == nil {
		s.port, err = port(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", err, said), os.RemoveAll(s.dir))
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// For starts a server for a test and stops it at the test's end.
func For(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Start(t.Context(), settings...)
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

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// user is who runs the server, which runs as root only when it is told so.
func user() string {
	if os.Getuid() == 0 {
		return "root"
	}
	return os.Getenv("USER")
}

// port is one of loopback that is free at the moment.
func port(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, p, err := net.SplitHostPort(l.Addr().String())
	return p, errors.Join(err, l.Close())
}

// guard runs the server until its own input ends. Then it kills it, and removes the directory
// unless the last input was "keep".
const guard = `dir=$1; shift
"$@" >>"$dir/log" 2>&1 &
server=$!
read -r last
kill -KILL $server 2>/dev/null
wait $server 2>/dev/null
[ "$last" = keep ] || rm -rf "$dir"`

func (s *Server) start(ctx context.Context) error {
	program, err := exec.LookPath("mariadbd")
	if err != nil {
		program = "/usr/sbin/mariadbd"
	}
	args := append([]string{"-c", guard, "guard", s.dir, program, "--no-defaults", "--datadir=" + s.data(), "--user=" + user(),
		"--bind-address=127.0.0.1", "--port=" + s.port, "--socket=" + s.Socket(), "--init-file=" + filepath.Join(s.dir, "init.sql"),
		"--skip-name-resolve", "--pid-file=" + filepath.Join(s.dir, "pid"), "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M",
		"--character-set-server=latin1", // the usual one of old databases: the outbox has its own
		"--innodb-flush-log-at-trx-commit=1", "--max-connections=200"}, s.settings...)
	s.guard = exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", args...)
	s.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the tests is not the server's
	if s.input, err = s.guard.StdinPipe(); err != nil {
		return err
	}
	if err := s.guard.Start(); err != nil {
		return err
	}
	db, err := sql.Open("mysql", fmt.Sprintf("owner:%s@tcp(127.0.0.1:%s)/", Password, s.port))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ; ; <-again.C {
		if err = db.PingContext(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("MariaDB does not start: %w: %s", err, log)
	}
	return nil
}

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "socket") }

// URL is the DSN of a database, as a source has it.
func (s *Server) URL(database string) string { return s.URLOf("owner", Password, database) }

// URLOf is the DSN of a database for a user.
func (s *Server) URLOf(user, password, database string) string {
	return fmt.Sprintf("mysql://%s:%s@127.0.0.1:%s/%s", user, password, s.port, database)
}

// Driver is the DSN of a database as the driver of database/sql, which is called mysql, takes it.
func (s *Server) Driver(database string) string {
	return fmt.Sprintf("owner:%s@tcp(127.0.0.1:%s)/%s", Password, s.port, database)
}

// Create creates a database and returns its URL.
func (s *Server) Create(ctx context.Context, database string) (url string, err error) {
	return s.URL(database), s.Exec(ctx, "CREATE DATABASE "+database)
}

// Exec executes statements, each by itself.
func (s *Server) Exec(ctx context.Context, statements ...string) error {
	db, err := sql.Open("mysql", s.Driver(""))
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if _, failed := db.ExecContext(ctx, statement); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", statement, failed))
		}
	}
	return errors.Join(err, db.Close())
}

// Crash kills the server with SIGKILL, and starts it again with its data.
func (s *Server) Crash(ctx context.Context) error {
	if err := s.end("keep"); err != nil {
		return err
	}
	return s.start(ctx)
}

// Stop ends the server and removes its data.
func (s *Server) Stop() error { return s.end("") }

func (s *Server) end(last string) error {
	if s.guard == nil || s.guard.Process == nil {
		return os.RemoveAll(s.dir)
	}
	_, err := io.WriteString(s.input, last+"\n")
	if wait := s.guard.Wait(); wait != nil && !strings.HasPrefix(wait.Error(), "exit status") {
		err = errors.Join(err, wait)
	}
	s.guard = nil
	return err
}
