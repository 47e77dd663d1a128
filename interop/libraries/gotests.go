package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// finding is the result of a Go test or of a part of one.
type finding struct {
	name   string // without the name of the test above it
	passed bool
}

// goTest runs one test by name and returns its parts, or the test itself if it has none. A missing
// or skipped test is no pass.
func (l *lab) goTest(ctx context.Context, dir, pkg, name string) ([]finding, error) {
	// our own
	cmd := exec.CommandContext(ctx, "go", "test", "-tags", "prove", "-json", "-count=1", "-timeout=10m", "-ldflags=-s -w", "-vet=off", "-run", "^"+name+"$",
		pkg) //nolint:gosec
	cmd.Dir = filepath.Join(l.root, dir)
	out, err := cmd.Output()
	if failed := new(exec.ExitError); err != nil && !errors.As(err, &failed) {
		return nil, err
	}
	results := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Action, Test string }
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" {
			continue
		}
		if slices.Contains([]string{"pass", "fail", "skip"}, event.Action) {
			results[event.Test] = event.Action == "pass"
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	var all []finding
	for test, passed := range results {
		if part, below := strings.CutPrefix(test, name+"/"); below && !parent(results, test) {
			all = append(all, finding{part, passed})
		}
	}
	whole, there := results[name]
	if len(all) == 0 || !whole {
		all = append(all, finding{"", there && whole && err == nil})
	}
	slices.SortFunc(all, func(a, b finding) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

func parent(results map[string]bool, test string) bool {
	for other := range results {
		if strings.HasPrefix(other, test+"/") {
			return true
		}
	}
	return false
}

func (f finding) row(library, version, what, passed string) row {
	r := row{library: library, version: version, what: what, result: passed, failed: !f.passed}
	if r.failed {
		r.result = "the test did not pass; run it by itself"
	}
	return r
}

// goLibraries are the official libraries by the name of the scheme that they verify.
var goLibraries = map[string]string{
	"discord": "github.com/bwmarrin/discordgo", "github": "github.com/google/go-github/v74", "paddle": "github.com/PaddleHQ/paddle-go-sdk/v4",
	"sendgrid": "github.com/sendgrid/sendgrid-go", "slack": "github.com/slack-go/slack", "stripe": "github.com/stripe/stripe-go/v83",
	"svix": goSvix, "twilio": "github.com/twilio/twilio-go",
}

// agreeing runs the test that sends each provider's requests, whole and changed, to Grapnel and to
// the provider's library.
func (l *lab) agreeing(ctx context.Context) ([]row, error) {
	const name = "TestIngressAndTheOfficialLibrariesAgree"
	found, err := l.goTest(ctx, "interop/libraries", ".", name)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, f := range found {
		scheme, number, _ := strings.Cut(f.name, "#")
		library := goLibraries[scheme]
		if library == "" {
			rows = append(rows, finding{passed: false}.row("Go", "", "`"+name+"/"+f.name+"`", ""))
			continue
		}
		what := "scheme `" + scheme + "`"
		if number != "" {
			what += ", another form of it"
		}
		rows = append(rows, f.row("Go `"+library+"`", l.version("go", library), what,
			"agrees on 100 requests"))
	}
	return rows, nil
}

// samples runs the receivers that senders of webhooks publish for their users, as published.
func (l *lab) samples(ctx context.Context) ([]section, error) {
	const name = "TestPublishedReceiversRunUnchanged"
	found, err := l.goTest(ctx, ".", "./e2e", name)
	if err != nil {
		return nil, err
	}
	out := section{title: "Receivers that senders publish",
		about: fmt.Sprintf("Receivers from the documentation of webhook senders, unchanged, with Grapnel's presets (`%s` in `e2e`).", name)}
	var unchanged []string // names of the samples that passed, in one row
	for _, f := range found {
		what := strings.ReplaceAll(f.name, "_", " ")
		if what == "" {
			what = "all of them"
		}
		if f.passed {
			unchanged = append(unchanged, what)
		} else {
			out.rows = append(out.rows, f.row("sample", "", what, ""))
		}
	}
	if len(unchanged) > 0 {
		out.rows = append(out.rows, row{library: "samples", what: strings.Join(unchanged, ", "), result: "run unchanged"})
	}
	return []section{out}, nil
}
