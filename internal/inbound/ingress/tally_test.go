package ingress

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// TestRefusedSourcesAreLogged: the first request that cannot be verified is logged at once. After
// that each source gets one line per minute with the count.
func TestRefusedSourcesAreLogged(t *testing.T) {
	var logged bytes.Buffer
	w := newWorld(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	key := grapnel.Verify{Scheme: "api_key", Secrets: secrets("right")}
	for _, id := range []string{"src_1", "src_2"} {
		w.source(key, func(s *grapnel.Source) { s.ID = id })
	}
	w.source(key, func(s *grapnel.Source) { s.ID, s.OnUnverified = "src_3", grapnel.Quarantine })
	lines := func() string {
		defer logged.Reset()
		text := logged.String()
		for _, cut := range []string{"time=", "level=INFO", "msg=", "tenant=acme", `reason="header X-Api-Key is missing"`} {
			if strings.Count(text, cut) != strings.Count(text, "\n") {
				t.Errorf("a line lacks %s: %s", cut, text)
			}
		}
		return text
	}
	send := func(n int, source string, headers ...string) {
		for range n {
			w.receiver.Take(httptest.NewRecorder(), request(http.MethodPost, "/in/"+source, `{}`, headers...), source)
		}
	}
	for _, c := range []struct {
		after     time.Duration
		n         int
		source    string
		says, not string
	}{
		{0, 1, "src_1", `msg="requests not verified; refused" source=src_1 tenant=acme requests=1 `, ""},
		{0, 1, "src_2", "source=src_2 tenant=acme requests=1 ", "src_1"},
		{59 * time.Second, 40, "src_1", "", "src_1"},
		{time.Second, 40, "src_1", "source=src_1 tenant=acme requests=41 ", ""},
		{time.Minute, 2, "src_1", "source=src_1 tenant=acme requests=40 ", ""},
		{time.Hour, 1, "src_3", `msg="requests not verified; quarantined" source=src_3 tenant=acme requests=1 `, "src_1"},
		{-2 * time.Hour, 1, "src_1", "source=src_1 tenant=acme requests=2 ", ""},
	} {
		w.now = w.now.Add(c.after)
		send(c.n, c.source)
		text := lines()
		want, other := min(len(c.says), 1), c.not != "" && strings.Contains(text, c.not)
		if strings.Count(text, "\n") != want || !strings.Contains(text, c.says) || other {
			t.Errorf("%d at %s after %v: want %q, logged %s", c.n, c.source, c.after, c.says, text)
		}
	}
	// A verified request is not logged, and a new revision does not reset the interval.
	w.now = w.now.Add(time.Second)
	w.source(key)
	send(1, "src_1", "X-Api-Key", "right")
	send(1, "src_1")
	if text := lines(); text != "" {
		t.Errorf("logged %s", text)
	}
}

// TestATenantsExcessIsNoErrorOfTheServer: a tenant with too many pending deliveries or event types
// gets a line of level info for each source. It hides no failure in the same minute.
func TestATenantsExcessIsNoErrorOfTheServer(t *testing.T) {
	var logged bytes.Buffer
	w := newWorld(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	w.source(grapnel.Verify{Scheme: "api_key", Secrets: secrets("right key")})
	for range 3 {
		for _, w.err = range []error{&grapnel.Error{Code: grapnel.CodeQuota, Detail: "full"}, &grapnel.Error{Code: grapnel.CodeTooManyTypes}} {
			w.post(`{}`, "X-Api-Key", "right key")
		}
	}
	if strings.Count(logged.String(), "\n") != 1 || !strings.Contains(logged.String(), `level=INFO msg="requests over a limit of the tenant; refused"`) {
		t.Errorf("logged %s", &logged)
	}
	w.err = store.ErrUnknown
	w.post(`{}`, "X-Api-Key", "right key")
	if strings.Count(logged.String(), "level=ERROR") != 1 {
		t.Errorf("a failure: logged %s", &logged)
	}
}
