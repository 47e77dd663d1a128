package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// FuzzPublish: whatever comes is answered by a 202 or a problem, and what is stored are the very bytes that the standard library finds
// under data.
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
			if utf8.Valid(body) && json.Valid(body) && !deeper(body, 65) {
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

// FuzzBatchNDJSON: every line that says anything gets one answer, in its place, and lines do not disturb each other.
func FuzzBatchNDJSON(f *testing.F) {
	f.Add([]byte("{\"type\":\"a\",\"data\":1}\n{broken\n\n{\"type\":\"a\"}\r\n{\"type\":\"a\",\"data\":2}"))
	f.Add([]byte("{\"type\":\"a\",\"data\":\"\n\"}"))
	f.Add([]byte(" \n\t\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t)
		send := func(body []byte) reply {
			r := httptest.NewRequest("POST", "/v1/events/batch", bytes.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+admin)
			r.Header.Set("Content-Type", typeNDJSON)
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
		w := &world{t: t, street: w.street, handler: w.handler, clock: w.clock, logged: w.logged}
		if got := w.send(r); got.StatusCode != 422 && (got.StatusCode != 200 || cursor != given) {
			t.Fatalf("%q: answered %d %s", cursor, got.StatusCode, got.body)
		}
	})
}

// FuzzMergePatch: the result is JSON, is what a naive merge of decoded documents gives, and merging again changes nothing.
func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"c":[1]},"d":null}`), []byte(`{"a":{"b":null,"e":{"f":null}},"d":{}}`))
	f.Add([]byte(`{"a\u0000/~":1}`), []byte(`{"a\u0000/~":null,"":{"\"":2}}`))
	f.Add([]byte(`[]`), []byte(`{"a":null}`))
	f.Fuzz(func(t *testing.T, target, patch []byte) {
		if checkJSON(target, 64) != nil || checkJSON(patch, 64) != nil {
			return
		}
		var faults faults
		got := mergePatch(gjson.ParseBytes(target), gjson.ParseBytes(patch), "/", &faults)
		if faults.err() != nil {
			return // a name twice, or too many
		}
		want := naive(decoded(t, target), decoded(t, patch))
		if d := cmp.Diff(want, decoded(t, got)); d != "" {
			t.Fatalf("%s with %s: %s", target, patch, d)
		}
		again := mergePatch(gjson.ParseBytes(got), gjson.ParseBytes(patch), "/", &faults)
		if d := cmp.Diff(decoded(t, got), decoded(t, again)); d != "" {
			t.Fatalf("%s with %s twice: %s", target, patch, d)
		}
	})
}

// naive is the pseudocode of RFC 7396.
func naive(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, v := range p {
		if v == nil {
			delete(t, name)
		} else {
			t[name] = naive(t[name], v)
		}
	}
	return t
}

// FuzzCheckJSON: what passes is what the standard library takes, in UTF-8, and escapes are read as it reads them.
func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{`"\ud83d\ude00"`, `"\ud83d"`, `[1,{"a":"\\"}]`, `-0.1e+5`, "\x00", `"\u12"`, `{"a":1 "b"}`, `["]"]`, `nul`, `1 2`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		ok := checkJSON(raw, 64) == nil
		if want := json.Valid(raw) && utf8.Valid(raw) && !deeper(raw, 64); ok != want {
			t.Fatalf("%q: passes: %v, want %v", raw, ok, want)
		}
		if v := gjson.ParseBytes(raw); ok && v.Type == gjson.String {
			var want string
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			if wellFormed(v.Raw) && v.Str != want {
				t.Fatalf("%q is read as %q", raw, v.Str)
			}
			if !wellFormed(v.Raw) && !strings.Contains(want, "\uFFFD") {
				t.Fatalf("%q is called half a pair", raw)
			}
		}
	})
}
