package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/memstore"
	"github.com/grapnelhq/grapnel/sign"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// routers serve a handler for POST /hooks, behind the middleware that their pages begin with.
var routers = map[string]func(http.Handler) http.Handler{
	"chi": func(h http.Handler) http.Handler {
		r := chi.NewRouter()
		r.Use(middleware.RequestID, middleware.Recoverer, middleware.Timeout(time.Minute))
		r.Method(http.MethodPost, "/hooks", h)
		return r
	},
	"gin": func(h http.Handler) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		r.Use(gin.Recovery())
		r.POST("/hooks", gin.WrapH(h))
		return r
	},
	"echo": func(h http.Handler) http.Handler {
		e := echo.New()
		e.Use(echomiddleware.Recover(), echomiddleware.RequestID())
		e.POST("/hooks", echo.WrapHandler(h))
		return e
	},
}

// TestRoutersServeTheKit: bytes, headers and answers reach the kit and the sender as with net/http,
// and a panic of the handler is an answer of the kit's.
func TestRoutersServeTheKit(t *testing.T) {
	for name, router := range routers {
		t.Run(name, func(t *testing.T) {
			kit, err := receive.New(receive.Options{Source: "acme", Verifier: receive.StandardWebhooks(secret), Store: memstore.New(),
				MaxBody: 1000})
			if err != nil {
				t.Fatal(err)
			}
			var seen []string
			server := httptest.NewServer(router(kit.Claim(func(_ context.Context, d *receive.Delivery) error {
				if d.ID == "panics" {
					panic("a handler's mistake")
				}
				seen = append(seen, d.ID+" "+string(d.Body))
				return nil
			})))
			defer server.Close()
			const body = `{ "type": "invoice.paid",  "data": {"amount": 10.50} }` // a parser would change it
			var got []string
			for _, one := range [][3]string{{"evt_1", body, body}, {"evt_1", body, body}, {"evt_2", body, body + " "},
				{"evt_3", strings.Repeat("x", 1001), strings.Repeat("x", 1001)}, {"panics", body, body}} {
				got = append(got, post(t, server.URL+"/hooks", one[0], one[1], one[2]))
			}
			want := "[200 processed 200 duplicate 401 unverified 413 too_large 503 retryable]"
			if fmt.Sprint(got) != want || fmt.Sprint(seen) != "[evt_1 "+body+"]" {
				t.Errorf("%v, want %s; the handler saw %q", got, want, seen)
			}
		})
	}
}

// post sends a body with the signature of another and returns status and outcome.
func post(t *testing.T, url, id, signed, body string) string {
	t.Helper()
	now := time.Now()
	signature, err := sign.Sign(id, now, []byte(signed), secret)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, sign.HeaderID: {id}, sign.HeaderTimestamp: {fmt.Sprint(now.Unix())},
		sign.HeaderSignature: {signature}}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), answer.Header.Get("Webhook-Outcome")) {
		t.Errorf("the body is %s, %v", text, err)
	}
	return fmt.Sprint(answer.StatusCode, " ", answer.Header.Get("Webhook-Outcome"))
}
