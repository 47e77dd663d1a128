// Command issuer is an OpenID Connect issuer for tests: the certified provider of zitadel/oidc with
// some people in memory. It is a module of its own, so its dependencies are not the product's.
//
// It prints one line of JSON with its address and ends when its standard input does, so it never
// outlives the test that started it. There are no
// passwords.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/pkg/op"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "issuer:", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "127.0.0.1:0", "address to accept requests at")
	client := flag.String("client", "grapnel", "id of the one client")
	secret := flag.String("secret", "", "secret of the client")
	people := flag.String("people", "{}", `who can sign in: {"alice":{"email":"alice@example.com","groups":["ops"],"tenant":"acme"}}`)
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	s, err := newStorage(*client, *secret, *people)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	issuer := "http://" + listener.Addr().String()
	handler, err := newHandler(issuer, s)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"issuer": issuer}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err = server.Shutdown(ctx)
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		return failed
	}
	return err
}

// newHandler has the provider's endpoints, the sign-in page, and what tests change.
func newHandler(issuer string, s *storage) (http.Handler, error) {
	config := &op.Config{CodeMethodS256: true, AuthMethodPost: true, DefaultLogoutRedirectURI: "/signed-out"}
	if _, err := rand.Read(config.CryptoKey[:]); err != nil {
		return nil, err
	}
	provider, err := op.NewProvider(config, s, op.StaticIssuer(issuer), op.WithAllowInsecure())
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", provider)
	mux.HandleFunc("GET /sign-in", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, map[string]any{"Request": r.FormValue("request"), "People": s.names()})
	})
	mux.HandleFunc("POST /sign-in", func(w http.ResponseWriter, r *http.Request) {
		if err := s.signIn(r.PostFormValue("request"), r.PostFormValue("person")); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		ctx := op.ContextWithIssuer(r.Context(), issuer)
		http.Redirect(w, r, op.AuthCallbackURL(provider)(ctx, r.PostFormValue("request")), http.StatusFound)
	})
	mux.HandleFunc("POST /test/redirects", func(w http.ResponseWriter, r *http.Request) {
		s.allow(r.PostFormValue("uri"), r.PostFormValue("after"))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /test/rotate", func(w http.ResponseWriter, r *http.Request) {
		if err := s.rotate(r.PostFormValue("alg")); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /signed-out", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "signed out") })
	return mux, nil
}

// page signs in as any person.
var page = template.Must(template.New("").Parse(`<!doctype html><title>Issuer</title><h1>Who are you?</h1>
<form method="post" action="/sign-in"><input type="hidden" name="request" value="{{.Request}}">
{{range .People}}<button name="person" value="{{.}}">{{.}}</button>
{{end}}</form>`))
