//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// heard is what a server on loopback got.
type heard struct {
	mu      sync.Mutex
	bodies  bytes.Buffer
	headers []http.Header
}

func (h *heard) all() (string, []http.Header) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bodies.String(), append([]http.Header(nil), h.headers...)
}

// listening is a server that hears requests, and answers as then says.
func listening(t *testing.T, then http.HandlerFunc) (*heard, string) {
	h := &heard{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		h.bodies.Write(append(body, '\n'))
		h.headers = append(h.headers, r.Header)
		h.mu.Unlock()
		then(w, r)
	}))
	t.Cleanup(server.Close)
	return h, server.URL
}

// tells sends a request to the server and returns the members of its answer.
func (c *child) tells(method, path, body string, header ...string) map[string]any {
	c.t.Helper()
	rq, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+c.addr+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	rq.Header.Set("Authorization", "Bearer "+adminKey)
	rq.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		rq.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(rq)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	answer := map[string]any{"status": resp.StatusCode, "text": string(text)}
	_ = json.Unmarshal(text, &answer) // /metrics is no JSON
	return answer
}

// TestTracesAndLogsOfTheRealBinary: one trace id goes from the request of a publisher to the header
// of a receiver and to the collector; every line of the log is JSON; and no secret, payload, header
// or query is in the log, the metrics or the spans.
func TestTracesAndLogsOfTheRealBinary(t *testing.T) {
	beside(t, busy)
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	collector, spansTo := listening(t, func(http.ResponseWriter, *http.Request) {})
	receiver, address := listening(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Answer", "canary-response-header")
		if r.Header.Get("Grapnel-Attempt") == "1" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "canary-response-body")
	})
	c := newChild(t, program{env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + spansTo, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
		"OTEL_EXPORTER_OTLP_HEADERS=x-token=canary-collector"},
		flag: []string{"--log-format", "json", "--log-level", "debug"}}, t.TempDir())
	c.start()
	c.ready(20 * time.Second)
	const secret = "whsec_Y2FuYXJ5LWVuZHBvaW50LXNlY3JldC0wMTIzNDU2Nzg5"
	ep := c.tells("POST", "/v1/endpoints", `{"url":"`+address+`/canary-path?token=canary-query","trace":true,"secret":"`+secret+`",
		"headers":{"X-Own":"canary-own-header"},"description":"canary-description",
		"policy":{"schedule":{"mode":"since_previous","delays":["0s","100ms","100ms"]},"jitter":0,"max_attempts":3}}`)
	source := c.tells("POST", "/v1/sources", `{"name":"gh","verify":{"scheme":"github","secret":"canary-source-secret"}}`)
	key := c.tells("POST", "/v1/keys", `{"name":"canary-key-name","scopes":["publish"]}`)
	made, _ := key["key"].(string)
	if ep["status"] != http.StatusCreated && ep["id"] == nil || source["ingest_url"] == nil || made == "" {
		t.Fatalf("%v\n%v\n%v", ep, source, key)
	}
	event := `{"type":"invoice.paid","data":{"x":"canary-payload"},"metadata":{"m":"canary-metadata"}}`
	if a := c.tells("POST", "/v1/events", event, "Authorization", "Bearer "+made, "Idempotency-Key", "canary-idempotency",
		"Traceparent", caller, "Tracestate", "vendor=canary-tracestate", "Baggage", "k=canary-baggage"); a["id"] == nil {
		t.Fatal(a)
	}
	in, _ := source["ingest_url"].(string)
	c.tells("POST", in[strings.Index(in, "/in/"):], `{"canary-bad":"canary-forged"}`, "X-Hub-Signature-256", "sha256=canary-signature")
	c.tells("POST", "/v1/events", `{"type":"canary not a type","data":1,"canary-field":2}`)
	c.tells("POST", "/v1/events", event, "Authorization", "Bearer grp_canary-wrong-key")

	var got []http.Header
	eventually(t, 20*time.Second, "the receiver has both attempts", func() bool {
		_, got = receiver.all()
		return len(got) == 2
	})
	metrics, _ := c.tells("GET", "/metrics", "")["text"].(string)
	if code := c.terminate(20 * time.Second); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	spans, sent := collector.all()
	traceID := caller[3:35]
	for i, h := range got {
		is := h.Get("Traceparent")
		if len(is) != 55 || is[3:35] != traceID || is[36:52] == caller[36:52] || !strings.Contains(spans, `"spanId":"`+is[36:52]+`"`) {
			t.Errorf("attempt %d has the traceparent %q", i+1, is)
		}
		if h.Get("Tracestate")+h.Get("Baggage") != "" {
			t.Errorf("attempt %d has more of the trace: %v", i+1, h)
		}
	}
	// three spans, two of them with a link
	if strings.Count(spans, `"traceId":"`+traceID+`"`) != 5 || !strings.Contains(spans, `"name":"send invoice.paid"`) ||
		!strings.Contains(spans, `"key":"http.request.resend_count","value":{"intValue":"1"}`) || sent[0].Get("X-Token") != "canary-collector" {
		t.Errorf("the collector got\n%s", spans)
	}
	raw, err := os.ReadFile(c.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	attempts := 0
	for line := range strings.Lines(string(raw)) {
		var is map[string]any
		if err := json.Unmarshal([]byte(line), &is); err != nil {
			t.Errorf("a line of the log is not JSON: %s", line)
		}
		if is["msg"] == "attempt finished" && is["trace"] == traceID && is["endpoint"] == ep["id"] {
			attempts++
		}
	}
	if attempts != 2 {
		t.Errorf("%d lines about 2 attempts", attempts)
	}
	for _, canary := range []string{"canary", secret, strings.TrimPrefix(secret, "whsec_"), made, adminKey} {
		for where, text := range map[string]string{"log": string(raw), "metrics": metrics, "spans": spans} {
			if at := strings.Index(text, canary); at >= 0 {
				t.Errorf("the %s has %q: %s", where, canary, text[max(at-200, 0):min(at+200, len(text))])
			}
		}
	}
	for _, line := range []string{
		`grapnel_events_accepted_total{source_kind="api"} 1`, `grapnel_ingest_rejected_total{reason="unverified"} 1`,
		`grapnel_ingest_rejected_total{reason="invalid"} 1`, `grapnel_signature_failures_total{reason="malformed"} 1`,
		`grapnel_attempts_total{error_class="status_5xx",result="failure",trigger="schedule"} 1`, `grapnel_backlog{state="ready"} `,
		`grapnel_store_bytes `, `grapnel_trace_spans_total{result="dropped"} 0`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics has no %s", line)
		}
	}
}
