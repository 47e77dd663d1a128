package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TestRestoreAndHold: a backup from a stream is restored and held. Its server sends nothing, and
// says why, until the held endpoints are resumed. An endpoint that was paused before stays paused.
func TestRestoreAndHold(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	works := false
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if !works {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		bodies = append(bodies, string(body))
	}))
	defer receiver.Close()
	sent := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(bodies)
	}
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "new")
	env := map[string]string{"GRAPNEL_ADMIN_KEY": adminKey, "GRAPNEL_KEY": adminKey}
	serve := func(dir string) process {
		p := launch(t, env, "serve", "--listen", "127.0.0.1:0", "--store", "sqlite:"+filepath.Join(dir, "grapnel.db"), "--egress-allow", "127.0.0.0/8")
		env["GRAPNEL_SERVER"] = p.url
		return p
	}
	run := func(code int, args ...string) result {
		t.Helper()
		got := invoke(t, env, "", args...)
		if got.code != code {
			t.Fatalf("%v: exit %d, %s%s", args, got.code, got.out, got.errs)
		}
		return got
	}
	id := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(run(0, append(args, "-o", "name")...).out)
	}

	p := serve(from)
	push := id("endpoints", "create", receiver.URL, "--types", "a.*")
	before := id("endpoints", "create", receiver.URL, "--types", "b.*")
	queue := id("queues", "create", "jobs", "--types", "a.*")
	id("endpoints", "pause", before, "--reason", "they move")
	for i := range 3 {
		id("send", "a.x", "-d", fmt.Sprint(i), "--key", "k")
	}
	id("send", "b.x", "-d", "9")
	backup := run(0, "backup", "--store", "sqlite:"+filepath.Join(from, "grapnel.db"), "--to", "-").out
	if got := p.stop(); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if left, err := filepath.Glob(filepath.Join(from, "*.stream*")); err != nil || len(left) > 0 {
		t.Errorf("the stream left %v, %v", left, err)
	}

	got := invoke(t, env, backup, "restore", "-", "--to", to, "--hold", "-o", "json")
	var found struct {
		Held, Pending, Due, Later, Waiting int
		Endpoints                          []struct {
			Endpoint string `json:"endpoint_id"`
			Status   string
			Pending  int
		}
	}
	if err := json.Unmarshal([]byte(got.out), &found); err != nil || got.code != 0 {
		t.Fatalf("%+v: %v", got, err)
	}
	if found.Held != 2 || found.Pending != 7 || found.Due+found.Later != 3 || found.Waiting != 4 || len(found.Endpoints) != 3 {
		t.Errorf("%s", got.out)
	}
	if got := run(5, "restore", filepath.Join(from, "grapnel.db"), "--to", to); !strings.Contains(got.errs, filepath.Join(to, "grapnel.db")) {
		t.Errorf("over a database: %+v", got)
	}

	mu.Lock()
	works = true
	mu.Unlock()
	p = serve(to)
	for _, look := range [][]string{{"endpoints", "get", push}, {"queues", "get", queue}, {"endpoints", "list", "-o", "json"},
		{"why", delivery(t, env, push)}} {
		if got := run(0, look...); !strings.Contains(got.out, grapnel.HeldReason) {
			t.Errorf("%v: %s", look, got.out)
		}
	}
	id("endpoints", "update", push, "--description", "changed while it is held")
	time.Sleep(300 * time.Millisecond) // a server that sent would have begun
	if got := sent(); len(got) > 0 {
		t.Errorf("while all is held, these were sent: %v", got)
	}
	if got := run(0, "endpoints", "resume", "--held", "--reason", "they are ready", "-o", "name"); got.out != push+"\n" {
		t.Errorf("resumed: %s", got.out)
	}
	id("queues", "resume", "--held")
	poll(t, "three are sent", func() bool { return len(sent()) >= 3 })
	if got := sent(); len(got) != 3 || !strings.Contains(got[0], `"data":0`) || !strings.Contains(got[2], `"data":2`) {
		t.Errorf("sent: %v", got)
	}
	if got := run(0, "endpoints", "get", before); !strings.Contains(got.out, "paused") || strings.Contains(got.out, grapnel.HeldReason) {
		t.Errorf("paused before: %s", got.out)
	}
	run(0, "endpoints", "resume", "--held")
	run(5, "hold", "--store", "sqlite:"+filepath.Join(to, "grapnel.db"))
	if got := p.stop(); got.code != 0 {
		t.Errorf("%+v", got)
	}
	run(0, "hold", "--store", "sqlite:"+filepath.Join(to, "grapnel.db"))
	run(3, "hold", "--store", "sqlite:"+filepath.Join(to, "none.db"))
}

// delivery is a pending delivery of an endpoint.
func delivery(t *testing.T, env map[string]string, endpoint string) string {
	t.Helper()
	got := invoke(t, env, "", "deliveries", "list", "--endpoint", endpoint, "--limit", "1", "-o", "name")
	return strings.TrimSpace(got.out)
}

// TestBackupToAStream: nothing is written of a backup that would not be complete.
func TestBackupToAStream(t *testing.T) {
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "grapnel.db")
	p := launch(t, map[string]string{"GRAPNEL_ADMIN_KEY": adminKey}, "serve", "--listen", "127.0.0.1:0", "--store", store)
	copied := filepath.Join(t.TempDir(), "grapnel.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, "grapnel.db"+suffix))
		if err == nil {
			err = os.WriteFile(copied+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := invoke(t, nil, "", "backup", "--store", "sqlite:"+copied, "--to", "-"); got.code != 9 || got.out != "" {
		t.Errorf("not complete: %+v", got)
	}
	got := invoke(t, nil, "", "backup", "--store", store, "--to", "-")
	if got.code != 0 || got.errs != "" {
		t.Errorf("complete: exit %d, %s", got.code, got.errs)
	}
	cut := invoke(t, nil, got.out[:len(got.out)/2], "restore", "-", "--to", filepath.Join(t.TempDir(), "new"))
	if cut.code != 2 || !strings.Contains(cut.errs, "not a complete backup") {
		t.Errorf("cut off: %+v", cut)
	}
	for _, args := range [][]string{{"restore", copied, "--to", dir}, {"backup", "--to", "x"}} {
		pg := invoke(t, map[string]string{"GRAPNEL_STORE": "postgres://db/grapnel"}, "", args...)
		if pg.code != 2 || !strings.Contains(pg.errs, "docs/backup.md") {
			t.Errorf("%v with PostgreSQL: %+v", args, pg)
		}
	}
	if got := p.stop(); got.code != 0 {
		t.Errorf("%+v", got)
	}
}
