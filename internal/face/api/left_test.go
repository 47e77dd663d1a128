package api

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// leaver is an engine whose caller leaves while an order is carried out. As in the real one, that
// keeps a caller from the answer, and the order from nothing.
type leaver struct {
	Engine
	leave func()
}

func (l *leaver) Retry(ctx context.Context, scope store.Scope, delivery int64, by grapnel.By, once *store.Once) (store.Redelivered, error) {
	l.leave()
	done, err := l.Engine.Retry(context.Background(), scope, delivery, by, once)
	if ctx.Err() != nil {
		return store.Redelivered{}, ctx.Err()
	}
	return done, err
}

// TestRetryOfACallerThatLeaves: the caller gives up after its timeout, and asks again with the same
// key. By then the order's attempt has delivered.
func TestRetryOfACallerThatLeaves(t *testing.T) {
	engine := &leaver{}
	w := newWorld(t, func(o *Options) { engine.Engine, o.Engine = o.Engine, engine })
	w.endpoint(admin, "")
	w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	d := w.only()
	ask := func() reply {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		engine.leave = cancel
		r := httptest.NewRequestWithContext(ctx, "POST", "/v1/deliveries/"+storeIDs.Of(d)+"/retry", nil)
		r.Header.Set("Authorization", "Bearer "+admin)
		r.Header.Set(idempotencyHeader, "k")
		return w.send(r)
	}
	ask()
	w.finish(d, grapnel.Delivered, grapnel.ReasonNone, "delivered at attempt 2")
	if again := ask(); again.StatusCode != 200 || again.Header.Get("Idempotency-Replayed") != "true" ||
		!strings.Contains(string(again.body), storeIDs.Of(d)) {
		t.Errorf("answered %d %s", again.StatusCode, again.body)
	}
	w.only()
}
