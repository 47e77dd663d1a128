package main

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A refusal names each fault once, by the flag or argument that is at fault.
func TestRefusalsNameFlags(t *testing.T) {
	refuse := func(pointers ...string) string {
		var faults, detail []string
		for _, p := range pointers {
			faults = append(faults, `{"pointer":"`+p+`","detail":"must be right"}`)
			detail = append(detail, p+": must be right")
		}
		return `{"code":"invalid","title":"T","status":422,"detail":"` + strings.Join(detail, "; ") + `","errors":[` + strings.Join(faults, ",") + `]}`
	}
	for _, c := range []struct {
		args, pointers, want string
	}{
		{"send a.b --key k", "/type /key", "TYPE: must be right; --key: must be right"},
		{"endpoints create http://x.test", "/event_types/0 /url /max_concurrency", "--types: must be right; URL: must be right; --max-concurrency: must be right"},
		{"endpoints create http://x.test", "/policy/schedule/delays/1 /rate_limit/per_second", "--policy: must be right; --rate: must be right"},
		{"deliveries list", "?status ?cursor", "--status: must be right; --cursor: must be right"},
		{"sources create stripe --scheme none", "/verify/timestamp_header /dedupe/window", "--timestamp-header: must be right; --dedupe-window: must be right"},
		{"replay plan ep_1 --type a.b", "/event_types/0 /keys/1 /from",
			"--type: must be right; --event-key: must be right; --since: must be right"},
		{"deliveries list", "?from ?to", "--since: must be right; --until: must be right"},
		{"stats", "?from ?to", "--since: must be right; --until: must be right"},
		{"inbox list", "?from ?to", "--since: must be right; --until: must be right"},
		{"events list", "?from ?to", "--since: must be right; --until: must be right"},
		{"incidents plan T --text t --from 1h --to 1h", "/starts_at /ends_at /components/0", "--from: must be right; --to: must be right; --component: must be right"},
		{"incidents update inc_1 --text t", "/ends_at", "--to: must be right"},
		{"deliveries list", "?key", "--event-key: must be right"},
		{"keys list", "/somewhere/else", "/somewhere/else: must be right"},
	} {
		server := newFake(t, func(*http.Request) (int, string) {
			return http.StatusUnprocessableEntity, refuse(strings.Fields(c.pointers)...)
		})
		got := invoke(t, map[string]string{"GRAPNEL_SERVER": server.URL, "GRAPNEL_KEY": "k"}, "", strings.Fields(c.args)...)
		if got.code != 2 || got.errs != "error: "+c.want+"\n" {
			t.Errorf("%s: exit %d, said %q, not %q", c.args, got.code, got.errs, c.want)
		}
	}
}

// send publishes its standard input; a flag is preferred to it.
func TestSendTakesWhatIsPiped(t *testing.T) {
	for _, c := range []struct{ stdin, args, want string }{
		{`{"q":1}`, "send x.piped", `"data":{"q":1}`},
		{``, "send x.piped", `"data":{}`},
		{`{"q":1}`, `send x.piped -d {"q":2}`, `"data":{"q":2}`},
	} {
		server := newFake(t, func(*http.Request) (int, string) { return http.StatusAccepted, `{"id":"evt_1"}` })
		got := invoke(t, map[string]string{"GRAPNEL_SERVER": server.URL, "GRAPNEL_KEY": "k"}, c.stdin, strings.Fields(c.args)...)
		if got.code != 0 || len(server.seen) != 1 || !strings.Contains(server.seen[0].Body, c.want) {
			t.Errorf("%q into %s: %+v, sent %+v", c.stdin, c.args, got, server.seen)
		}
	}
}

// onTerminal runs the program with a terminal on which the given text is typed.
func onTerminal(t *testing.T, env []string, typed, command string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "script", "-qec", self+" "+command, "/dev/null")
	cmd.Env = append(environment("TERM=xterm", "PATH="+os.Getenv("PATH"), "GOCOVERDIR="+t.TempDir()), env...)
	cmd.Stdin = strings.NewReader(typed)
	said, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(said)
}

// Help and errors ask the terminal nothing: one that does not answer would make them wait.
func TestTheTerminalIsNotAsked(t *testing.T) {
	for _, command := range []string{"--help", "endpoints create --help", "senf", "send"} {
		if said := onTerminal(t, nil, "", command); said == "" || strings.Contains(said, "\x1b]") || strings.Contains(said, "\x1b[c") {
			t.Errorf("%s says %q", command, said)
		}
	}
}

// On a terminal deleting asks first; a script need not say yes.
func TestDeletingAsksOnATerminal(t *testing.T) {
	t.Parallel()
	server := newFake(t, func(*http.Request) (int, string) { return http.StatusNoContent, "" })
	env := map[string]string{"GRAPNEL_SERVER": server.URL, "GRAPNEL_KEY": "k"}
	vars := []string{"GRAPNEL_SERVER=" + server.URL, "GRAPNEL_KEY=k"}
	for what, question := range map[string]string{"endpoints": "Delete endpoint ep_1?", "queues": "Delete queue que_1?", "keys": "Delete API key key_1?",
		"sources": "Delete source src_1?", "policies": "Delete policy pol_1?"} {
		id := strings.TrimSuffix(question[strings.LastIndexByte(question, ' ')+1:], "?")
		server.seen = nil
		if said := onTerminal(t, vars, "n\n", what+" delete "+id); !strings.Contains(said, question) || len(server.seen) > 0 {
			t.Errorf("%s: asked for %v after no: %s", what, server.seen, said)
		}
		if said := onTerminal(t, vars, "y\n", what+" delete "+id); len(server.seen) != 1 {
			t.Errorf("%s: asked for %v after yes: %s", what, server.seen, said)
		}
		if got := invoke(t, env, "", what, "delete", id); got.code != 0 || len(server.seen) != 2 {
			t.Errorf("%s: a script: %+v", what, got)
		}
	}
}

// What a terminal sends to all of its processes reaches the consumer, and not the handler that it
// runs: that may finish.
func TestInterruptLetsAHandlerFinish(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		dir := t.TempDir()
		begun, let, finished := filepath.Join(dir, "begun"), filepath.Join(dir, "let"), filepath.Join(dir, "finished")
		handler := filepath.Join(dir, "handler")
		script := "#!/bin/sh\n: > " + begun + "\nwhile [ ! -e " + let + " ]; do sleep 0.01; done\n: > " + finished + "\n"
		if err := os.WriteFile(handler, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		server, url := child(t, "serve", "--listen", "127.0.0.1:0", "--store", "sqlite:"+filepath.Join(dir, "grapnel.db"))
		env := map[string]string{"GRAPNEL_SERVER": url, "GRAPNEL_KEY": adminKey}
		for _, args := range []string{"queues create q", "send a.b"} {
			if got := invoke(t, env, "", strings.Fields(args)...); got.code != 0 {
				t.Fatalf("%+v", got)
			}
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		consumer := exec.CommandContext(t.Context(), self, "queues", "consume", "q", "--", handler)
		consumer.Env = environment("GRAPNEL_SERVER="+url, "GRAPNEL_KEY="+adminKey, "PATH="+os.Getenv("PATH"), "GOCOVERDIR="+dir)
		consumer.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal signals a whole group
		var said bytes.Buffer
		consumer.Stderr = &said
		if err := consumer.Start(); err != nil {
			t.Fatal(err)
		}
		exists := func(path string) func() bool {
			return func() bool { _, err := os.Stat(path); return err == nil }
		}
		poll(t, "the handler begins", exists(begun))
		if err := syscall.Kill(-consumer.Process.Pid, signal); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(let, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if code, by := ended(t, consumer); code != 0 || by != nil || !exists(finished)() || !strings.Contains(said.String(), "ack") {
			t.Errorf("%v: exit %d, signal %v, handler finished %v: %s", signal, code, by, exists(finished)(), said.String())
		}
		if err := server.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, by := ended(t, server); code != 0 || by != nil {
			t.Errorf("SIGTERM ends the server with exit %d, signal %v", code, by)
		}
	}
}

// A server whose terminal closes drains: SIGHUP reloads only where a terminal is not the reason.
func TestTheTerminalsEndEndsTheServer(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	store := "sqlite:" + filepath.Join(t.TempDir(), "grapnel.db")
	terminal := exec.CommandContext(t.Context(), "script", "-qec", self+" serve --listen 127.0.0.1:0 --store "+store, "/dev/null")
	terminal.Env = environment("TERM=xterm", "PATH="+os.Getenv("PATH"), "GOCOVERDIR="+t.TempDir(), "GRAPNEL_ADMIN_KEY="+adminKey)
	said, err := terminal.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := terminal.Start(); err != nil {
		t.Fatal(err)
	}
	url := ""
	for lines := bufio.NewScanner(said); url == "" && lines.Scan(); {
		_, url, _ = strings.Cut(lines.Text(), "accepts requests at ")
		url, _, _ = strings.Cut(strings.TrimSpace(url), "\x1b") // the end of a colour
	}
	env := map[string]string{"GRAPNEL_SERVER": url, "GRAPNEL_KEY": adminKey}
	if got := invoke(t, env, "", "keys", "list"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if err := terminal.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Wait()
	poll(t, "the server ends", func() bool { return invoke(t, env, "", "keys", "list").code == 6 })
}
