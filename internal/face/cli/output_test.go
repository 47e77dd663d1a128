package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

func pipes(args ...string) (w *cli.World, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	w = world(nil)
	w.Args, w.Stdout, w.Stderr, w.Now = args, out, errs, time.Now
	return w, out, errs
}

var sample = cli.View{
	JSON:  json.RawMessage(`{"data":[{"id":"a","n":1.00,"s":"<&>"},{"id":"bb","n":12345678901234567890}],"next":"c"}`),
	Items: []cli.Item{{Name: "a", JSON: json.RawMessage(`{ "id":"a", "n":1.00 }`)}, {Name: "bb", JSON: json.RawMessage(`{"id":"bb"}`)}},
	Parts: []cli.Part{{Head: []string{"ID", "STATUS", "NOTE"}, Rows: [][]string{{"a", "delivered", "é\x1b[31m\n"}, {"bb", "failed", ""}}}},
	More:  "there is more: --cursor c",
}

func TestForms(t *testing.T) {
	for _, tc := range []struct{ form, jq, want, errs string }{
		{cli.Table, "", "ID  STATUS     NOTE\na   delivered  é [31m\nbb  failed\n", "there is more: --cursor c\n"},
		{cli.Names, "", "a\nbb\n", "there is more: --cursor c\n"},
		{cli.Lines, "", `{"id":"a","n":1.00}` + "\n" + `{"id":"bb"}` + "\n", "there is more: --cursor c\n"},
		{cli.JSON, "", "{\n  \"data\": [\n    {\n      \"id\": \"a\",\n      \"n\": 1.00,\n      \"s\": \"<&>\"\n    },\n" +
			"    {\n      \"id\": \"bb\",\n      \"n\": 12345678901234567890\n    }\n  ],\n  \"next\": \"c\"\n}\n", ""},
		{cli.Table, ".data[].id", "a\nbb\n", "there is more: --cursor c\n"},
		{cli.Table, ".data[1].n, (.data|length)", "12345678901234567890\n2\n", "there is more: --cursor c\n"},
	} {
		t.Run(tc.form+tc.jq, func(t *testing.T) {
			w, out, errs := pipes()
			p, err := w.NewPrinter(tc.form, tc.jq)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Print(sample); err != nil {
				t.Fatal(err)
			}
			if out.String() != tc.want || errs.String() != tc.errs {
				t.Errorf("stdout:\n%s\nwant:\n%s\nstderr: %q", out, tc.want, errs)
			}
		})
	}
}

func TestFormsThatAreWrong(t *testing.T) {
	w, _, _ := pipes()
	for _, tc := range [][2]string{{"xml", ""}, {"", ""}, {cli.JSON, ".["}, {cli.JSON, "nonsense(1)"}} {
		if _, err := w.NewPrinter(tc[0], tc[1]); cli.Explain(err).Exit != cli.ExitUsage {
			t.Errorf("%v: %v", tc, err)
		}
	}
	p, err := w.NewPrinter(cli.JSON, ".data.id")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Print(sample); cli.Explain(err).Exit != cli.ExitUsage {
		t.Errorf("a jq expression that does not fit: %v", err)
	}
}

// The table is the contract of the exit codes.
func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("boom"), 1},
		{&client.Error{Status: 500}, 1},
		{cli.Usagef("x"), 2},
		{&client.Error{Status: 400}, 2},
		{&client.Error{Status: 422, Code: "invalid"}, 2},
		{&client.Error{Status: 413}, 2},
		{grapnel.Invalid("/x", "y"), 2},
		{&client.Error{Status: 404}, 3},
		{&client.Error{Status: 401}, 4},
		{&client.Error{Status: 403}, 4},
		{&client.Error{Status: 409}, 5},
		{&client.Error{Status: 412}, 5},
		{&client.Error{Status: 422, Code: string(grapnel.CodeMismatch)}, 5},
		{&client.Unreachable{Err: errors.New("refused")}, 6},
		{&client.Error{Status: 503}, 6},
		{&client.Error{Status: 507}, 6},
		{&client.Error{Status: 429}, 7},
		{grapnel.Errorf(grapnel.CodeOverloaded, "x"), 6},
		{grapnel.Errorf(grapnel.CodeQuota, "x"), 7},
		{cli.Findings("x"), 8},
		{cli.Partial("x"), 9},
		{&client.Unreachable{Err: context.DeadlineExceeded}, 124},
		{&client.Unreachable{Err: context.Canceled}, 130},
		{fmt.Errorf("wrapped: %w", &client.Error{Status: 404}), 3},
	} {
		w, _, _ := pipes()
		if got := w.Report(tc.err, false); got != tc.want {
			t.Errorf("%v exits %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestReport(t *testing.T) {
	w, out, errs := pipes()
	problem := `{"type":"/docs#x","title":"t","status":404,"detail":"there is no such endpoint","code":"not_found","errors":[],"request_id":"r"}`
	w.Report(&client.Error{Status: 404, Code: "not_found", Detail: "there is no such endpoint", Problem: []byte(problem)}, true)
	if out.Len() > 0 || errs.String() != "error: there is no such endpoint\n"+problem+"\n" {
		t.Errorf("stdout %q, stderr %q", out, errs)
	}

	w, out, errs = pipes()
	w.Report(&client.Unreachable{Server: "http://x", Err: errors.New("connection refused")}, true)
	var doc struct {
		Code string `json:"code"`
		Exit int    `json:"exit_code"`
	}
	sentence, rest, _ := strings.Cut(errs.String(), "\n")
	if err := json.Unmarshal([]byte(rest), &doc); err != nil || doc.Code != "unavailable" || doc.Exit != 6 || out.Len() > 0 {
		t.Errorf("stdout %q, stderr %q, %v", out, errs, err)
	}
	if !strings.Contains(sentence, "grapnel serve") {
		t.Errorf("%q does not say what to do next", sentence)
	}

	// When to try again is what the server says.
	for after, want := range map[time.Duration]string{0: "in a moment.", time.Second: "in a moment.", 90 * time.Second: "in 1m30s."} {
		for _, status := range []int{429, 503} {
			w, _, errs = pipes()
			if w.Report(&client.Error{Status: status, Detail: "too much", RetryAfter: after}, false); errs.String() != "error: too much. Try again "+want+"\n" {
				t.Errorf("%d after %v: %q", status, after, errs)
			}
		}
	}

	// Then stdout has the findings already.
	w, out, errs = pipes()
	if w.Report(cli.Findings("2 contradictions"), true); out.Len() > 0 || strings.Contains(errs.String(), "{") {
		t.Errorf("stdout %q", out)
	}
}

func TestFormIsKnownEvenWhenArgumentsAreWrong(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"x", "--bogus", "-o", "json"}, "json"}, {[]string{"-ojsonl"}, "jsonl"},
		{[]string{"--output=json"}, "json"}, {[]string{"--output", "name"}, "name"}, {nil, "table"},
	} {
		w, _, _ := pipes(tc.args...)
		if got := w.AskedOutput(cli.Table); got != tc.want {
			t.Errorf("%v: got %s", tc.args, got)
		}
	}
}

func TestLoggers(t *testing.T) {
	w, _, errs := pipes()
	log := w.Logger("json", slog.LevelWarn)
	log.Info("quiet")
	log.Warn("loud", "n", 1)
	var line map[string]any
	if err := json.Unmarshal(errs.Bytes(), &line); err != nil || line["msg"] != "loud" {
		t.Errorf("got %q, %v", errs, err)
	}
	for _, bad := range [][2]string{{"xml", "info"}, {"text", "chatty"}} {
		if _, err := cli.LogLevel(bad[0], bad[1]); cli.Explain(err).Exit != cli.ExitUsage {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
