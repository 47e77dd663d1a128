package mcp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grapnelhq/grapnel/internal/face/mcp"
)

const listing = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`

// post sends one message to a handler, with a Host and further headers.
func post(t *testing.T, h http.Handler, host, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://"+host+mcp.Path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestOnlyCallersOfThisServerAreServed: a web page under a name that leads here has another Host,
// or names itself as the Origin; and a key is compared.
func TestOnlyCallersOfThisServerAreServed(t *testing.T) {
	s := mcp.New(mcp.Options{Client: asking(t)})
	open, closed := s.Handler(mcp.Callers{}), s.Handler(mcp.Callers{Key: "0123456789abcdef", Hosts: []string{"mcp.example.com"}})
	const key = "Bearer 0123456789abcdef"
	for _, tc := range []struct {
		handler http.Handler
		host    string
		headers []string
		status  int
	}{
		{open, "127.0.0.1:8421", nil, 200},
		{open, "localhost:8421", nil, 200},
		{open, "[::1]:8421", nil, 200},
		{open, "LOCALHOST", nil, 200},
		{open, "evil.example:8421", nil, 403},
		{open, "127.0.0.1.evil.example", nil, 403},
		{open, "10.0.0.1:8421", nil, 403},
		{open, "localhost:8421", []string{"Origin", "http://localhost:8421"}, 200},
		{open, "localhost:8421", []string{"Origin", "http://evil.example"}, 403},
		{open, "localhost:8421", []string{"Origin", "http://localhost:3000"}, 403},
		{open, "localhost:8421", []string{"Origin", "null"}, 403},
		{open, "localhost:8421", []string{"Content-Type", "text/plain"}, 415},
		{closed, "mcp.example.com", []string{"Authorization", key}, 200},
		{closed, "127.0.0.1:8421", []string{"Authorization", key}, 200},
		{closed, "mcp.example.com", nil, 401},
		{closed, "127.0.0.1:8421", nil, 401},
		{closed, "mcp.example.com", []string{"Authorization", key + "x"}, 401},
		{closed, "other.example.com", []string{"Authorization", key}, 403},
	} {
		w := post(t, tc.handler, tc.host, listing, tc.headers...)
		if w.Code != tc.status || (w.Code == 200) != strings.Contains(w.Body.String(), "explain_delivery") {
			t.Errorf("%s %v: answered %d, want %d: %.200s", tc.host, tc.headers, w.Code, tc.status, w.Body)
		}
		if w.Header().Get("Access-Control-Allow-Origin") != "" || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s %v: %v", tc.host, tc.headers, w.Header())
		}
	}
}

// TestRequestsHaveBounds: the bytes of a body, and requests at once.
func TestRequestsHaveBounds(t *testing.T) {
	small := mcp.New(mcp.Options{Client: asking(t), Bounds: mcp.Bounds{Request: 100}}).Handler(mcp.Callers{})
	if w := post(t, small, "localhost", listing+strings.Repeat(" ", 100)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
	away, asked, release := slowServer(t)
	few := mcp.New(mcp.Options{Client: away, Bounds: mcp.Bounds{Requests: 1}}).Handler(mcp.Callers{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		post(t, few, "localhost", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find","arguments":{"search":"x"}}}`)
	}()
	<-asked
	if w := post(t, few, "localhost", listing); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
	release()
	<-done
}

// TestAgentsOverHTTP: an agent lists and calls tools over streamable HTTP, hears of progress, and
// the server ends while the agent is connected.
func TestAgentsOverHTTP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	torture := func(_ context.Context, _ mcp.Trial, tell func(mcp.Case)) (*mcp.Verdict, error) {
		tell(mcp.Case{ID: "T01", Verdict: "passed", Done: 1, Of: 1})
		return &mcp.Verdict{Passed: 1}, nil
	}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	s := mcp.New(mcp.Options{Client: asking(t), Torture: torture})
	go func() { ended <- s.ServeListener(ctx, listener, mcp.Callers{Key: "0123456789abcdef"}) }()
	heard := make(chan string, 1)
	agent := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, rq *sdk.ProgressNotificationClientRequest) { heard <- rq.Params.Message }})
	session, err := agent.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: "http://" + listener.Addr().String() + mcp.Path,
		HTTPClient: &http.Client{Transport: keyed{}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, session, "explain_delivery", values{"id": all.failed}); !strings.Contains(got.text, all.failed) {
		t.Error(got)
	}
	params := &sdk.CallToolParams{Name: "torture_receiver", Arguments: values{"url": "http://localhost:1/"}}
	params.SetProgressToken("p")
	if result, err := session.CallTool(t.Context(), params); err != nil || result.IsError {
		t.Error(result, err)
	}
	if got := <-heard; got != "T01 passed" {
		t.Error(got)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_ = session.Close() // the server has ended
	resp, err := http.Get("http://" + listener.Addr().String() + mcp.Path)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		t.Error("the server still answers")
	}
}

// keyed sends the callers' key.
type keyed struct{}

func (keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer 0123456789abcdef")
	return http.DefaultTransport.RoundTrip(r)
}
