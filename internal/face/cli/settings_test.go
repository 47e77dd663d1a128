package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// flags are a command's, with every kind of setting.
type flags struct {
	*pflag.FlagSet
	name   string
	wait   time.Duration
	secret string
	many   []string
	plain  string
}

func newFlags() *flags {
	f := &flags{FlagSet: pflag.NewFlagSet("test", pflag.ContinueOnError)}
	f.StringVar(&f.name, "some-name", "default", "")
	f.DurationVar(&f.wait, "wait", time.Second, "")
	f.StringVar(&f.secret, "secret", "", "")
	f.StringSliceVar(&f.many, "many", nil, "")
	f.StringVar(&f.plain, "plain", "", "")
	f.String("config", "", "")
	cli.FromVariables(f.FlagSet, "some-name", "wait", "secret", "many", "config")
	cli.FromFile(f.FlagSet, "some-name", "wait", "many", "secret")
	cli.Secret(f.FlagSet, "secret")
	return f
}

func world(env map[string]string) *cli.World {
	return &cli.World{Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	const flag, variable, file = "flag", "variable", "file"
	for _, tc := range []struct {
		sources string
		want    string
	}{
		{"", "default"}, {file, file}, {variable, variable}, {flag, flag},
		{file + variable, variable}, {file + flag, flag}, {variable + flag, flag}, {file + variable + flag, flag},
	} {
		t.Run(tc.sources, func(t *testing.T) {
			f, env, args := newFlags(), map[string]string{}, []string{}
			if strings.Contains(tc.sources, file) {
				env["GRAPNEL_CONFIG"] = write(t, "some_name: file\n")
			}
			if strings.Contains(tc.sources, variable) {
				env["GRAPNEL_SOME_NAME"] = variable
			}
			if strings.Contains(tc.sources, flag) {
				args = append(args, "--some-name", flag)
			}
			if err := f.Parse(args); err != nil {
				t.Fatal(err)
			}
			if err := world(env).Settle(f.FlagSet); err != nil {
				t.Fatal(err)
			}
			if f.name != tc.want {
				t.Errorf("got %q, want %q", f.name, tc.want)
			}
		})
	}
}

func TestConfigFileTakesListsAndComments(t *testing.T) {
	f := newFlags()
	path := write(t, "# what it is for\nmany: [a, b]\nwait: 1m30s\n")
	if err := world(map[string]string{"GRAPNEL_CONFIG": path}).Settle(f.FlagSet); err != nil {
		t.Fatal(err)
	}
	if f.wait != 90*time.Second || strings.Join(f.many, "+") != "a+b" {
		t.Errorf("got %v and %v", f.wait, f.many)
	}
}

func TestSecretsFromFiles(t *testing.T) {
	f := newFlags()
	if err := world(map[string]string{"GRAPNEL_SECRET_FILE": write(t, "hush\n")}).Settle(f.FlagSet); err != nil {
		t.Fatal(err)
	}
	if f.secret != "hush" {
		t.Errorf("got %q", f.secret)
	}
	// Only secrets have such a variable.
	f = newFlags()
	if err := world(map[string]string{"GRAPNEL_SOME_NAME_FILE": write(t, "x")}).Settle(f.FlagSet); err != nil || f.name != "default" {
		t.Errorf("got %q, %v", f.name, err)
	}
}

func TestSettingsThatAreWrong(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  map[string]string
		file string
		want string
	}{
		{"a value that cannot be read", map[string]string{"GRAPNEL_WAIT": "soon"}, "", `GRAPNEL_WAIT: "soon" is invalid for wait`},
		{"a secret twice", map[string]string{"GRAPNEL_SECRET": "a", "GRAPNEL_SECRET_FILE": "b"}, "", "both GRAPNEL_SECRET and GRAPNEL_SECRET_FILE are set"},
		{"a secret's file that is absent", map[string]string{"GRAPNEL_SECRET_FILE": "/nowhere/at-all"}, "", "GRAPNEL_SECRET_FILE: "},
		{"a file that is absent", map[string]string{"GRAPNEL_CONFIG": "/nowhere/at-all"}, "", "cannot read the config file"},
		{"a name that is not quite right", nil, "wait: 1s\nsome_nam: x\n", `line 2: unknown setting "some_nam". Did you mean "some_name"?`},
		{"a name that is nothing like it", nil, "colour: blue\n", `unknown setting "colour". Settings: many, secret, some_name, wait`},
		{"a flag that is no setting", nil, "plain: x\n", `unknown setting "plain"`},
		{"a value in the file", nil, "\nwait: soon\n", `line 2: "soon" is invalid for wait`},
		{"a name twice", nil, "wait: 1s\nwait: 2s\n", "line 2: wait is given twice"},
		{"a name in both spellings", nil, "some_name: a\nsome-name: b\n", "line 2: some-name is given twice"},
		{"a table", nil, "wait: {a: 1}\n", "line 1: wait takes one value or a list"},
		{"nothing", nil, "wait:\n", "line 1: wait takes one value or a list"},
		{"a list", nil, "- wait\n", "line 1: settings are written as"},
		{"two documents", nil, "wait: 1s\n---\nwait: 2s\n", "a config file is one document"},
		{"no YAML", nil, "wait: [\n", "the config file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := map[string]string{}
			for k, v := range tc.env {
				env[k] = v
			}
			if tc.file != "" {
				env["GRAPNEL_CONFIG"] = write(t, tc.file)
			}
			err := world(env).Settle(newFlags().FlagSet)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if cli.Explain(err).Exit != cli.ExitUsage {
				t.Errorf("exits %d", cli.Explain(err).Exit)
			}
		})
	}
}

func TestSecretIsNotRepeatedInErrors(t *testing.T) {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.Int("secret", 0, "")
	cli.FromVariables(f, "secret")
	cli.Secret(f, "secret")
	err := world(map[string]string{"GRAPNEL_SECRET": "hunter2"}).Settle(f)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]string{"262144": "256KiB", "256KiB": "256KiB", "1MiB": "1MiB", "1000": "1000", "2MB": "2000000", "10 KiB": "10KiB"} {
		var s cli.Size
		if err := s.Set(text); err != nil || s.String() != want {
			t.Errorf("%q: got %s, %v; want %s", text, s.String(), err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "KiB", "1.5MiB", "9999999999GiB", "1 parsec"} {
		if err := new(cli.Size).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestNetworks(t *testing.T) {
	var n cli.Networks
	if err := n.Set("127.0.0.0/8, ::1"); err != nil {
		t.Fatal(err)
	}
	if err := n.Set("10.1.2.3"); err != nil || n.String() != "127.0.0.0/8,::1/128,10.1.2.3/32" {
		t.Errorf("got %s, %v", n.String(), err)
	}
	for _, text := range []string{"", "localhost", "127.0.0.1/8", "10.0.0.0/33"} {
		if err := new(cli.Networks).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
