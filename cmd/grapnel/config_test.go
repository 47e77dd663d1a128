package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// configured calls the program with an environment that can be listed.
func configured(t *testing.T, env []string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := runProgram(t.Context(), &cli.World{Program: "grapnel", Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Now: time.Now, Environ: func() []string { return env }, Lookup: func(name string) (string, bool) {
			for _, entry := range env {
				if value, ok := strings.CutPrefix(entry, name+"="); ok {
					return value, true
				}
			}
			return "", false
		}})
	return result{code, out.String(), errs.String()}
}

// A value has the origin that won, and no secret is shown.
func TestConfigShowSaysOrigins(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("g.yaml", []byte("lease: 20s\nretention: 48h\nhttps_only: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"GRAPNEL_CONFIG=g.yaml", "GRAPNEL_RETENTION=72h", "GRAPNEL_ADMIN_KEY=hunter2", "GRAPNEL_STORE=postgres://u:hunter2@db/x"}
	got := configured(t, env, "config", "show", "--origin", "--listen", "127.0.0.1:1")
	lines := strings.Join(strings.Fields(got.out), " ")
	for _, want := range []string{"SETTING VALUE RELOAD ORIGIN", "lease 20s restart g.yaml, line 1", "retention 72h yes GRAPNEL_RETENTION",
		"https-only true yes g.yaml, line 3", "listen 127.0.0.1:1 restart flag", "max-types 10000 yes default", "config g.yaml restart GRAPNEL_CONFIG",
		"store postgres://db/x restart GRAPNEL_STORE", "admin-key (hidden) restart GRAPNEL_ADMIN_KEY"} {
		if !strings.Contains(lines, want) {
			t.Errorf("not shown: %s", want)
		}
	}
	if got.code != 0 || strings.Contains(got.out, "hunter2") {
		t.Errorf("%+v", got)
	}
}

// All faults are named at once, each with its line.
func TestConfigValidate(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(text string) {
		if err := os.WriteFile("g.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("listen: 8420\nstore: mysql:hunter2\nlisen: x\nmax_in_flight: 0\nretention: soon\nlease: [a, {}]\nlog_level: chatty\noidc_client_id: a\nlog_level: info\n")
	got := configured(t, []string{"GRAPNEL_LISTN=x"}, "config", "validate", "g.yaml", "--jq", `.faults[]|"\(.line) \(.setting) \(.detail)"`)
	want := []string{`2 store store takes sqlite:PATH`, `3 lisen unknown setting "lisen". Did you mean "listen"?`, `4 max_in_flight`,
		`5 retention "soon" is invalid`, `6 lease lease takes one value`, `7 log_level log_level chatty: the levels`,
		`9 log_level log_level is given twice`, `null null settings for signing in are given without --oidc-issuer`,
		`null GRAPNEL_LISTN unknown variable. Did you mean GRAPNEL_LISTEN?`}
	said := strings.Split(strings.TrimSpace(got.out), "\n")
	if got.code != 8 || len(said) != len(want) || strings.Contains(got.out, "hunter2") {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if !strings.HasPrefix(said[i], want[i]) {
			t.Errorf("fault %d is %q, not %q", i, said[i], want[i])
		}
	}
	write("listen: 8420\ntls_cert: c.pem\n")
	got = configured(t, nil, "config", "validate", "g.yaml", "--jq", `.faults[]|"\(.line) \(.setting) \(.detail)"`)
	if want := "2 tls_cert tls_cert and --tls-key: give both or neither"; strings.TrimSpace(got.out) != want {
		t.Errorf("a setting that needs another one: %+v", got)
	}
	write("listen: nowhere\nbackup_keep: 0\ntls_cert: c.pem\ntls_acme_email: ops@example.com\nhttp_redirect: 8080\noidc_issuer: https://idp.example\n" +
		"dashboard: false\ntls_acme: hooks.example.com\n")
	got = configured(t, []string{"GRAPNEL_SESSION_KEY=short"}, "config", "validate", "g.yaml", "--jq", `.faults[]|"\(.line) \(.setting) \(.detail)"`)
	want = []string{`1 listen listen nowhere: write HOST:PORT`, `2 backup_keep backup_keep 0: it must be at least 1`, `3 tls_cert tls_cert and --tls-key: give both`,
		`8 tls_acme tls_acme and tls_cert: give one`, `null null GRAPNEL_SESSION_KEY has 5 characters`, `6 oidc_issuer oidc_issuer: people sign in`,
		`6 oidc_issuer --oidc-client-id: it must be set with oidc_issuer`, `null null --oidc-role: without a rule`}
	said = strings.Split(strings.TrimSpace(got.out), "\n")
	if len(said) != len(want) {
		t.Fatalf("of faults that settings have together: %s", got.out)
	}
	for i := range want {
		if !strings.HasPrefix(said[i], want[i]) {
			t.Errorf("fault %d of those together is %q, not %q", i, said[i], want[i])
		}
	}
	write("listen: 8420\nencrypt_payloads: true\n")
	got = configured(t, nil, "config", "validate", "g.yaml", "--jq", `.faults[]|"\(.line) \(.setting) \(.detail)"`)
	if want := "2 encrypt_payloads encrypt_payloads: it needs --master-key"; strings.TrimSpace(got.out) != want {
		t.Errorf("sealing without a key: %+v", got)
	}
	write("listen: 8420\nlease: 20s\ntls_cert: c.pem\ntls_key: k.pem\nhttp_redirect: 8080\n")
	// Kubernetes describes a service named grapnel in variables.
	env := []string{"GRAPNEL_SERVICE_HOST=10.0.0.1", "GRAPNEL_SERVICE_PORT_HTTP=80", "GRAPNEL_PORT=tcp://10.0.0.1:80", "GRAPNEL_API_PORT_80_TCP_ADDR=10.0.0.1",
		"GRAPNEL_STORE_FILE=", "HOME=/"}
	if got := configured(t, env, "config", "validate", "g.yaml"); got.code != 0 || !strings.Contains(got.out, "no faults") {
		t.Errorf("%+v", got)
	}
}

// A server warns of variables that it does not read, and starts.
func TestServeWarnsOfUnknownVariables(t *testing.T) {
	t.Chdir(t.TempDir())
	got := configured(t, []string{"GRAPNEL_RETENTOIN=1h"}, "serve", "--listen", "nowhere:none")
	if !strings.Contains(got.errs, `msg="unknown variable ignored" variable=GRAPNEL_RETENTOIN detail="unknown variable. Did you mean GRAPNEL_RETENTION?"`) {
		t.Errorf("%+v", got)
	}
}

// TestVariablesAreKnown: no variable that the program reads would be warned of as unknown.
func TestVariablesAreKnown(t *testing.T) {
	known := cli.Variables((&session{World: &cli.World{}}).rootCommand(), secretVariables())
	name := regexp.MustCompile(`"(GRAPNEL_[A-Z_]*[A-Z])"`)
	seen := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || !strings.Contains(path, "/cmd/") && !strings.Contains(path, "/internal/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range name.FindAllStringSubmatch(string(text), -1) {
			seen++
			if w := (&cli.World{Environ: func() []string { return []string{found[1] + "=x"} }}); w.UnknownVariables(known) != nil {
				t.Errorf("%s reads %s: add it to secretVariables", path, found[1])
			}
		}
		return err
	})
	if err != nil || seen < 8 {
		t.Errorf("%d variables seen, %v", seen, err)
	}
}
