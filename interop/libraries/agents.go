package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// agentPins find the version of each client in the files that pin them, beside the script.
var agentPins = map[string]struct{ library, file, pattern string }{
	"python":     {"Python `mcp`", "requirements.txt", `(?m)^mcp==(\S+)$`},
	"typescript": {"Node `@modelcontextprotocol/sdk`", "package.json", `"@modelcontextprotocol/sdk": "(\S+)"`},
}

// agents has the official clients of the Model Context Protocol use grapnel mcp, by the script that
// "make interop-agents" runs.
func (l *lab) agents(ctx context.Context) ([]section, error) {
	var found []struct {
		Client, Way, Protocol string
		Wrong                 []string
	}
	script := filepath.Join(agentsDir(l.root), "run.py")
	// Installing is limited by nothing, as that of the libraries (fill); scriptTime is for the calls.
	if out, err := exec.CommandContext(ctx, "python3", script, "--install").CombinedOutput(); err != nil { //nolint:gosec // of this repository
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	if err := ask(ctx, l.root, []string{"python3", script, "--json"}, "", &found); err != nil {
		return nil, err
	}
	out := section{title: "Agents", about: "The official clients of the Model Context Protocol call tools of `grapnel mcp`, with and without `--allow-write`."}
	for _, f := range found {
		version, err := agentVersion(l.root, f.Client)
		if err != nil {
			return nil, err
		}
		r := row{library: agentPins[f.Client].library, version: version, what: f.Way, result: "as expected", failed: len(f.Wrong) > 0}
		if f.Protocol != "" {
			r.what += ", protocol " + f.Protocol
		}
		if r.failed {
			r.result = strings.Join(f.Wrong, ", ") + " differ"
		}
		out.rows = append(out.rows, r)
	}
	return []section{out}, nil
}

func agentsDir(root string) string { return filepath.Join(root, "interop", "agents") }

func agentVersion(root, client string) (string, error) {
	pin := agentPins[client]
	text, err := os.ReadFile(filepath.Join(agentsDir(root), pin.file)) //nolint:gosec // of this repository
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(pin.pattern).FindSubmatch(text)
	if m == nil {
		panic("no pin for " + pin.library)
	}
	return string(m[1]), nil
}
