package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grapnelhq/grapnel/sign"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := pgxpool.ParseConfig(os.Getenv("DSN"))
	if err != nil {
		return err
	}
	config.MaxConns = 25
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec(ctx, tables); err != nil {
		return err
	}
	r := &receiver{db: db, faults: map[string]*fault{}, verify: map[string]*sign.Verifier{}}
	for source, secret := range map[string]string{"acme": os.Getenv("SECRET"), "other": os.Getenv("SECRET2")} {
		if r.verify[source], err = sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}, Now: r.now}); err != nil {
			return err
		}
	}
	if is("answered-then-queued") {
		go r.worker(ctx)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks", func(w http.ResponseWriter, q *http.Request) { r.hook(w, q, "acme") })
	mux.HandleFunc("POST /other", func(w http.ResponseWriter, q *http.Request) { r.hook(w, q, "other") })
	mux.HandleFunc("GET /_probe", r.probe)
	mux.HandleFunc("POST /_fault", r.fail)
	mux.HandleFunc("POST /_clock", r.setClock)
	mux.HandleFunc("POST /_hold", holdAt)
	mux.HandleFunc("GET /_hold", listHeld)
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, IdleTimeout: 10 * time.Second, ErrorLog: log.Default()}
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.Background())
	}()
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}
