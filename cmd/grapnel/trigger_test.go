package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/inbound/byhand"
)

// invokeNow runs the program with the real clock, by which a server judges timestamps.
func invokeNow(t *testing.T, env map[string]string, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := runProgram(t.Context(), &cli.World{
		Program: "grapnel", Args: args, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Now: time.Now,
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	return result{code, out.String(), errs.String()}
}

// signingKey is a file with a new key that signs for a scheme, and the flags of a source beside its
// secret.
func signingKey(t *testing.T, name string) (file string, flags []string) {
	t.Helper()
	text := "correct horse battery staple"
	var private any
	var err error
	switch name {
	case "none":
		return "", nil
	case "hmac":
		flags = []string{"--header", "X-Signature", "--prefix", "sha512=", "--algorithm", "sha512", "--signed", "{id}.{timestamp}.{body}",
			"--timestamp-header", "X-Time", "--id-header", "X-Id"}
	case "basic":
		flags = []string{"--username", "acme"}
	case "standard", "svix", "gitlab":
		text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	case "adyen":
		text = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	case "discord":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case "sendgrid":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	if private != nil {
		der, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			t.Fatal(err)
		}
		text = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	file = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, flags
}

// TestTriggersReachTheirSource: a trigger of each type of each scheme becomes an event of that
// type, with _ for characters that types do not have, at a source of that scheme on a real server;
// sent again it is a duplicate.
func TestTriggersReachTheirSource(t *testing.T) {
	_, env := serve(t)
	call := func(args ...string) string {
		t.Helper()
		got := invokeNow(t, env, "", args...)
		if got.code != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
		return strings.TrimSpace(got.out)
	}
	sent := 0
	for _, one := range scheme.All() {
		key, flags := signingKey(t, one.Name)
		var secret, public []string
		if key != "" {
			text, err := os.ReadFile(key)
			if err != nil {
				t.Fatal(err)
			}
			half, err := scheme.PublicHalf(one.Name, strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			secret, public = []string{"--secret", "@" + key}, []string{"--secret", half}
		}
		create := append(append([]string{"sources", "create", one.Name, "--scheme", one.Name, "-o", "name"}, flags...), public...)
		source := call(create...)
		fixtures, err := byhand.Fixtures(one.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fixtures {
			sent++
			var said struct {
				Answers []struct {
					Status int
					Answer string
				}
			}
			to := [][]string{{"--source", source}, {"--to", source}, {"--to", one.Name}}[sent%3] // the source has the scheme's name
			out := call(slices.Concat([]string{"trigger", one.Name, f.Type, "--times", "2", "-o", "json"}, to, secret)...)
			if err := json.Unmarshal([]byte(out), &said); err != nil || len(said.Answers) != 2 {
				t.Fatalf("%s: %v", out, err)
			}
			var first, second struct {
				ID        string
				Duplicate bool
			}
			if json.Unmarshal([]byte(said.Answers[0].Answer), &first) != nil || json.Unmarshal([]byte(said.Answers[1].Answer), &second) != nil ||
				said.Answers[0].Status/100 != 2 || first.ID == "" || first.Duplicate || said.Answers[1].Status != 200 || !second.Duplicate ||
				second.ID != first.ID {
				t.Errorf("%s %s: %+v", one.Name, f.Type, said.Answers)
				continue
			}
			if kind := call("events", "get", first.ID, "--jq", ".type"); kind != strings.NewReplacer("/", "_", ":", "_").Replace(f.Type) {
				t.Errorf("%s %s became an event of type %s", one.Name, f.Type, kind)
			}
		}
	}
	if sent < 50 {
		t.Errorf("only %d types were sent", sent)
	}
}

// TestTriggerSends: to any URL, several times, and the exit code says what became of it.
func TestTriggerSends(t *testing.T) {
	const secret = "whsec_of_the_endpoint"
	seen := 0
	taken := newFake(t, func(r *http.Request) (int, string) {
		seen++
		if strings.HasSuffix(r.URL.Path, "/second") && seen%2 == 0 || strings.HasSuffix(r.URL.Path, "/never") {
			return http.StatusInternalServerError, "no"
		}
		return http.StatusOK, "ok"
	})
	for _, c := range []struct {
		path string
		code int
	}{{"/always", 0}, {"/second", cli.ExitPartial}, {"/never", cli.ExitFailure}} {
		seen, taken.seen = 0, nil
		got := invoke(t, nil, "", "trigger", "stripe", "charge.refunded", "--to", taken.URL+c.path, "--secret", secret, "--times", "2", "-H", "X-Trace: 7")
		if got.code != c.code || len(taken.seen) != 2 || taken.seen[0].Body != taken.seen[1].Body || strings.Contains(got.out+got.errs, secret) {
			t.Errorf("%s: %+v, %d requests", c.path, got, len(taken.seen))
		}
	}
	// One that goes away in between does not take the answers with it.
	var away *httptest.Server
	away = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = w.Write([]byte("once"))
		_ = away.Listener.Close()
	}))
	defer away.Close()
	got := invoke(t, nil, "", "trigger", "none", "invoice.paid", "--to", away.URL, "--times", "2")
	if got.code != cli.ExitUnavailable || !strings.Contains(got.out, "once") {
		t.Errorf("%+v", got)
	}
	got = invoke(t, nil, "", "trigger", "none", "invoice.paid", "--to", "http://127.0.0.1:1/hooks")
	if got.code != cli.ExitUnavailable || !strings.Contains(got.errs, "cannot reach 127.0.0.1:1") {
		t.Errorf("%+v", got)
	}
}

// TestTriggerRefuses: each mistake has its error, which leads on.
func TestTriggerRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"trigger strpe", "the nearest is stripe"},
		{"trigger stripe invoice.pad --print", "the nearest is invoice.paid"},
		{"trigger stripe invoice.paid", "nowhere to send to"},
		{"trigger stripe invoice.paid --to localhost:3000", "must be a URL"},
		{"trigger stripe invoice.paid --to /hooks", "must be a URL"},
		{"trigger stripe invoice.paid --print", "--secret is needed"},
		{"trigger stripe invoice.paid --print --secret x --set data.object.amuont_due=5", "data.object.amount_due"},
		{"trigger stripe invoice.paid --print --secret x --set livemode=maybe", "livemode is true or false"},
		{"trigger stripe invoice.paid --print --secret x --set livemode", "PATH=VALUE"},
		{"trigger stripe invoice.paid --print --secret x --times 0", "--times 0"},
		{"trigger stripe invoice.paid --print --secret x -H nothing", "NAME: VALUE"},
		{"trigger stripe invoice.paid --to http://x.example --source src_1", "give one of --to, --source"},
		{"trigger stripe invoice.paid --print --secret x --username u", "username: is not used"},
		{"trigger discord 2 --print --secret 03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8", "openssl genpkey"},
		{"sign stripe", "no request is given"},
		{"sign stripe /nowhere/request --secret x", "file not found"},
		{"verify stripe --body x", "needs --secret"},
		{"verify nope --body x", "is no scheme"},
		{"sign mailgun --secret x --headers --body {\"signature\":{\"timestamp\":\"1\",\"token\":\"t\",\"signature\":\"s\"}}", "signs within the body"},
	} {
		var out, errs bytes.Buffer
		unset := func(string) (string, bool) { return "", false }
		world := cli.World{Program: "grapnel", Args: strings.Fields(c.args), Now: time.Now, Lookup: unset, Stdout: &out, Stderr: &errs}
		if code := runProgram(t.Context(), &world); code != cli.ExitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, errs.String())
		}
	}
	server := newFake(t, always(http.StatusOK, `{"id":"src_1","ingest_url":"/in/src_1","verify":{"scheme":"github","secrets":[]}}`))
	got := invoke(t, server.env(), "", "trigger", "stripe", "invoice.paid", "--source", "src_1", "--secret", "x")
	if got.code != cli.ExitUsage || !strings.Contains(got.errs, "has the scheme github, not stripe") {
		t.Errorf("%+v", got)
	}
}

// TestWhatSignPrintsVerifies: the request that sign and trigger print is one that verify reads, and
// a change of it has exit code 8 and a reason.
func TestWhatSignPrintsVerifies(t *testing.T) {
	run := func(stdin string, args ...string) result {
		return invoke(t, nil, stdin, append(args, "--secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")...)
	}
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, []byte("{\"a\": 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	signed := run("", "sign", "standard", "--body", "@"+body, "-H", "Content-Type: application/json")
	triggered := run("", "trigger", "standard", "invoice.paid", "--print")
	for _, r := range []result{signed, triggered} {
		got := run(r.out, "verify", "standard", "-", "-o", "json")
		if r.code != 0 || got.code != 0 || !strings.Contains(got.out, `"verified": true`) {
			t.Errorf("%+v: %+v", r, got)
		}
		edited := strings.ReplaceAll(r.out, "\r\n", "\n") + "\n" // as by an editor
		if got := run(edited, "verify", "standard"); got.code != 0 {
			t.Errorf("%+v", got)
		}
	}
	trimmed := strings.Replace(strings.TrimSpace(signed.out), "Content-Length", "X-Was", 1)
	got := run(trimmed, "verify", "standard", "-o", "json")
	if got.code != cli.ExitFindings || !strings.Contains(got.out, `"kind": "body"`) || !strings.Contains(got.out, "it was cut off") {
		t.Errorf("%+v", got)
	}
	headers := run("", "sign", "standard", "--headers", "--body", "@"+body, "-H", "webhook-id: msg_1")
	if headers.code != 0 || !strings.HasPrefix(headers.out, "Webhook-Id: msg_1\nWebhook-Signature: v1,") || strings.Contains(headers.out, "Host") {
		t.Errorf("%+v", headers)
	}
	if doc := run("", "sign", "standard", "--body", "@"+body, "--jq", ".body"); doc.out != "{\"a\": 1}\n\n" {
		t.Errorf("%+v", doc)
	}
}
