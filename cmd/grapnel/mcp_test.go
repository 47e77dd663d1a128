package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// TestAgentAtACommand: an agent that starts the command gets the tools that its flags allow, they
// ask the server of the environment, and the command ends with its input.
func TestAgentAtACommand(t *testing.T) {
	_, env := serve(t)
	bad := ledger(t, "standard", tortureSecret, false).URL
	env["GRAPNEL_TORTURE_SECRET"] = tortureSecret
	in, toCommand := io.Pipe()
	fromCommand, out := io.Pipe()
	var errs locked
	code := make(chan int, 1)
	go func() {
		code <- runProgram(context.WithoutCancel(t.Context()), &cli.World{
			Program: "grapnel", Args: strings.Fields("mcp --allow-torture"), Stdin: in, Stdout: out, Stderr: &errs, Now: time.Now,
			Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		})
	}()
	agent := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil)
	s, err := agent.Connect(t.Context(), &sdk.IOTransport{Reader: fromCommand, Writer: toCommand}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 8 {
		t.Errorf("%d tools, %v", len(list.Tools), err)
	}
	for _, tc := range []struct {
		tool      string
		arguments map[string]any
		says      string
	}{
		{"endpoint_health", nil, "There is no endpoint yet."},
		{"torture_receiver", map[string]any{"url": bad, "probe": bad + "/_probe?event={event}", "only": []string{"T01"}}, "I2 broken: no deduplication"},
		{"torture_receiver", map[string]any{"url": bad, "only": []string{"T99"}}, `only: "T99" is no case`},
		{"torture_receiver", map[string]any{"url": "http://127.0.0.1:1/"}, "does not answer"},
	} {
		result, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tc.tool, Arguments: tc.arguments})
		if err != nil {
			t.Fatal(err)
		}
		if text := result.Content[0].(*sdk.TextContent).Text; !strings.Contains(text, tc.says) {
			t.Errorf("%s does not say %q: %s", tc.tool, tc.says, text)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := <-code; got != 0 || errs.String() != "" {
		t.Errorf("exits %d: %s", got, errs.String())
	}
}

// TestAgentsOverHTTP: the line on stdout has the address, a key is asked for, and a signal ends the
// command with 0.
func TestAgentsOverHTTP(t *testing.T) {
	_, env := serve(t)
	env["GRAPNEL_MCP_KEY"] = "0123456789abcdef"
	p := launch(t, env, "mcp", "--http", "0")
	for key, want := range map[string]int{"": 401, "0123456789abcdef": 200} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}, "Authorization": {"Bearer " + key}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != want || strings.Contains(string(body), "preview_replay") != (want == 200) {
			t.Errorf("key %q: answered %d %s, %v", key, resp.StatusCode, body, err)
		}
	}
	if got := p.stop(); got.code != 0 || !strings.HasPrefix(got.out, "Agents connect to http://127.0.0.1:") || !strings.HasSuffix(got.out, "/mcp\n") {
		t.Errorf("%+v", got)
	}
}

// TestAgentsAreRefused: an address that others reach needs a key, and flags that go together.
func TestAgentsAreRefused(t *testing.T) {
	for args, says := range map[string]string{
		"--http 0.0.0.0:0":                       "--http 0.0.0.0:0: others reach this address",
		"--http :0":                              "others reach this address",
		"--http 192.0.2.1:0 --http-key short":    "a key of 16 characters or more with --http-key",
		"--http nonsense":                        `--http: "nonsense" is not an address`,
		"--http 192.0.2.1:1 --http-key @nowhere": "--http-key: ",
		"--http-host mcp.example.com":            "go with --http",
		"--torture-host mcp.example.com":         "goes with --allow-torture",
		"--bound odd=1":                          "--bound: odd: unknown bound",
	} {
		if got := invoke(t, nil, "", append([]string{"mcp"}, strings.Fields(args)...)...); got.code != 2 || !strings.Contains(got.errs, says) {
			t.Errorf("%s does not say %q: %+v", args, says, got)
		}
	}
}
