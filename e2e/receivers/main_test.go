//go:build linux

package receivers

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// root is the root of the repository, and scratch is the directory of what the tests share.
var (
	root      string
	scratch   string
	databases *Databases
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if root, err = os.Getwd(); err != nil {
		return 1, err
	}
	root += "/../.."
	if scratch, err = os.MkdirTemp("", "grapnel-receivers"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if databases, err = Open(context.Background(), scratch); databases != nil {
		defer func() { _ = databases.Close() }()
	}
	if err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// prepared is a receiver of a row with an empty database.
func prepared(t *testing.T, row Row, mode, store string, env ...string) *Receiver {
	t.Helper()
	command, err := row.Prepare(scratch, root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	dsn, err := databases.DSN(t.Context(), store, dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(dir, command, append([]string{"MODE=" + mode, "STORE=" + store, "DSN=" + dsn}, env...)...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// begin starts a receiver of a row with an empty database, and stops it at the test's end.
func begin(t *testing.T, row Row, mode, store string, env ...string) *Receiver {
	t.Helper()
	r := prepared(t, row, mode, store, env...)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}
