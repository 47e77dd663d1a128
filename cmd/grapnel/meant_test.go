package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// TestWrongWordsAreAnswered: a word that is no command is answered with the command that is meant.
func TestWrongWordsAreAnswered(t *testing.T) {
	for args, want := range map[string]string{
		"logs": "Use: grapnel tail", "whoami": "Use: grapnel config show", "resend evt_1": "Use: grapnel events resend",
		"get ep_1": "grapnel deliveries get", "ls": "grapnel channels list", "senf a.b": "Did you mean send?", "endpoint list": "Did you mean endpoints?",
		"endpoints add": "Did you mean create?", "endpoints rm ep_1": "Did you mean delete?", "queues describe x": "Did you mean get?", "deliveries lst": "Did you mean list?",
		"sources nonsense": "See: grapnel sources --help", "nonsense": "See: grapnel --help",
		`send invoice.paid {"a":1}`: `grapnel send invoice.paid -d '{"a":1}'`, "help endpoints creat": "Did you mean create?",
	} {
		if got := invoke(t, nil, "", strings.Fields(args)...); got.code != 2 || got.out != "" || !strings.Contains(got.errs, want) {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
	for _, args := range []string{"trigger", "help login", "help doctor", "help flags", "help topics", "help names", "help output", "help exit-codes"} {
		if got := invoke(t, nil, "", strings.Fields(args)...); got.code != 0 || got.out == "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
	root := (&session{World: &cli.World{}}).rootCommand()
	for word, command := range elsewhere {
		if c, _, err := root.Find([]string{word}); err != nil || c != root {
			t.Errorf("%s is a command", word)
		}
		if c, rest, err := root.Find(strings.Fields(command)); err != nil || c == root || len(rest) > 0 && c.Name() != "help" {
			t.Errorf("%s leads to %s, which is no command", word, command)
		}
	}
}

// TestFlagsOfEveryCommandAreSaidOnce: help ends with a line that leads to them.
func TestFlagsOfEveryCommandAreSaidOnce(t *testing.T) {
	for _, args := range []string{"--help", "endpoints --help", "endpoints create --help"} {
		got := invoke(t, nil, "", strings.Fields(args)...)
		if strings.Contains(got.out, "--server") || !strings.HasSuffix(got.out, "\nFlags of every command: grapnel help flags\n") {
			t.Errorf("%s: %s", args, got.out)
		}
	}
	got := invoke(t, nil, "", "help", "flags")
	root := (&session{World: &cli.World{}}).rootCommand()
	for line := range strings.Lines(cli.Usages(root.PersistentFlags(), 0)) {
		if !strings.Contains(got.out, strings.TrimSpace(line)) {
			t.Errorf("help flags lacks %s", line)
		}
	}
}

// TestEveryCommandHasAnExample: that its own parser takes.
func TestEveryCommandHasAnExample(t *testing.T) {
	seen := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if c.HasSubCommands() {
			return
		}
		if seen++; c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		own := false
		for line := range strings.Lines(c.Example) {
			all := wordsOf(line)
			for len(all) > 0 {
				end := slices.Index(append(all, "|"), "|")
				command := slices.Clone(all[:end])
				all = all[min(end+1, len(all)):]
				if i := slices.IndexFunc(command, func(word string) bool { return word == "<" || word == ">" }); i > 0 {
					command = command[:i]
				}
				if len(command) > 1 && command[0] == "xargs" {
					command = append(command[1:], "id")
				}
				if len(command) > 0 && command[0] == "grapnel" {
					wrongCommand(t, c.CommandPath(), command, true)
					own = own || strings.HasPrefix(strings.Join(command, " ")+" ", c.CommandPath()+" ")
				}
			}
		}
		if !own {
			t.Errorf("no example of %s is of it: %s", c.CommandPath(), c.Example)
		}
	}
	walk((&session{World: &cli.World{Program: "grapnel"}}).rootCommand())
	if seen < 130 {
		t.Errorf("only %d commands", seen)
	}
}

// TestWhatIsWrongWithAFlag: in words, with its value, and without the names of Go's packages.
func TestWhatIsWrongWithAFlag(t *testing.T) {
	for args, want := range map[string]string{
		"deliveries list --status-code abc":         "error: --status-code abc: must be a whole number. See: grapnel deliveries list --help\n",
		"replay start ep_1 --rate fast":             "error: --rate fast: must be a number. See: grapnel replay start --help\n",
		"dlq list --replayed=perhaps":               "error: --replayed perhaps: must be true or false. See: grapnel dlq list --help\n",
		"events list --since yesterday":             "error: --since yesterday: write 2026-01-31T12:00:00Z, or 6h or 7d for that long ago. See: grapnel events list --help\n",
		"events list -o name --jq .data":            "error: -o name: --jq gives the output its own form; leave one of them out\n",
		"endpoints rotate-secret ep_1 --overlap 1x": "error: --overlap 1x: write a duration such as 90s, 1h30m or 30d. See: grapnel endpoints rotate-secret --help\n",
	} {
		got := invoke(t, nil, "", strings.Fields(args)...)
		if got.code != 2 || !strings.HasPrefix(got.errs, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	f := newFake(t, always(200, `{"id":"ep_1","secret":"whsec_x"}`))
	got := invoke(t, f.env(), "", "endpoints", "rotate-secret", "ep_1", "--overlap", "24h")
	if !strings.Contains(got.errs, "continues to sign for 24h.") {
		t.Errorf("%+v", got)
	}
}

// TestAVariableWithATypingError: a client says that it reads no such variable, once, and goes on.
func TestAVariableWithATypingError(t *testing.T) {
	f := newFake(t, always(200, `{"data":[]}`))
	var out, errs strings.Builder
	env := f.env()
	code := runProgram(t.Context(), &cli.World{Args: []string{"events", "list", "-o", "name"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Lookup:  func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Environ: func() []string { return []string{"GRAPNEL_SERVR=x", "GRAPNEL_KEY=k", "GRAPNEL_EVENT_ID=e", "HOME=/"} }})
	if code != 0 || errs.String() != "GRAPNEL_SERVR: unknown variable. Did you mean GRAPNEL_SERVER?\n" {
		t.Errorf("exits %d: %s", code, errs.String())
	}
}

// TestTheNextStep: who creates an endpoint is told how to try it, and who looks at a failure how to
// find its cause.
func TestTheNextStep(t *testing.T) {
	f := newFake(t, always(200, `{"id":"ep_1","secret":"whsec_x","health":{"state":"healthy"}}`))
	got := invoke(t, f.env(), "", "endpoints", "create", "https://x.test")
	if !strings.HasPrefix(got.out, "endpoint ") || !strings.Contains(got.errs, "Try it: grapnel endpoints test ep_1") {
		t.Errorf("%+v", got)
	}
	for answered, want := range map[string]string{
		`"policy":"default"`:      `--policy '{"classify":{"400":"fail",`,
		`"policy":"standard"`:     `Answered 404 or 422, a delivery is attempted 10 times within`,
		`"policy":"the-tenant's"`: "", `"policy":"default","target":{"kind":"kafka"}`: "",
	} {
		f := newFake(t, always(200, `{"id":"ep_1","secret":"whsec_x",`+answered+`}`))
		got := invoke(t, f.env(), "", "endpoints", "create", "https://x.test")
		if !strings.Contains(got.errs, want) || want == "" && strings.Contains(got.errs, "nswered") {
			t.Errorf("%s: said %q, want %q", answered, got.errs, want)
		}
		if got := invoke(t, f.env(), "", "endpoints", "create", "https://x.test", "-o", "json"); strings.Contains(got.errs, "nswered") {
			t.Errorf("%s: a program gets %q", answered, got.errs)
		}
	}
	f = newFake(t, always(200, `{"id":"dlv_1","status":"failed","attempts_made":1}`))
	if got := invoke(t, f.env(), "", "deliveries", "get", "dlv_1"); !strings.Contains(got.out, "grapnel why dlv_1") {
		t.Errorf("%+v", got)
	}
}
