// Command libraries compares Grapnel with foreign libraries. It runs the real binary on loopback,
// verifies its requests with the libraries of the standards, posts to it the requests that the
// providers' libraries sign, and writes docs/interop.md.
//
// Every version is pinned: go.mod, python/requirements.txt, node/package-lock.json, java/pom.xml,
// rust/Cargo.toml. Packages for languages other than Go are installed below the user's cache
// directory, once for each state of the pins. The command ends with 1 if a row fails. Its table has
// neither times nor durations, so two runs on one machine write the same page. It does not promise
// that a provider signs as its library does.
//
// The tests of this module are the part that needs only Go. Run them with "cd interop/libraries &&
// go test ./...".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	write := flag.Bool("write", false, "write docs/interop.md")
	record := flag.Bool("record", false, "only write the requests of the providers' libraries to internal/inbound/ingress/testdata/recorded")
	root := flag.String("root", "../..", "the root of the repository")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *root, *write, *record); err != nil {
		fmt.Fprintln(os.Stderr, "libraries:", err)
		stop()
		os.Exit(1)
	}
}

// lab is the environment of every check.
type lab struct {
	root     string // of the repository, absolute
	dir      string // scratch, removed at the end
	binary   string // the grapnel under test
	cache    string // where packages are installed
	python   string
	versions map[string]string // by language and package: "python stripe"
}

func run(ctx context.Context, root string, write, record bool) (err error) {
	l := &lab{}
	if l.root, err = filepath.Abs(root); err != nil {
		return err
	}
	if l.dir, err = os.MkdirTemp("", "grapnel-libraries-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if err := l.install(ctx); err != nil {
		return err
	}
	if record {
		return l.record(ctx)
	}
	if err := l.build(ctx); err != nil {
		return err
	}
	sections, err := l.sections(ctx)
	if err != nil {
		return err
	}
	page := render(sections)
	if write {
		if err := os.WriteFile(filepath.Join(l.root, pagePath), []byte(page), 0o644); err != nil { //nolint:gosec // a document
			return err
		}
	}
	if failed := report(os.Stdout, sections); failed > 0 {
		return fmt.Errorf("%d rows failed", failed)
	}
	return nil
}

// sections runs everything, in the order of the page.
func (l *lab) sections(ctx context.Context) ([]section, error) {
	var all []section
	for _, check := range []struct {
		name string
		run  func(context.Context) ([]section, error)
	}{{"sending and receiving, on SQLite", l.onSQLite}, {"the API of Svix", l.svixAPI}, {"agents", l.agents},
		{"published receivers", l.samples}, {"databases", l.databases}} {
		fmt.Fprintln(os.Stderr, "checking", check.name)
		found, err := check.run(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// onSQLite runs the checks that share one server.
func (l *lab) onSQLite(ctx context.Context) (all []section, err error) {
	s, err := l.serve(ctx, "sqlite:"+filepath.Join(l.dir, "grapnel.db"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	for _, check := range []func(context.Context, *server) ([]section, error){l.outgoing, l.incoming, l.streams, l.metrics} {
		found, err := check(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, s.words())
		}
		all = append(all, found...)
	}
	return all, nil
}
