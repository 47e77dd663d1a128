package main

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

var updateFrames = flag.Bool("update", false, "write the golden frames anew")

// recordedOverview is the answer that the tests of the dashboard use, and the time of it.
func recordedOverview(t *testing.T) (*client.Overview, string, time.Time) {
	t.Helper()
	text, err := os.ReadFile("../../internal/face/web/testdata/api/overview.json")
	if err != nil {
		t.Fatal(err)
	}
	var o client.Overview
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	return &o, string(text), time.Date(2026, 11, 23, 9, 23, 34, 0, time.UTC)
}

// The frames follow from the data alone, fit their width, and are as recorded.
func TestTopFrames(t *testing.T) {
	o, _, now := recordedOverview(t)
	later := now.Add(7 * time.Second)
	for name, f := range map[string]struct {
		topFrame
		width int
	}{
		"top80": {topFrame{server: "http://127.0.0.1:8080", now: now, seen: o, at: now, rates: &rates{12, 11.5, .5}}, 80},
		"top40": {topFrame{server: "http://127.0.0.1:8080", now: now, seen: o, at: now}, 40},
		"away": {topFrame{server: "http://127.0.0.1:8080", now: later, seen: o, at: now,
			trouble: "Server unreachable; asking again every 2s"}, 80},
		"asking": {topFrame{server: "http://127.0.0.1:8080", now: now, trouble: "Asking the server …"}, 80},
		"empty":  {topFrame{server: "http://127.0.0.1:8080", now: now, at: now, seen: &client.Overview{}}, 80},
	} {
		lines := topLines(&f.topFrame, f.width, nil)
		for i, line := range lines {
			if cli.Columns(line) > f.width || strings.ContainsAny(line, "\x1b\r\n") {
				t.Errorf("%s: line %d is wider than %d, or has control characters: %q", name, i, f.width, line)
			}
			lines[i] = strings.TrimRight(line, " ")
		}
		text, path := strings.Join(lines, "\n")+"\n", "testdata/top/"+name+".txt"
		if *updateFrames {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(want) != text {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, text, want)
		}
	}
}

// One frame has the sentences of the dashboard, and no colours in a pipe; -o json is the answer.
func TestTopOnceSaysWhatThePageSays(t *testing.T) {
	o, text, _ := recordedOverview(t)
	server := newFake(t, always(http.StatusOK, text))
	env := map[string]string{"GRAPNEL_SERVER": server.URL, "GRAPNEL_KEY": "k"}
	got := invoke(t, env, "", "top")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // of invoke
	flat := strings.Join(strings.Fields(got.out), " ")
	verdict := words.Overall(now, o)
	wants := []string{verdict.Say(), verdict.Next, words.Backlog(now, o), words.DeadLetters(o), words.States(&o.Endpoints),
		words.Ahead(now, o).Says}
	for _, f := range words.Figures(&o.Totals, say.Count(o.Pending.All)) {
		wants = append(wants, f.Name+" "+f.Value, f.Note)
	}
	for _, want := range wants {
		if !strings.Contains(flat, strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%s\nlacks %q", got.out, want)
		}
	}
	if got.code != 0 || strings.Contains(got.out, "\x1b") {
		t.Errorf("exit %d, %q, %q", got.code, got.errs, got.out)
	}
	for _, args := range [][]string{{"top", "--json"}, {"top", "-o", "json", "--tenant", "acme"}} {
		got := invoke(t, env, "", args...)
		var is client.Overview
		if err := json.Unmarshal([]byte(got.out), &is); err != nil || is.Pending != o.Pending {
			t.Errorf("%v: %v, %s", args, err, got.out)
		}
	}
	if last := server.seen[len(server.seen)-1].Target; last != "/v1/overview?tenant=acme" {
		t.Errorf("asked for %s", last)
	}
	if got := invoke(t, env, "", "top", "--interval", "1ms"); got.code != 2 {
		t.Errorf("--interval 1ms: exit %d", got.code)
	}
}

// board is a screen that a test sees.
type board struct {
	frames chan string
	quit   chan struct{}
	width  atomic.Int64
}

func (b *board) Size() (columns, lines int) { return int(b.width.Load()), 50 }
func (b *board) Quit() <-chan struct{}      { return b.quit }
func (b *board) Draw(lines []string) {
	select {
	case b.frames <- strings.Join(lines, "\n"):
	case <-b.quit:
	}
}

// until reads frames up to one for which a condition holds.
func (b *board) until(t *testing.T, what string, is func(string) bool) {
	t.Helper()
	for range 10_000 {
		if is(<-b.frames) {
			return
		}
	}
	t.Fatalf("no frame %s", what)
}

// A live top goes on while the server is away, follows the width, and ends at q or at a refusal.
func TestTopLive(t *testing.T) {
	_, text, _ := recordedOverview(t)
	var status atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	server := newFake(t, func(*http.Request) (int, string) { return int(status.Load()), text })
	start := func() (*board, chan error) {
		b := &board{frames: make(chan string), quit: make(chan struct{})}
		b.width.Store(80)
		s := &session{World: &cli.World{Stdout: os.Stdout, Now: time.Now, Lookup: func(string) (string, bool) { return "", false }},
			server: server.URL, key: "k", output: cli.Table, timeout: time.Second}
		r, err := s.reader()
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- (&top{reader: r, every: time.Millisecond}).live(context.Background(), b, false) }()
		return b, ended
	}
	b, ended := start()
	b.until(t, "says that the server is away", func(f string) bool { return strings.Contains(f, "Server unreachable") })
	status.Store(http.StatusOK)
	b.until(t, "has numbers and rates", func(f string) bool { return strings.Contains(f, "Per second") })
	b.width.Store(40)
	b.until(t, "is narrow", func(f string) bool { return cli.Columns(strings.SplitN(f, "\n", 2)[0]) == 40 })
	status.Store(http.StatusServiceUnavailable)
	b.until(t, "keeps the last numbers", func(f string) bool {
		return strings.Contains(f, "Server unreachable") && strings.Contains(f, "The numbers below are")
	})
	close(b.quit)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	b, ended = start()
	status.Store(http.StatusUnauthorized)
	for {
		var err error
		select {
		case <-b.frames:
			continue
		case err = <-ended:
		}
		if err == nil {
			t.Error("a refused key does not end it")
		}
		return
	}
}
