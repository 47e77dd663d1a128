package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Durations on the command line may have days, and the begin of a range is in the past.
func TestTimesOnTheCommandLine(t *testing.T) {
	server := newFake(t, func(*http.Request) (int, string) { return http.StatusOK, `{"data":[],"next":null}` })
	env := map[string]string{"GRAPNEL_SERVER": server.URL, "GRAPNEL_KEY": "k"}
	list := func(from string) (result, time.Time) {
		t.Helper()
		server.seen = nil
		got := invoke(t, env, "", "events", "list", "--timeout", "1d", "--from", from)
		if len(server.seen) == 0 {
			return got, time.Time{}
		}
		target, err := url.Parse(server.seen[0].Target)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, target.Query().Get("from"))
		if err != nil {
			t.Fatal(err)
		}
		return got, at
	}
	got, at := list("7d")
	if days := time.Since(at).Hours() / 24; got.code != 0 || days < 7 || days > 7.1 {
		t.Errorf("--from 7d: exit %d, %.2f days ago: %s", got.code, days, got.errs)
	}
	for text, why := range map[string]string{
		"-1h": "in the future", "2999-01-01T00:00:00Z": "in the future", "7 days": "6h or 7d",
	} {
		if got, at := list(text); got.code != 2 || !at.IsZero() || !strings.Contains(got.errs, "--from") || !strings.Contains(got.errs, why) {
			t.Errorf("--from %s: exit %d, asked for %v: %s", text, got.code, at, got.errs)
		}
	}
	if got := invoke(t, env, "", "events", "list", "--timeout", "a day"); got.code != 2 || !strings.Contains(got.errs, "30d") {
		t.Errorf("--timeout 'a day': exit %d: %s", got.code, got.errs)
	}
}
