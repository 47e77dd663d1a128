package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
)

// FuzzPublish: any body is answered by a 202 or a problem, and the stored data are the very bytes
// that the standard library finds under data.
func FuzzPublish(f *testing.F) {
	for _, b := range badInputs() {
		if b.target == "/v1/events" && len(b.body) < 1<<10 {
			f.Add([]byte(b.body))
		}
	}
	f.Add([]byte(`{"type":"a","data":{"a": 1.0},"key":"k","id":"x","metadata":{"a":"\u00e9"},"occurred_at":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"type":"a","aggregate_type":"t","aggregate_id":"i/2","data":"\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t)
		r := httptest.NewRequest("POST", "/v1/events", bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+admin)
		got := w.send(r)
		switch got.StatusCode {
		case 202:
			var want struct {
				Type, Key string
				Data      json.RawMessage
			}
			if !utf8.Valid(body) || json.Unmarshal(body, &want) != nil {
				t.Fatalf("%q was accepted", body)
			}
			ev := w.event(got.object(t)["id"].(string))
			if !bytes.Equal(ev.Data, want.Data) || ev.Type != want.Type || want.Key != "" && ev.Key != want.Key {
				t.Fatalf("stored %+v of %q", ev, body)
			}
		case 400:
			if utf8.Valid(body) && json.Valid(body) && !canonical.Deeper(body, 65) {
				t.Fatalf("%q is JSON, and was answered %s", body, got.body)
			}
		case 413, 422:
			if !utf8.Valid(body) || !json.Valid(body) {
				t.Fatalf("%q is no JSON, and was answered %s", body, got.body)
			}
		default:
			t.Fatalf("%q: answered %d %s", body, got.StatusCode, got.body)
		}
	})
}

// FuzzBatchNDJSON: every line that says anything gets one answer, in its place, and lines do not
// disturb each other.
func FuzzBatchNDJSON(f *testing.F) {
	f.Add([]byte("{\"type\":\"a\",\"data\":1}\n{broken\n\n{\"type\":\"a\"}\r\n{\"type\":\"a\",\"data\":2}"))
	f.Add([]byte("{\"type\":\"a\",\"data\":\"\n\"}"))
	f.Add([]byte(" \n\t\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t)
		send := func(body []byte) reply {
			r := httptest.NewRequest("POST", "/v1/events/batch", bytes.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+admin)
			r.Header.Set("Content-Type", openapi.TypeNDJSON)
			return w.send(r)
		}
		var lines [][]byte
		for _, line := range bytes.Split(body, []byte("\n")) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				lines = append(lines, line)
			}
		}
		got := send(body)
		if got.StatusCode != 202 {
			if got.StatusCode != 422 || strings.Contains(w.dump(), "evt_") {
				t.Fatalf("answered %d %s", got.StatusCode, got.body)
			}
			return
		}
		answers := got.object(t)["data"].([]any)
		if len(answers) != len(lines) || len(lines) > ample.BatchEvents {
			t.Fatalf("%d lines got %d answers", len(lines), len(answers))
		}
		for i, line := range lines {
			alone := send(line)
			_, refused := answers[i].(map[string]any)["status"]
			if conflict := answers[i].(map[string]any)["status"] == 409.0; refused != (alone.StatusCode != 202) && !conflict {
				t.Fatalf("line %d %q: alone %s, among others %v", i, line, alone.body, answers[i])
			}
		}
	})
}

// FuzzCursor: a cursor is the one that was given, or it is refused.
func FuzzCursor(f *testing.F) {
	w := newWorld(f)
	for range 3 {
		w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	}
	given := w.must(200, "GET", "/v1/events?limit=1", "")["next"].(string)
	f.Add(given)
	f.Add(base64.RawURLEncoding.EncodeToString([]byte("\x00\x00\x00\x00\x00\x00\x00\x0012")))
	f.Add("")
	f.Add(given + "=")
	f.Fuzz(func(t *testing.T, cursor string) {
		r := httptest.NewRequest("GET", "/v1/events", nil)
		q := r.URL.Query()
		q.Set("cursor", cursor)
		r.URL.RawQuery = q.Encode()
		r.Header.Set("Authorization", "Bearer "+admin)
		w := &world{t: t, engine: w.engine, handler: w.handler, clock: w.clock, logged: w.logged}
		if got := w.send(r); got.StatusCode != 422 && (got.StatusCode != 200 || cursor != given) {
			t.Fatalf("%q: answered %d %s", cursor, got.StatusCode, got.body)
		}
	})
}
