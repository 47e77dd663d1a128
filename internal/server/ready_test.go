package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// refusing is a store that reports that it cannot commit events.
type refusing struct {
	keeper
	why atomic.Pointer[error]
}

func (r *refusing) Unable() error {
	if why := r.why.Load(); why != nil {
		return *why
	}
	return nil
}

// page is the answer to a GET, with the body read.
func page(t *testing.T, s running, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestReadinessFollowsTheStore: /readyz, /status and grapnel_store_full report a store's state at
// once and in both directions, and the log reports each change once, however often probes ask.
func TestReadinessFollowsTheStore(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	var logged bytes.Buffer
	o := options(t.TempDir())
	o.Log = slog.New(slog.NewJSONHandler(&logged, nil))
	o.MasterKey, _ = masterFile(t, "a") // without it the log has a warning of its own
	opened, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	db := &refusing{keeper: opened.life.store}
	opened.life.store = db
	s := run(t, opened)
	// Each state of the store lasts for some probes.
	full := error(grapnel.Errorf(grapnel.CodeStorageFull, "no room on /dev/sdb1"))
	gone := errors.New("no connection to 10.1.2.3")
	for _, c := range []struct {
		why    error
		ready  int
		events string
		full   string
	}{
		{nil, 200, "accepted", "0"}, {full, 503, "refused", "1"}, {nil, 200, "accepted", "0"},
		{gone, 503, "refused", "0"}, {nil, 200, "accepted", "0"},
	} {
		db.why.Store(nil)
		if c.why != nil {
			db.why.Store(&c.why)
		}
		for range 3 {
			if status, body := page(t, s, "/readyz"); status != c.ready || strings.Contains(body, "/dev") || strings.Contains(body, "10.1") {
				t.Errorf("%v: /readyz answers %d %s", c.why, status, body)
			}
			if status, body := page(t, s, "/status"); status != 200 || !strings.Contains(body, `"events":"`+c.events+`"`) {
				t.Errorf("%v: /status answers %d %s", c.why, status, body)
			}
			if _, body := page(t, s, "/metrics"); !strings.Contains(body, "\ngrapnel_store_full "+c.full+"\n") {
				t.Errorf("%v: /metrics lacks grapnel_store_full %s", c.why, c.full)
			}
			if status, _ := page(t, s, "/livez"); status != 200 {
				t.Errorf("%v: /livez answers %d", c.why, status)
			}
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	var changes []string
	for line := range strings.Lines(logged.String()) {
		var e struct{ Level, Msg, Err, After string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Level != "INFO" || strings.Contains(e.Msg, "ready") {
			changes = append(changes, e.Level+" "+e.Err)
		}
		if waited, err := time.ParseDuration(e.After); strings.Contains(e.Msg, "again") && (err != nil || waited < 0) {
			t.Errorf("it says that it was not ready for %q", e.After)
		}
	}
	if got := strings.Join(changes, "; "); got != "WARN "+full.Error()+"; INFO ; WARN "+gone.Error()+"; INFO " {
		t.Errorf("the log says: %s", got)
	}
}

// TestProbes: the time without readiness counts from the first probe that failed.
func TestProbes(t *testing.T) {
	var logged bytes.Buffer
	now := time.Unix(1e9, 0)
	p := probes{log: slog.New(slog.NewTextHandler(&logged, nil)), now: func() time.Time { return now }}
	why := errors.New("gone")
	for range 2 {
		for _, err := range []error{nil, why, why, nil} {
			if p.found(err) != err { //nolint:errorlint // the very error
				t.Error("a probe changes what was found")
			}
			now = now.Add(1500 * time.Millisecond)
		}
	}
	if n := strings.Count(logged.String(), "after=3s"); n != 2 || strings.Count(logged.String(), "\n") != 4 {
		t.Errorf("logged %s", logged.String())
	}
}

// TestStartingIsNoTrouble: a server that has never been ready is starting. That is logged, but not
// as a warning.
func TestStartingIsNoTrouble(t *testing.T) {
	var logged bytes.Buffer
	p := newProbes(slog.New(slog.NewTextHandler(&logged, nil)))
	for _, err := range []error{errors.New("starting"), errors.New("starting"), nil, errors.New("gone")} {
		_ = p.found(err)
	}
	said := strings.Split(strings.TrimSpace(logged.String()), "\n")
	if len(said) != 3 || !strings.Contains(said[0], "level=INFO") || !strings.Contains(said[1], "level=INFO") ||
		!strings.Contains(said[2], "level=WARN") {
		t.Errorf("logged %s", logged.String())
	}
}

// TestDrainingIsNoTrouble: a stopping server is not ready, and its log already gives the reason.
func TestDrainingIsNoTrouble(t *testing.T) {
	var logged bytes.Buffer
	s := newServer(Options{Log: slog.New(slog.NewTextHandler(&logged, nil))})
	s.stopping.Store(true)
	if err := s.ready(); grapnel.CodeOf(err) != grapnel.CodeUnavailable || logged.Len() != 0 {
		t.Errorf("%v, logged %s", err, logged.String())
	}
}
