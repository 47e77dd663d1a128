package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/web"
)

// TestDocumentedCommands: every command line in the pages is one that the program takes. In a block
// it is whole, so its flags have to parse and its arguments have to be as many as the command
// wants; in a sentence it may be only the beginning. And every command is in the table of cli.md.
func TestDocumentedCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	guides, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, guides...)
	inline := regexp.MustCompile("`((?:bin/)?grapnel [^`…]+)`")
	seen := 0
	for _, page := range append(pages, "../../README.md", "../../SECURITY.md", "../../GUARANTEES.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		fenced := false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			if !fenced && !strings.HasPrefix(line, "    ") {
				for _, found := range inline.FindAllStringSubmatch(line, -1) {
					seen++
					wrongCommand(t, page, wordsOf(found[1]), false)
				}
				continue
			}
			all := wordsOf(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
			for len(all) > 0 {
				end := slices.Index(all, "|")
				if end < 0 {
					end = len(all)
				}
				command := all[:end]
				if command = command[:len(command):len(command)]; len(command) > 0 && command[0] == "xargs" {
					command = append(command[1:], "id")
				}
				if len(command) > 0 && strings.TrimPrefix(command[0], "bin/") == "grapnel" {
					seen++
					wrongCommand(t, page, command, true)
				}
				all = all[min(end+1, len(all)):]
			}
		}
	}
	if seen < 150 {
		t.Errorf("only %d commands are in the pages", seen)
	}
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), "\n## ")
	for _, c := range (&session{World: &cli.World{Program: "grapnel"}}).rootCommand().Commands() {
		if !c.Hidden && c.Name() != "help" && !regexp.MustCompile("`(grapnel )?"+c.Name()+"[ `]").MatchString(table) {
			t.Errorf("the table in docs/cli.md has no command %s", c.Name())
		}
	}
}

// TestDashboardCommands: the commands that pages of the dashboard offer to copy exist.
func TestDashboardCommands(t *testing.T) {
	for _, command := range web.Commands() {
		wrongCommand(t, "the dashboard", wordsOf(command), true)
		if strings.HasPrefix(command, "grapnel deliveries") && strings.Contains(command, " --key ") {
			t.Errorf("%s: --key is the API key there", command)
		}
	}
}

// wrongCommand reports the fault of a command line.
func wrongCommand(t *testing.T, page string, words []string, whole bool) {
	t.Helper()
	at := filepath.Base(page) + ": " + strings.Join(words, " ")
	root := (&session{World: &cli.World{Program: "grapnel"}}).rootCommand()
	root.InitDefaultCompletionCmd()
	used, rest, err := root.Find(words[1:])
	if err != nil || used == root && len(words) > 1 && !strings.HasPrefix(words[1], "-") || used.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		t.Errorf("%s: there is no such command", at)
		return
	}
	used.InheritedFlags() // which makes them known
	if whole && !used.HasSubCommands() {
		if err := used.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", at, err)
		} else if err := used.ValidateArgs(used.Flags().Args()); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		return
	}
	for _, word := range rest {
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && name != "help" && used.Flags().Lookup(name) == nil {
			t.Errorf("%s: there is no flag --%s", at, name)
		}
	}
}

// wordsOf are those of a line of shell: quotes hold one together, and # begins a comment.
func wordsOf(line string) (all []string) {
	var word strings.Builder
	var quote rune
	begun := false
	for _, c := range line + " " {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == '#' && !begun:
			return all
		case c == ' ' || c == '\n':
			if begun {
				all = append(all, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	return all
}

// TestShowIsGet: one word looks at a thing, and those who expect the other one find it.
func TestShowIsGet(t *testing.T) {
	other := map[string]string{"show": "get", "get": "show"}
	seen := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if alias := other[c.Name()]; alias != "" {
			if seen++; !c.HasAlias(alias) {
				t.Errorf("%s is no alias of %s", alias, c.CommandPath())
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&session{World: &cli.World{Program: "grapnel"}}).rootCommand())
	if seen < 8 {
		t.Errorf("only %d commands look at a thing", seen)
	}
}

// TestDocumentedSettings: the table of settings has each flag of serve once, with its variable, its
// name in the config file, its default, and whether a running server takes a change over.
func TestDocumentedSettings(t *testing.T) {
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := (&session{World: &cli.World{Program: "grapnel"}}).serveCommand().Flags()
	row := regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| `([A-Z_]+)` \\| (?:`([a-z_]+)`)? ?\\| ?([^|]*?) ?\\| ?(reload)? ?\\|")
	said := map[string]bool{}
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		name, under := cells[1], strings.ReplaceAll(cells[1], "-", "_")
		f := flags.Lookup(name)
		if f == nil || said[name] {
			t.Errorf("there is no flag --%s, or it is there twice", name)
			continue
		}
		said[name] = true
		if cells[2] != "GRAPNEL_"+strings.ToUpper(under) || name != "config" && cells[3] != under {
			t.Errorf("--%s is said to be %s and %s", name, cells[2], cells[3])
		}
		is := strings.Trim(f.DefValue, "[]")
		if shown := strings.Trim(cells[4], "`"); shown != is && (is != "" || shown != "none" && shown != "as `--listen") {
			t.Errorf("the default of --%s is said to be %q and is %q", name, shown, f.DefValue)
		}
		if reload := slices.Contains(reloaded, name); reload != (cells[5] != "") {
			t.Errorf("--%s: the column reload says %q, and a running server takes it over: %t", name, cells[5], reload)
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if !said[f.Name] && !f.Hidden && f.Name != "help" {
			t.Errorf("--%s is not in the table", f.Name)
		}
	})
}

// TestFlagsAndExitCodesAreExplained: every flag has its help, none but --key and torture's
// --timeout hides the flag that every command has under its name, and every exit code is in the
// table of cli.md.
func TestFlagsAndExitCodesAreExplained(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" && !f.Hidden {
				t.Errorf("%s --%s has no help", c.CommandPath(), f.Name)
			}
			if of := c.Root().PersistentFlags().Lookup(f.Name); of != nil && of != f && f.Name != "key" && c.CommandPath() != "grapnel torture" {
				t.Errorf("%s --%s hides the flag of every command, so that its variable has no effect", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&session{World: &cli.World{Program: "grapnel"}}).rootCommand())
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	codes, err := os.ReadFile("../../internal/face/cli/exit.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range regexp.MustCompile(`(?m)^\tExit\w+ += (\d+)$`).FindAllStringSubmatch(string(codes), -1) {
		if !strings.Contains(string(page), "\n| "+code[1]+" | ") {
			t.Errorf("docs/cli.md has no exit code %s", code[1])
		}
	}
}

// TestPushNamesItsArgument: a refused name of an event type is the fault of the argument, not of a
// field that the user has not written.
func TestPushNamesItsArgument(t *testing.T) {
	root := (&session{World: &cli.World{Program: "grapnel"}}).rootCommand()
	push, _, err := root.Find([]string{"types", "push"})
	if err != nil {
		t.Fatal(err)
	}
	err = cli.InFlags(push, &client.Error{Fields: []client.Field{{Pointer: "/name", Detail: "is wrong"}}})
	if !strings.Contains(err.Error(), "NAME: is wrong") {
		t.Error(err)
	}
}
