package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestRevokedKeyStopsReceiving: open requests of a key end when the key is revoked, or loses the
// right to consume.
func TestRevokedKeyStopsReceiving(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	stopsReceiving(t, s.consumer(t), s.consumer(t), member{running: s})
}

// TestARevokedKeyCannotKeepItself: a stolen key that renames itself all the time is revoked as any
// other.
func TestARevokedKeyCannotKeepItself(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	c := start(t, o).consumer(t)
	key := c.must(http.StatusCreated, "POST", "/v1/keys", `{"name":"stolen","scopes":["admin"]}`)
	at, stolen := "/v1/keys/"+key["id"].(string), "Bearer "+key["key"].(string)
	var all sync.WaitGroup
	var over atomic.Bool
	renamed := make(chan struct{}, 8)
	for range cap(renamed) {
		all.Go(func() {
			for !over.Load() {
				status, _, body := c.ask("PATCH", at, `{"name":"mine"}`, "Authorization", stolen)
				if status == http.StatusUnauthorized || status == http.StatusNotFound {
					return
				}
				if status != http.StatusOK {
					t.Errorf("answered %d %s", status, body)
					return
				}
				select {
				case renamed <- struct{}{}:
				default:
				}
			}
		})
	}
	for range cap(renamed) {
		<-renamed
	}
	c.must(http.StatusNoContent, "DELETE", at, "")
	if status, _, body := c.ask("GET", "/v1/whoami", "", "Authorization", stolen); status != http.StatusUnauthorized {
		t.Errorf("the revoked key is answered %d %s", status, body)
		over.Store(true)
	}
	all.Wait()
}

// stopsReceiving opens a stream and a long poll at one node, revokes the right of their key at
// another, and publishes.
func stopsReceiving(t *testing.T, admin, receiver *consumer, at member) {
	t.Helper()
	admin.must(http.StatusCreated, "POST", "/v1/queues", `{"name":"receiving"}`)
	for _, way := range []struct {
		method, body    string
		answer, refused int
	}{
		{"DELETE", "", http.StatusNoContent, http.StatusUnauthorized},
		{"PATCH", `{"scopes":["read"]}`, http.StatusOK, http.StatusForbidden},
	} {
		key := admin.must(http.StatusCreated, "POST", "/v1/keys", `{"name":"worker","scopes":["consume"]}`)
		type answer struct {
			status int
			body   string
		}
		open := func(target string) <-chan answer {
			got := make(chan answer, 1)
			go func() {
				status, _, body := receiver.ask("GET", "/v1/queues/receiving/"+target, "", "Authorization", "Bearer "+key["key"].(string))
				got <- answer{status, string(body)}
			}()
			return got
		}
		stream, poll := open("stream"), open("next?wait=60s")
		at.waits(t, 2)
		admin.must(way.answer, way.method, "/v1/keys/"+key["id"].(string), way.body)
		admin.must(http.StatusAccepted, "POST", "/v1/events", `{"type":"a.b","data":1}`)
		if got := <-stream; got.status != http.StatusOK || strings.Contains(got.body, "data:") {
			t.Errorf("%s: the stream was answered %+v", way.method, got)
		}
		if got := <-poll; got.status != way.refused {
			t.Errorf("%s: the long poll was answered %+v", way.method, got)
		}
		status, header, body := admin.ask("GET", "/v1/queues/receiving/next", "")
		if status != http.StatusOK || !strings.Contains(header.Get("Grapnel-Meta"), `"attempt":1,`) {
			t.Errorf("%s: then comes %d %s %s", way.method, status, header.Get("Grapnel-Meta"), body)
		}
		admin.must(http.StatusNoContent, "POST", ackURL(t, header), "")
	}
}

func ackURL(t *testing.T, header http.Header) string {
	t.Helper()
	var meta struct {
		Ack string `json:"ack_url"`
	}
	if err := json.Unmarshal([]byte(header.Get("Grapnel-Meta")), &meta); err != nil {
		t.Fatal(err)
	}
	return meta.Ack
}
