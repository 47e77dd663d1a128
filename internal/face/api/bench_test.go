package api

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
	"github.com/grapnelhq/grapnel/internal/store"
)

// idle is an engine that accepts and forgets, so that only the API is measured.
type idle struct {
	Engine
	key  grapnel.Key
	hash [32]byte
	ids  *grapnel.IDs
}

func (e *idle) IDs() *grapnel.IDs { return e.ids }

func (e *idle) Caller(hash [32]byte) (grapnel.Key, bool, error) { return e.key, hash == e.hash, nil }

func (*idle) Publish(_ context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error) {
	done := store.Accepted{Events: make([]store.Placed, len(events))}
	for i := range events {
		done.Events[i] = store.Placed{Seq: 1, AcceptedAt: events[i].Event.AcceptedAt, Deliveries: 1}
	}
	if once != nil {
		once.Answer(done)
	}
	return done, nil
}

func (*idle) Quota(string) *grapnel.Quota { return nil }

func (*idle) Check(context.Context, []store.Incoming) (map[int][]catalogue.Fault, error) {
	return nil, nil
}

func (*idle) Recall(context.Context, string, time.Time) (*store.Answer, error) { return nil, nil }
func (*idle) Remember(context.Context, *store.Once) (*store.Answer, error)     { return nil, nil }

// sink is a ResponseWriter that costs nothing.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

func BenchmarkPublish(b *testing.B) {
	event := func(size int) string {
		return `{"type":"invoice.paid","key":"inv_123","data":{"text":"` + strings.Repeat("x", size-11) + `"}}`
	}
	for _, c := range []struct{ name, path, body, once, media string }{
		{"1KiB", "/v1/events", event(1 << 10), "", "application/json"},
		{"64KiB", "/v1/events", event(64 << 10), "", "application/json"},
		{"1KiB/idempotency-key", "/v1/events", event(1 << 10), "key", "application/json"},
		{"batch of 100", "/v1/events/batch", `{"events":[` + strings.TrimSuffix(strings.Repeat(event(1<<10)+",", 100), ",") + `]}`,
			"", "application/json"},
		{"lines of 100", "/v1/events/batch", strings.Repeat(event(1<<10)+"\n", 100), "", openapi.TypeNDJSON},
		{"raw 1KiB", "/v1/events/raw?type=a", strings.Repeat("x", 1<<10), "", "text/plain"},
	} {
		b.Run(c.name, func(b *testing.B) {
			engine := &idle{key: grapnel.Key{ID: "key_1", Scopes: []grapnel.Scope{grapnel.ScopePublish}}, hash: sha256.Sum256([]byte("grp_x")),
				ids: grapnel.NewIDs(make(grapnel.IDKey, 16))}
			handler := New(Options{Engine: engine, Idempotency: engine})
			reader := strings.NewReader(c.body)
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://127.0.0.1"+c.path, io.NopCloser(reader))
			if err != nil {
				b.Fatal(err)
			}
			r.ContentLength = int64(len(c.body))
			r.Header.Set("Authorization", "Bearer grp_x")
			r.Header.Set("Content-Type", c.media)
			w := &sink{header: http.Header{}}
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				reader.Reset(c.body)
				r.Body = io.NopCloser(reader)
				if c.once != "" {
					r.Header["Idempotency-Key"] = []string{fmt.Sprint(c.once, n)}
				}
				handler.ServeHTTP(w, r)
			}
			if w.status != http.StatusAccepted {
				b.Fatalf("answered %d", w.status)
			}
		})
	}
}
