package main

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/proof/demo"
)

// Twice over the same data: the second time everything is there already, at other addresses and
// with other secrets.
func TestDevHasSomethingToLookAt(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "dev")
	for _, round := range []string{"first", "second"} {
		typed, keyboard := io.Pipe()
		p := launchWith(t, typed, nil, "dev", "--listen", "127.0.0.1:0", "--data", data, "--story=false")
		env := map[string]string{"GRAPNEL_SERVER": p.url, "GRAPNEL_KEY_FILE": filepath.Join(data, "admin.key")}
		poll(t, "the demo is installed", func() bool { return strings.Contains(p.errs.String(), "Ctrl-C ends") })
		endpoints := invoke(t, env, "", "endpoints", "list", "--jq", ".data[].description")
		if endpoints.out != "Demo receiver, healthy\nDemo receiver, flaky\nDemo receiver, ledger\n" {
			t.Errorf("%s: %+v", round, endpoints)
		}
		poll(t, "the demo's own events have arrived, in their order", func() bool {
			got := invoke(t, env, "", "events", "show", "evt_demo_3", "--jq", `[.deliveries[] | .status, .attempts_made] | sort`)
			return got.out == `[1,1,"delivered","delivered"]`+"\n"
		})
		sent := invoke(t, env, "", "send", "invoice.paid", "-o", "name")
		poll(t, "the event is delivered to both, to the flaky one at the third attempt", func() bool {
			got := invoke(t, env, "", "events", "show", strings.TrimSpace(sent.out), "--jq", `[.deliveries[] | .status, .attempts_made] | sort`)
			return got.out == `[1,3,"delivered","delivered"]`+"\n"
		})
		if _, err := keyboard.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		poll(t, "Enter sends an event", func() bool { return strings.Contains(p.errs.String(), "Sent invoice.paid as evt_") })
		_ = keyboard.Close()
		got := p.stop()
		if strings.Contains(got.errs, "attempt 1: {") {
			t.Errorf("%s: bodies are shown without --verbose", round)
		}
		if got.code != 0 || strings.Count(got.out, "\n") != 1 {
			t.Errorf("%s: %+v", round, got)
		}
		for _, want := range []string{"export GRAPNEL_KEY_FILE=" + data, "grapnel send invoice.paid", "curl " + p.url, p.url + "/login/once?code=", "healthy got evt_", "flaky   answered 503", "flaky   got evt_"} {
			if !strings.Contains(got.errs, want) {
				t.Errorf("%s: stderr lacks %q:\n%s", round, want, got.errs)
			}
		}
		if strings.Contains(got.errs, "answered 401") {
			t.Errorf("%s: a signature did not fit:\n%s", round, got.errs)
		}
	}
}

// TestEnterTakesTheNextStep: while the story waits for the viewer, Enter repairs the ledger and
// starts the replay, so that no other terminal is needed.
func TestEnterTakesTheNextStep(t *testing.T) {
	receivers, err := demo.Open(t.Context(), func(demo.Receipt) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = receivers.Close() }()
	f := newFake(t, always(201, `{"id":"rpl_1"}`))
	c, err := client.New(client.Options{Server: f.URL, Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	key := &enter{session: &session{World: &cli.World{Stderr: &said}}, receivers: receivers, client: c}
	key.asked.Store(true)
	key.press(t.Context())
	key.press(t.Context())
	if !receivers.Fixed() || len(f.seen) != 2 || !strings.HasSuffix(f.seen[0].Target, "/replay") || f.seen[1].Target != "/v1/events" ||
		!strings.Contains(said.String(), "its dead letters are replayed") {
		t.Errorf("%v %s", f.seen, said.String())
	}
}

// The story of grapnel dev, to its end: each step is told once, with the server's own answers.
func TestDevPlaysItsStory(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "dev")
	p := launch(t, nil, "dev", "--listen", "127.0.0.1:0", "--data", data)
	env := map[string]string{"GRAPNEL_SERVER": p.url, "GRAPNEL_KEY_FILE": filepath.Join(data, "admin.key")}
	poll(t, "it asks for a repair and a replay", func() bool { return strings.Contains(p.errs.String(), "dlq replay --endpoint ep_") })
	told := p.errs.String()
	repair := regexp.MustCompile(`curl -X POST (http://127\.0\.0\.1:\d+/ledger/fix)`).FindStringSubmatch(told)
	endpoint := regexp.MustCompile(`dlq replay --endpoint (ep_\w+) --yes`).FindStringSubmatch(told)
	if repair == nil || endpoint == nil {
		t.Fatalf("no commands to paste:\n%s", told)
	}
	if got := invoke(t, env, "", "dlq", "list", "--endpoint", endpoint[1], "--jq", `[.data[] | .reason_code]`); got.out !=
		`["exhausted","exhausted","exhausted"]`+"\n" {
		t.Errorf("dead letters before the repair: %+v", got)
	}
	answer, err := http.Post(repair[1], "", nil) //nolint:noctx // as the line that is pasted
	if err != nil || answer.StatusCode != http.StatusNoContent {
		t.Fatalf("repairing: %v, %v", answer, err)
	}
	_ = answer.Body.Close()
	if got := invoke(t, env, "", "dlq", "replay", "--endpoint", endpoint[1], "--yes"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	poll(t, "the last step is done", func() bool { return strings.Count(p.errs.String(), "✓ ") == 7 })
	for _, want := range []string{
		"✓ A failed attempt is repeated until it succeeds: evt_demo_1 arrived at attempt 3",
		"✓ An endpoint that is down gets probes only: the circuit is open, ",
		"✓ What it missed arrives when it is back: all 9 arrived",
		"✓ What cannot succeed becomes a dead letter: the ledger answered 422 to 3 payments",
		"✓ The cause is visible: currency is JPY in 3 of 3 that failed and in 0 of 3 that arrived",
		"✓ A duplicate does no harm: 4 requests, 3 events, 3 effects; a receiver that does not remember events would have 4",
		"Press Enter here, or run:", "\n  The dashboard: " + p.url + "\n",
		"✓ Dead letters are replayed: 3 dead letters were delivered after the repair",
	} {
		if !strings.Contains(p.errs.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, p.errs.String())
		}
	}
	if got := p.stop(); got.code != 0 {
		t.Errorf("%+v", got)
	}
}

// In the directory of dev and serve, commands have the key of whichever of them they talk to.
func TestCommandsFindTheKeyOfDev(t *testing.T) {
	t.Chdir(t.TempDir())
	dev := launch(t, nil, "dev", "--listen", "127.0.0.1:0")
	find := func(server string) {
		t.Helper()
		if got := invoke(t, map[string]string{"GRAPNEL_SERVER": server}, "", "keys", "list", "-o", "name"); got.code != 0 || got.out != "key_admin\n" {
			t.Errorf("%+v", got)
		}
	}
	find(dev.url)
	serve := launch(t, nil, "serve", "--listen", "127.0.0.1:0")
	find(serve.url)
	find(dev.url)

	for _, p := range []process{dev, serve} {
		at := strings.TrimPrefix(p.url, "http://")
		for _, args := range []string{"serve --store sqlite:other/g.db --listen " + at, "dev --data other --listen " + at} {
			got := invoke(t, nil, "", strings.Fields(args)...)
			if got.code != 1 || !strings.Contains(got.errs, "a Grapnel answers there") || !strings.Contains(got.errs, "--listen") {
				t.Errorf("%s: %+v", args, got)
			}
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	numbered := launch(t, nil, "dev", "--data", "other", "--listen", port)
	if numbered.url != "http://127.0.0.1:"+port {
		t.Errorf("--listen %s listens at %s", port, numbered.url)
	}
}

func TestDevTakesAnotherPortWhenItsOwnIsTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:8420")
	if err == nil {
		defer func() { _ = l.Close() }()
	} // else another process has it, which is as good
	p := launch(t, nil, "dev", "--fresh")
	if p.url == "http://127.0.0.1:8420" || !strings.HasPrefix(p.url, "http://127.0.0.1:") {
		t.Errorf("listens at %s", p.url)
	}
	if got := p.stop(); got.code != 0 || !strings.Contains(got.errs, "127.0.0.1:8420 is in use; taking another port") {
		t.Errorf("%+v", got)
	}
}
