package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// What failed while a receiver was wrong is found, noted, put away, counted, replayed in order when
// it is right again, and reported.
func TestDeadLettersAndReplaysAgainstTheServer(t *testing.T) {
	var right atomic.Bool
	var mu sync.Mutex
	arrived := map[string][]string{} // bodies that the receiver has accepted, by key
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !right.Load() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var doc struct{ Data struct{ K, N string } }
		if err := json.NewDecoder(r.Body).Decode(&doc); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		arrived[doc.Data.K] = append(arrived[doc.Data.K], doc.Data.N+r.Header.Get("Grapnel-Trigger"))
	}))
	defer receiver.Close()
	_, env := serve(t)
	call := func(args ...string) string {
		t.Helper()
		got := invoke(t, env, "", args...)
		if got.code != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
		return strings.TrimSpace(got.out)
	}
	endpoint := call("endpoints", "create", receiver.URL, "--policy", `{"max_attempts":1}`, "-o", "name")
	for _, n := range []string{"1", "2", "3"} {
		for _, k := range []string{"a", "b"} {
			call("send", "invoice.paid", "-d", `{"k":"`+k+`","n":"`+n+`"}`, "--key", k)
		}
	}
	poll(t, "all have failed", func() bool { return len(strings.Fields(call("dlq", "list", "-o", "name"))) == 6 })
	dead := strings.Fields(call("dlq", "list", "-o", "name")) // the newest first
	if got := call("deliveries", "list", "--status-code", "400", "--error-class", "status_4xx", "--status", "failed", "-o", "name"); got != strings.Join(dead, "\n") {
		t.Errorf("by how they failed they are %q", got)
	}
	if got := call("dlq", "list", "--text", `"n":"3"`, "-o", "name"); got != strings.Join(dead[:2], "\n") {
		t.Errorf("with a 3 in them are %q", got)
	}
	if got := call("dlq", "note", dead[0], "asked them", "--jq", ".note"); got != "asked them" {
		t.Errorf("the note is %q", got)
	}
	if got := call("dlq", "list", "--jq", ".data[0] | .note, .last.status_code, .days_left"); got != "asked them\n400\n30" {
		t.Errorf("listed as %q", got)
	}
	call("dlq", "discard", dead[0], "--reason", "their customer is gone")
	if got := invoke(t, env, "", "dlq", "discard", dead[1], dead[2], "--reason", "x"); got.code != 2 || !strings.Contains(got.errs, "--yes") {
		t.Errorf("more than one, and nobody to ask: %+v", got)
	}
	rows, err := csv.NewReader(strings.NewReader(call("dlq", "export", "--format", "csv"))).ReadAll()
	if err != nil || len(rows) != 6 || rows[1][0] != dead[1] {
		t.Errorf("exported were %d rows: %v", len(rows), err)
	}
	if got := invoke(t, env, "", "dlq", "export", "--format", "csv"); got.errs != "5 lines of dead letters\n" {
		t.Errorf("5 rows and the names of the columns were counted as %q", got.errs)
	}
	if got := call("deliveries", "export"); len(strings.Split(got, "\n")) != 6 {
		t.Errorf("exported was %q", got)
	}
	file := filepath.Join(t.TempDir(), "all.jsonl")
	call("deliveries", "export", "--file", file)
	if got := invoke(t, env, "", "deliveries", "export", "--file", file); got.code != 1 {
		t.Errorf("over a file that is there: %+v", got)
	}

	if got := call("replay", "plan", endpoint, "--jq", ".total, .keys, .longest_chain, .excluded.discarded"); got != "5\n2\n3\n1" {
		t.Errorf("the plan is %q", got)
	}
	if got := invoke(t, env, "", "replay", "start", endpoint); got.code != 2 || !strings.Contains(got.errs, "5 deliveries to "+endpoint+" (2 keys, longest chain 3): 5 failed; left out: 1 discarded") ||
		!strings.Contains(got.errs, "--status failed,delivered,dropped") {
		t.Errorf("without anybody to ask: %+v", got)
	}
	if got := call("replay", "list", "-o", "name"); got != "" {
		t.Errorf("there are replays already: %q", got)
	}
	right.Store(true)
	got := invoke(t, env, "", "replay", "start", endpoint, "--to", "0s", "--yes", "--watch", "--rate", "1000", "--reason", "they fixed it", "--jq", ".id, .status, .delivered")
	id, rest, _ := strings.Cut(got.out, "\n")
	if got.code != 0 || !strings.HasPrefix(id, "rpl_") || rest != "completed\n5\n" || !strings.Contains(got.errs, "completed  5/5  delivered 5  failed 0") {
		t.Errorf("the replay: %+v", got)
	}
	mu.Lock()
	if d := cmp.Diff(map[string][]string{"a": {"1replay", "2replay", "3replay"}, "b": {"1replay", "2replay"}}, arrived); d != "" {
		t.Errorf("what arrived: %s", d)
	}
	mu.Unlock()
	if got := call("replay", "report", id, "-o", "jsonl"); len(strings.Split(got, "\n")) != 5 ||
		strings.Count(got, `"status":"delivered"`) != 5 {
		t.Errorf("the report is %q", got)
	}
	if got := call("deliveries", "show", dead[1], "--jq", ".status, .replayed_by, .replay_result"); got != "failed\n"+id+"\ndelivered" {
		t.Errorf("the original is %q", got)
	}
	if got := call("stats", "--endpoint", endpoint, "--jq", ".totals | .failed, .delivered"); got != "6\n5" {
		t.Errorf("the totals are %q", got)
	}
	if got := call("stats", "--endpoint", endpoint); !strings.Contains(got, "45.5%") {
		t.Errorf("of 11 that were tried 5 succeeded at once, but the table says\n%s", got)
	}
	if got := invoke(t, env, "", "replay", "start", endpoint); got.code != 3 {
		t.Errorf("nothing is left: %+v", got)
	}
	if got := invoke(t, env, "", "replay", "cancel", id); got.code != 5 {
		t.Errorf("cancelling what is over: %+v", got)
	}
	// Another endpoint is still wrong: the canary fails, so nothing else is tried.
	right.Store(false)
	other := call("endpoints", "create", receiver.URL, "--policy", `{"max_attempts":1}`, "--types", "other", "-o", "name")
	call("send", "other")
	call("send", "other")
	poll(t, "both have failed", func() bool { return len(strings.Fields(call("dlq", "list", "--endpoint", other, "-o", "name"))) == 2 })
	got = invoke(t, env, "", "dlq", "replay", "--endpoint", other, "--yes", "--canary", "--watch", "--jq", ".status, .made, .failed")
	if got.code != 9 || got.out != "stopped\n1\n1\n" {
		t.Errorf("with a canary: %+v", got)
	}
	right.Store(true)
	// One alone needs no asking.
	call("dlq", "replay", dead[0], "--again", "--watch")
}

// A plan whose count was cut short has at least as many deliveries as it says: if it found none,
// that is not "nothing to replay", and if it found one, thousands may follow, without a question.
func TestReplayOfAPlanThatIsPartial(t *testing.T) {
	for _, command := range []string{"replay start ep_1", "dlq replay --endpoint ep_1", "issues replay iss_1"} {
		for _, total := range []string{"0", "1"} {
			var f *fake
			f = newFake(t, func(*http.Request) (int, string) {
				if strings.Contains(f.seen[len(f.seen)-1].Body, `"dry_run":true`) {
					return http.StatusOK, `{"dry_run":true,"total":` + total + `,"partial":true}`
				}
				return http.StatusAccepted, `{"id":"rpl_1","status":"running"}`
			})
			got := invoke(t, f.env(), "", strings.Fields(command)...)
			if got.code != 2 || !strings.Contains(got.errs, "Replay "+total+"+ deliveries") {
				t.Errorf("%s, %s found: %+v", command, total, got)
			}
			if got := invoke(t, f.env(), "", strings.Fields(command+" --yes -o name")...); got.code != 0 || got.out != "rpl_1\n" {
				t.Errorf("%s --yes, %s found: %+v", command, total, got)
			}
		}
	}
}

// tail prints each followed delivery when it is created and when it finishes, until interrupted.
func TestTailFollowsUntilInterrupted(t *testing.T) {
	release := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer receiver.Close()
	_, env := serve(t)
	call := func(args ...string) string {
		t.Helper()
		got := invoke(t, env, "", args...)
		if got.code != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
		return strings.TrimSpace(got.out)
	}
	call("endpoints", "create", receiver.URL)
	call("send", "a.before")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out locked
	done := make(chan int, 1)
	go func() {
		done <- runProgram(ctx, &cli.World{Program: "grapnel", Args: []string{"tail", "--every", "100ms", "--jq", `.type + " " + .status`}, Stdin: strings.NewReader(""),
			Stdout: &out, Stderr: &locked{}, Now: time.Now, Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	}()
	poll(t, "what was there is told", func() bool { return out.String() == "a.before pending\n" })
	call("send", "a.after")
	poll(t, "what is new is told", func() bool { return strings.HasSuffix(out.String(), "a.after pending\n") })
	close(release)
	poll(t, "that it is over is told", func() bool {
		return strings.Contains(out.String(), "a.before delivered\n") && strings.Contains(out.String(), "a.after delivered\n")
	})
	if n := strings.Count(out.String(), "\n"); n != 4 {
		t.Errorf("%d lines were told: %s", n, out.String())
	}
	interrupt()
	if code := <-done; code != 130 {
		t.Errorf("exits %d", code)
	}
}

// An empty value, as from an unset variable, is refused where it would mean all deliveries, all
// tenants or another event with each repetition.
func TestEmptyValuesDoNotMeanAll(t *testing.T) {
	f := newFake(t, func(*http.Request) (int, string) { return http.StatusOK, "{}" })
	for args, flag := range map[string]string{
		"replay start ep_1 --yes --event-key=": "--event-key", "replay plan ep_1 --type=": "--type",
		"dlq replay --endpoint ep_1 --yes --error-class=": "--error-class", "replay start ep_1 --yes --since=": "--since",
		"tenants revoke-portal-links acme --yes --subject=": "--subject", "tenants revoke-portal-links acme --yes --link=": "--link",
		"alerts set dead_letters --off --tenant=": "--tenant", "alerts set disk_full --reset --tenant=": "--tenant",
		"keys create --name ci --scope read --tenant=": "--tenant", "send invoice.paid --id=": "--id",
	} {
		if got := invoke(t, f.env(), "", strings.Fields(args)...); got.code != 2 || !strings.Contains(got.errs, flag) || len(f.seen) > 0 {
			t.Errorf("%s: %+v, after %v", args, got, f.seen)
		}
	}
}

// TestEmptyIDs: the path of a request with an empty id is that of another thing, mostly a list.
func TestEmptyIDs(t *testing.T) {
	f := newFake(t, func(*http.Request) (int, string) { return http.StatusOK, "{}" })
	for command, name := range map[string]string{
		"deliveries retry": "DELIVERY_ID", "deliveries retry dlv_1": "DELIVERY_ID", "deliveries get": "DELIVERY_ID", "dlq replay": "DELIVERY_ID",
		"dlq discard --reason x": "DELIVERY_ID", "endpoints lanes": "ENDPOINT", "endpoints pause": "ENDPOINT",
		"endpoints delete --yes": "ENDPOINT", "queues purge --yes": "QUEUE", "queues get": "QUEUE", "replay start --yes": "ENDPOINT",
		"replay watch": "REPLAY_ID", "types diff": "TYPE", "why": "ID", "send": "TYPE", "policies lint": "NAME|POLICY",
	} {
		for _, empty := range []string{"", "  "} {
			got := invoke(t, f.env(), "", append(strings.Fields(command), empty)...)
			if got.code != 2 || !strings.Contains(got.errs, name) || !strings.Contains(got.errs, "must not be empty. Usage: ") || len(f.seen) > 0 {
				t.Errorf("%s %q: %+v, after %v", command, empty, got, f.seen)
			}
		}
	}
	if got := invoke(t, f.env(), "", "dlq", "note", "dlv_1", ""); got.code != 0 {
		t.Errorf("a note that is taken away: %+v", got)
	}
}
