package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// Durations on the command line may have days, and the begin of a range is in the past.
func TestTimesOnTheCommandLine(t *testing.T) {
	server := newFake(t, func(*http.Request) (int, string) { return http.StatusOK, `{"data":[],"next":null}` })
	env := map[string]string{"GRAPNEL_SERVER": server.URL, "GRAPNEL_KEY": "k"}
	list := func(from string) (result, time.Time) {
		t.Helper()
		server.seen = nil
		got := invoke(t, env, "", "events", "list", "--timeout", "1d", "--since", from)
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
		t.Errorf("--since 7d: exit %d, %.2f days ago: %s", got.code, days, got.errs)
	}
	for text, why := range map[string]string{
		"-1h": "in the future", "2999-01-01T00:00:00Z": "in the future", "7 days": "6h or 7d",
	} {
		if got, at := list(text); got.code != 2 || !at.IsZero() || !strings.Contains(got.errs, "--since") || !strings.Contains(got.errs, why) {
			t.Errorf("--since %s: exit %d, asked for %v: %s", text, got.code, at, got.errs)
		}
	}
	if got := invoke(t, env, "", "events", "list", "--timeout", "a day"); got.code != 2 || !strings.Contains(got.errs, "30d") {
		t.Errorf("--timeout 'a day': exit %d: %s", got.code, got.errs)
	}
}

// TestEveryDurationHasDays: whatever flag takes a duration takes days, and whatever flag takes the
// begin or end of a range refuses a duration that leads into the future.
func TestEveryDurationHasDays(t *testing.T) {
	durations, times := 0, 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.Type() {
			case "duration":
				if durations++; f.Value.Set("2d") != nil {
					t.Errorf("%s --%s takes no days", c.CommandPath(), f.Name)
				}
				if f.Value.Set("-2h") == nil {
					t.Errorf("%s --%s takes a negative duration", c.CommandPath(), f.Name)
				}
			case "time":
				if times++; f.Value.Set("2d") != nil {
					t.Errorf("%s --%s takes no days", c.CommandPath(), f.Name)
				}
				if f.Value.Set("-2h") == nil {
					t.Errorf("%s --%s takes a negative duration", c.CommandPath(), f.Name)
				}
			}
		})
	}
	walk((&session{World: &cli.World{Program: "grapnel", Now: time.Now}}).rootCommand())
	if durations < 15 || times < 10 {
		t.Errorf("only %d durations and %d times", durations, times)
	}
}

// TestFirstTry: the share of first attempts that succeeded is of all that were made, also of those
// whose deliveries are not finished.
func TestFirstTry(t *testing.T) {
	for totals, want := range map[string]string{
		`{"delivered":8,"failed":4,"first_attempts":12,"first_attempt_success":6}`:                        "50.0%",
		`{"delivered":5,"failed":0,"first_attempts":11,"first_attempt_success":5}`:                        "45.5%",
		`{"delivered":0,"failed":0,"first_attempts":3}`:                                                   "0.0%",
		`{"delivered":4,"failed":0,"first_attempts":4,"first_attempt_success":4}`:                         "100.0%",
		`{"delivered":0,"failed":0,"dropped":7,"skipped":2,"first_attempts":0}`:                           "",
		`{"delivered":1,"failed":1,"dropped":9,"skipped":9,"first_attempts":2,"first_attempt_success":1}`: "50.0%",
	} {
		server := newFake(t, always(http.StatusOK, `{"bucket":"hour","data":[],"totals":`+totals+`}`))
		got := invoke(t, server.env(), "", "stats")
		if said := strings.Contains(got.out, "%"); got.code != 0 || said != (want != "") || !strings.Contains(got.out, want) {
			t.Errorf("%s: %q expected in\n%s%s", totals, want, got.out, got.errs)
		}
	}
}
