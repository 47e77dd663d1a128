//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"

	"github.com/grapnelhq/grapnel/sign"
)

// With -ingest the events come in at the address of a source, /in/{source}, each signed as Standard
// Webhooks requires, and no endpoint gets them. The other side is a process on net/http that reads
// the body, verifies the signature, answers and stores nothing. Both answer 202.

const handlerName = "handler"

func newHandler() verbs {
	return verbs{"serve": taking(serveHandler)}
}

// serveHandler starts the handler, which runs until the process ends with its orchestrator, and
// returns its address.
func serveHandler(secret string) (string, error) {
	verifier, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}})
	if err != nil {
		return "", err
	}
	return serveHTTP("POST /in/{source}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		if _, err := verifier.Verify(r.Header, body); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
}

// source creates the source that verifies with a secret, and returns its path.
func (g *server) source(ctx context.Context, secret string) (string, error) {
	var src struct {
		ID string `json:"id"`
	}
	err := g.send(ctx, http.MethodPost, "/v1/sources", map[string]any{"name": "bench", "verify": map[string]any{"scheme": "standard",
		"secret": secret}}, &src)
	return "/in/" + src.ID, err
}

// newSecret is a secret of this run.
func newSecret() (string, error) { return sign.NewSecret(rand.Reader) }
