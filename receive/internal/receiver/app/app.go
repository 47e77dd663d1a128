// Package app is the test receiver of the Go kit (sdk/README.md): a small invoice service that
// holds events at a step, fails and changes its clock when it is told to.
//
// It takes its stores as data, so a store in a module of its own runs the same program. It promises
// nothing to programs outside of this repository's tests.
package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// Open opens the backend of a data source name.
type Open func(ctx context.Context, dsn string) (*Backend, error)

// Run runs the receiver until ctx ends.
func Run(ctx context.Context, env func(string) string, out io.Writer, stores map[string]Open) (err error) {
	open, known := stores[env("STORE")]
	if !known {
		return fmt.Errorf("STORE: %q is not a store of this program", env("STORE"))
	}
	a := &app{env: env}
	if a.backend, err = open(ctx, env("DSN")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.backend.Close()) }()
	for _, table := range tables {
		if _, err := a.backend.Ledger.Exec(ctx, table); err != nil {
			return err
		}
	}
	mux := http.NewServeMux()
	for path, source := range map[string][2]string{"/hooks": {"acme", "SECRET"}, "/other": {"other", "SECRET2"}} {
		if env(source[1]) == "" {
			continue
		}
		h, err := a.hook(source[0], env(source[1]))
		if err != nil {
			return err
		}
		mux.Handle("POST "+path, h)
	}
	mux.HandleFunc("GET /_probe", a.probe)
	mux.HandleFunc("POST /_fault", a.faults.add)
	mux.HandleFunc("POST /_clock", a.clock)
	mux.HandleFunc("POST /_hold", a.hold.begin)
	mux.HandleFunc("GET /_hold", a.hold.list)
	return a.serve(ctx, mux, out)
}

// serve serves until ctx ends; then it finishes what runs.
func (a *app) serve(ctx context.Context, h http.Handler, out io.Writer) error {
	port := a.env("PORT")
	if port == "" {
		port = "0"
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1+len(a.work))
	go func() { ended <- server.Serve(listener) }()
	for _, work := range a.work {
		go func() {
			work(ctx)
			ended <- nil
		}()
	}
	_, _ = fmt.Fprintf(out, "listening on http://%s\n", listener.Addr())
	left := cap(ended)
	select {
	case <-ctx.Done():
	case err = <-ended:
		left--
	}
	stop() // the workers
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err = errors.Join(err, server.Shutdown(limited))
	for range left {
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// hook is the endpoint of a source.
func (a *app) hook(source, secret string) (http.Handler, error) {
	verify := verifier{receive.StandardWebhooks(secret), &a.hold}
	if a.env("MODE") == "bare" {
		return a.bare(source, verify), nil
	}
	kit, err := receive.New(receive.Options{Source: source, Verifier: verify, Store: a.backend.Store, Now: a.now})
	if err != nil {
		return nil, err
	}
	var endpoint http.Handler
	switch mode := a.env("MODE"); {
	case mode == "transaction" && a.backend.Transaction != nil:
		endpoint = a.backend.Transaction(kit, a.inside)
	case mode == "claim":
		endpoint = kit.Claim(a.service)
	case mode == "inbox":
		inbox, err := kit.Inbox(receive.InboxOptions{Order: byInvoice, FirstPause: 50 * time.Millisecond, LongestPause: time.Second,
			Poll: 100 * time.Millisecond})
		if err != nil {
			return nil, err
		}
		workers, err := strconv.Atoi(cmp.Or(a.env("WORKERS"), "4"))
		if err != nil {
			return nil, fmt.Errorf("WORKERS: %w", err)
		}
		endpoint = inbox
		a.work = append(a.work, func(ctx context.Context) { inbox.Work(ctx, workers, a.service) })
	default:
		return nil, fmt.Errorf("MODE: the store has no mode %q", mode)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := &answer{w, r.Header.Get("webhook-id"), &a.hold}
		endpoint.ServeHTTP(one, r)
		if one.done() {
			a.hold.at("after-answer", one.id)
		}
	}), nil
}

// byInvoice keeps the requests of an invoice in order.
func byInvoice(d *receive.Delivery) (string, int64) {
	var event struct {
		Data struct {
			Invoice string `json:"invoice"`
			Version int64  `json:"version"`
		} `json:"data"`
	}
	_ = json.Unmarshal(d.Body, &event) // the handler's own decoding reports the fault
	return event.Data.Invoice, event.Data.Version
}

// service is the handler of the modes claim and inbox. Its ledger stands for another service, which
// has a transaction of its own.
func (a *app) service(ctx context.Context, d *receive.Delivery) error {
	err := a.backend.Within(ctx, func(db Conn) error { return a.handle(ctx, db, d) })
	if err == nil {
		a.hold.at("after-effect", d.ID)
	}
	return err
}

// clock sets the kit's clock, which goes on from there.
func (a *app) clock(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.ParseInt(r.URL.Query().Get("now"), 10, 64)
	if err != nil {
		http.Error(w, "now: seconds since 1970, or 0", http.StatusBadRequest)
		return
	}
	var skew time.Duration
	if seconds != 0 {
		skew = time.Until(time.Unix(seconds, 0))
	}
	a.skew.Store(int64(skew))
	w.WriteHeader(http.StatusNoContent)
}
