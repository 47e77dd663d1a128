package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// toolchain is a language that only verifies requests, and only if its tools are installed. The
// rest of the page needs Go, Python and Node, but not these.
type toolchain struct {
	language  string // as the page names it; its files are in the directory of that name in lower case
	tools     []string
	libraries []string
	fill      []string // run in the directory, once for each state of the files
	judge     []string // run in the directory; reads captures as JSON and writes tallies
}

var toolchains = []toolchain{
	{
		language: "Java", tools: []string{"mvn", "javac", "java"},
		libraries: []string{"com.standardwebhooks:standardwebhooks", "com.svix:svix"},
		fill:      []string{"mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies", "-DoutputDirectory=lib"},
		judge:     []string{"java", "-cp", "lib/*", "Outgoing.java"},
	},
	{
		language: "Rust", tools: []string{"cargo", "cc", "pkg-config"}, // svix does not compile without TLS, and OpenSSL's is the quickest
		libraries: []string{"standardwebhooks", "svix"},
		fill:      []string{"cargo", "build", "--quiet", "--target-dir", "target"},
		judge:     []string{"target/debug/outgoing"},
	},
}

// missing is the first tool that is not installed; empty: none.
func (t toolchain) missing() string {
	for _, tool := range t.tools {
		if _, err := exec.LookPath(tool); err != nil {
			return tool
		}
	}
	return ""
}

// tallies builds the language's program in the user's cache directory, unless it exists, and lets
// it verify the captures. The name of the directory is the hash of its files. If a build was
// interrupted the directory has no "done" and is built again.
func (t toolchain) tallies(ctx context.Context, cache string, captures []capture) (map[string]tally, error) {
	name := strings.ToLower(t.language)
	entries, err := files.ReadDir(name)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	for _, entry := range entries {
		text, err := files.ReadFile(name + "/" + entry.Name())
		if err != nil {
			return nil, err
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n%s", entry.Name(), len(text), text)
	}
	dir := filepath.Join(cache, fmt.Sprintf("%s-%x", name, hash.Sum(nil)[:8]))
	if _, err := os.Stat(filepath.Join(dir, "done")); err != nil {
		fmt.Fprintln(os.Stderr, "installing libraries into", dir)
		if err := errors.Join(os.RemoveAll(dir), copyScripts(name, dir)); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, t.fill[0], t.fill[1:]...) //nolint:gosec // from the list above
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(t.fill, " "), err, out)
		}
		if err := os.WriteFile(filepath.Join(dir, "done"), nil, 0o600); err != nil {
			return nil, err
		}
	}
	var found map[string]tally
	err = ask(ctx, dir, t.judge, captures, &found)
	return found, err
}

// absent are the rows of a language whose tools are not installed.
func (l *lab) absent(t toolchain, tool string) (rows []row) {
	for _, library := range t.libraries {
		rows = append(rows, row{library: t.language + " `" + library + "`", version: l.version(strings.ToLower(t.language), library),
			what: "signatures", result: notRun + tool + " is not installed"})
	}
	return rows
}

const notRun = "not run: "
