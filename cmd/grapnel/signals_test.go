package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// asProgram makes this test binary the program itself: signals need a process of its own.
const asProgram = "GRAPNEL_TEST_AS_PROGRAM"

// asReceiver makes it a receiver that accepts every request, at the address of its value.
const asReceiver = "GRAPNEL_TEST_AS_RECEIVER"

func TestMain(m *testing.M) {
	if address := os.Getenv(asReceiver); address != "" { // before asProgram, which is inherited
		panic(http.ListenAndServe(address, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))) //nolint:gosec // a test's
	}
	if os.Getenv(asProgram) != "" {
		main()
	}
	// nohup, and a shell that starts the tests in the background, have them ignore signals, and a
	// program inherits that. One that is started by a process with a handler has the default instead.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(m.Run())
}

// environment makes this test binary the program. With the race detector a program takes a second
// to exit, unless GORACE says less.
func environment(more ...string) []string {
	return append([]string{asProgram + "=1", "GORACE=" + os.Getenv("GORACE")}, more...)
}

// child starts the program as a process and waits for its line.
func child(t *testing.T, args ...string) (cmd *exec.Cmd, url string) { return logging(t, nil, args...) }

// logging is child with a file for the program's log.
func logging(t *testing.T, log *os.File, args ...string) (cmd *exec.Cmd, url string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), self, args...)
	cmd.Env = environment("GRAPNEL_ADMIN_KEY="+adminKey, "GRAPNEL_EGRESS_ALLOW=127.0.0.0/8", "GOCOVERDIR="+t.TempDir())
	if log != nil {
		cmd.Stderr = log
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the program said nothing: %v", err)
	}
	_, url, _ = strings.Cut(strings.TrimSpace(line), " at ")
	return cmd, url
}

// ended waits for a process and says how it ended: its exit code, or the signal.
func ended(t *testing.T, cmd *exec.Cmd) (code int, by os.Signal) {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return -1, status.Signal()
	}
	return cmd.ProcessState.ExitCode(), nil
}

func TestFirstSignalDrainsAndASecondOneEnds(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 8), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer receiver.Close()
	defer close(release)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		store := "sqlite:" + filepath.Join(t.TempDir(), "grapnel.db")
		cmd, _ := child(t, "serve", "--listen", "127.0.0.1:0", "--store", store)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if code, by := ended(t, cmd); code != 0 || by != nil {
			t.Errorf("%v on an idle server: exit %d, signal %v", signal, code, by)
		}

		cmd, url := child(t, "serve", "--listen", "127.0.0.1:0", "--store", store, "--drain-timeout", "1h")
		env := map[string]string{"GRAPNEL_SERVER": url, "GRAPNEL_KEY": adminKey}
		for _, args := range []string{"endpoints create " + receiver.URL, "send a.b"} {
			if got := invoke(t, env, "", strings.Fields(args)...); got.code != 0 {
				t.Fatalf("%+v", got)
			}
		}
		<-arrived
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		poll(t, "the server drains", func() bool { return invoke(t, env, "", "keys", "list").code == 6 })
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if code, by := ended(t, cmd); by != signal {
			t.Errorf("a second %v while draining: exit %d, signal %v", signal, code, by)
		}
	}
}

// The reader of the log dies, and the server writes a line. It does not end for that.
func TestServerOutlivesTheReaderOfItsLog(t *testing.T) {
	t.Parallel()
	reader, log, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd, _ := logging(t, log, "serve", "--listen", "127.0.0.1:0", "--store", "sqlite:"+filepath.Join(t.TempDir(), "grapnel.db"))
	if err := errors.Join(reader.Close(), log.Close(), cmd.Process.Signal(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	if code, by := ended(t, cmd); code != 0 || by != nil {
		t.Errorf("exit %d, signal %v", code, by)
	}
}

// TestAServerThatWaitsForItsDatabaseStops: as a server that runs, it exits with 0.
func TestAServerThatWaitsForItsDatabaseStops(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "serve", "--listen", "127.0.0.1:0", "--store",
		"postgres://u:p@"+closed.Addr().String()+"/g?sslmode=disable")
	cmd.Dir, cmd.Env = t.TempDir(), environment("GRAPNEL_ADMIN_KEY="+adminKey, "GOCOVERDIR="+t.TempDir())
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "database not usable yet; retrying") {
		t.Fatalf("it said %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(lines)
	if code, by := ended(t, cmd); code != 0 || by != nil || bytes.Contains(rest, []byte("error:")) {
		t.Errorf("exit %d, signal %v: %s", code, by, rest)
	}
}

func TestCommandThatIsInterruptedSaysSo(t *testing.T) {
	asked := make(chan struct{}, 1)
	slow := newFake(t, func(r *http.Request) (int, string) {
		asked <- struct{}{}
		<-r.Context().Done()
		return http.StatusOK, "{}"
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "events", "list")
	cmd.Env = environment("GRAPNEL_SERVER="+slow.URL, "GOCOVERDIR="+t.TempDir())
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code, _ := ended(t, cmd); code != 130 {
		t.Errorf("exits %d", code)
	}
}

// A test that is interrupted while it waits for the answer does not say that none came in time.
func TestInterruptedTestSaysSo(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	f := newFake(t, func(r *http.Request) (int, string) {
		if r.Method == http.MethodGet {
			interrupt()
		}
		return http.StatusOK, `{"id":"dlv_1","status":"pending"}`
	})
	var errs bytes.Buffer
	code := runProgram(ctx, &cli.World{Args: []string{"endpoints", "test", "ep_1"}, Stdin: strings.NewReader(""), Stdout: io.Discard,
		Stderr: &errs, Now: time.Now, Lookup: func(name string) (string, bool) { v, ok := f.env()[name]; return v, ok }})
	if code != 130 || strings.Contains(errs.String(), "no outcome") || !strings.Contains(errs.String(), "deliveries get dlv_1") {
		t.Errorf("exits %d: %s", code, errs.String())
	}
}

// silent is a standard input at which no line comes: it interrupts the command that reads it.
type silent struct {
	interrupt func()
	ended     chan struct{}
}

func (s silent) Read([]byte) (int, error) {
	s.interrupt()
	<-s.ended
	return 0, io.EOF
}

// A command that reads its standard input ends at the first signal, and not once a line comes.
func TestInterruptEndsAReadOfTheInput(t *testing.T) {
	in := silent{ended: make(chan struct{})}
	var ctx context.Context
	ctx, in.interrupt = context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- runProgram(ctx, &cli.World{Args: []string{"send", "a.b", "-d", "-"}, Stdin: in, Stdout: io.Discard, Stderr: io.Discard,
			Now: time.Now, Lookup: func(string) (string, bool) { return "", false }})
	}()
	late := time.AfterFunc(time.Minute, func() { close(in.ended) })
	if got := <-code; got != 130 {
		t.Errorf("exits %d", got)
	}
	if late.Stop() {
		close(in.ended)
	}
}

// A server without a config file says at SIGHUP that it has none, so a person who has changed a
// variable elsewhere learns that it has no effect.
func TestHangupWithoutAConfigFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said := filepath.Join(dir, "log")
	log, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	cmd, _ := logging(t, log, "serve", "--listen", "127.0.0.1:0", "--store", "sqlite:"+filepath.Join(dir, "grapnel.db"))
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	poll(t, "the log says what is missing", func() bool {
		all, _ := os.ReadFile(said)
		return strings.Contains(string(all), "no config file; most settings cannot change")
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, by := ended(t, cmd); code != 0 || by != nil {
		t.Errorf("exit %d, signal %v", code, by)
	}
}

// SIGHUP makes a server read its config file again. What it can change takes effect, the rest is
// named, and after a fault everything stays.
func TestHangupReadsSettingsAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, said := filepath.Join(dir, "grapnel.yaml"), filepath.Join(dir, "log")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte("listen: 127.0.0.1:0\nstore: sqlite:"+filepath.Join(dir, "grapnel.db")+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("max_types: 1\ntrusted_proxies: 127.0.0.1\n")
	log, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	cmd, url := logging(t, log, "serve", "--config", config)
	env := map[string]string{"GRAPNEL_SERVER": url, "GRAPNEL_KEY": adminKey}
	logged := func(text string) func() bool {
		return func() bool { all, _ := os.ReadFile(said); return strings.Contains(string(all), text) }
	}
	hangup := func(text, until string) {
		t.Helper()
		put(text)
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		poll(t, "the log says "+until, logged(until))
	}
	setting := func(name string) string {
		return strings.TrimSpace(invoke(t, env, "", "config", "show", "--jq", `.settings[]|select(.name=="`+name+`").value`, "--config", config).out)
	}
	if got := invoke(t, env, "", "send", "a.b"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := invoke(t, env, "", "send", "c.d"); got.code != 2 {
		t.Fatalf("a second type under max_types 1: %+v", got)
	}
	hangup("max_types: nonsense\n", "settings not read again")
	if got := invoke(t, env, "", "send", "c.d"); got.code != 2 {
		t.Fatalf("after a fault: %+v", got)
	}
	hangup("max_types: 2\nlog_level: debug\ndrain_timeout: 7s\nretention: 48h\n", "changed=\"[log-level max-types retention trusted-proxies]\"")
	if got := invoke(t, env, "", "send", "c.d"); got.code != 0 {
		t.Errorf("after max_types became 2: %+v", got)
	}
	if !logged("settings changed that need a restart")() || !logged("drain-timeout")() || setting("max-types") != "2" {
		t.Error("the log does not name drain-timeout, or config show has the old value")
	}
	var shown struct {
		Settings []struct{ Name, Value string }
	}
	doc, err := http.NewRequest(http.MethodGet, url+"/v1/settings", nil)
	if err != nil {
		t.Fatal(err)
	}
	doc.Header.Set("Authorization", "Bearer "+adminKey)
	answer, err := http.DefaultClient.Do(doc)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(&shown); err != nil {
		t.Fatal(err)
	}
	for _, s := range shown.Settings {
		if want := map[string]string{"max-types": "2", "drain-timeout": "30s", "retention": "48h", "log-level": "debug"}[s.Name]; want != "" && s.Value != want {
			t.Errorf("the server says %s is %s, not %s", s.Name, s.Value, want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, by := ended(t, cmd); code != 0 || by != nil {
		t.Errorf("exit %d, signal %v", code, by)
	}
}
