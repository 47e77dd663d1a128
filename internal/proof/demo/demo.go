// Package demo is the content of `grapnel dev`: three receivers on loopback, the endpoints that
// lead to them, and a story of a minute that shows what Grapnel does when a receiver fails.
//
// The receivers follow the rules for receivers: they read a bounded body, verify the signature over
// it before they parse it, and answer quickly. Two have faults on purpose, which show in the same
// way each time (receivers.go). The story (story.go) publishes events; a step of it is done when
// the server's own answers show it, not because some time has passed.
//
// It is no model for production: a receiver here stores nothing on disk. `grapnel serve` uses
// nothing of it.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

const maxBody = 1 << 20

func (r Receipt) String() string {
	if r.Status < 300 {
		var is struct{ Type string }
		_ = json.Unmarshal([]byte(r.Body), &is) // a body of another form has no type here
		return fmt.Sprintf("%-7s got %s, attempt %s: %s", r.Receiver, r.EventID, r.Attempt, is.Type)
	}
	return fmt.Sprintf("%-7s answered %d to %s, attempt %s: %s", r.Receiver, r.Status, r.EventID, r.Attempt, r.Why)
}

// Open starts the receivers on a free port of loopback. tell is called for every request, by
// several goroutines.
func Open(ctx context.Context, tell func(Receipt)) (*Receivers, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the demo receivers: %w", err)
	}
	r := &Receivers{
		listener: listener, tell: tell, done: make(chan struct{}), endpoints: map[string]string{},
		verifiers: map[string]*sign.Verifier{}, flaky: newFlaky(), ledger: newLedger(),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{receiver}", r.receive)
	mux.HandleFunc("POST /ledger/fix", func(w http.ResponseWriter, _ *http.Request) {
		r.Fix()
		w.WriteHeader(http.StatusNoContent)
	})
	r.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	go func() {
		defer close(r.done)
		_ = r.http.Serve(listener) // ends with http.ErrServerClosed
	}()
	return r, nil
}

// Close stops the receivers.
func (r *Receivers) Close() error {
	err := r.http.Close()
	<-r.done
	return err
}

// FixURL repairs the ledger when it gets a POST.
func (r *Receivers) FixURL() string { return r.url(Ledger) + "/fix" }

// Endpoint is the id of a receiver's endpoint, once Install has returned.
func (r *Receivers) Endpoint(receiver string) string { return r.endpoints[receiver] }

// AnythingURL is the URL of the receiver that accepts every request.
func (r *Receivers) AnythingURL() string { return r.url(Anything) }

// url is the URL of a receiver.
func (r *Receivers) url(receiver string) string {
	return "http://" + r.listener.Addr().String() + "/" + receiver
}

// trust makes a receiver accept requests signed with a secret.
func (r *Receivers) trust(receiver, secret string) error {
	v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifiers[receiver] = v
	return nil
}

func (r *Receivers) receive(w http.ResponseWriter, req *http.Request) {
	receipt := Receipt{
		Receiver: req.PathValue("receiver"), EventID: req.Header.Get("Webhook-Id"), Attempt: req.Header.Get("Grapnel-Attempt"),
	}
	var a answer
	a, receipt.Body = r.judge(w, req, receipt.Receiver)
	receipt.Status, receipt.Why = a.status, a.why
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.why) // the attempt stores it, so the reason is visible there
	r.tell(receipt)
}

// judge verifies a request and hands it to the receiver it is for.
func (r *Receivers) judge(w http.ResponseWriter, req *http.Request, receiver string) (a answer, text string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		return answer{http.StatusRequestEntityTooLarge, "the body is too large or did not come"}, ""
	}
	if receiver == Anything {
		return accepted, string(body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	verifier := r.verifiers[receiver]
	if verifier == nil {
		return answer{http.StatusServiceUnavailable, "it has no secret yet"}, ""
	}
	verified, err := verifier.Verify(req.Header, body)
	switch {
	case errors.Is(err, sign.ErrNoMatch):
		return answer{http.StatusUnauthorized, "the signature is not by the secret that it knows"}, ""
	case err != nil:
		return answer{http.StatusUnauthorized, err.Error()}, ""
	}
	a = answer{status: http.StatusOK}
	switch receiver {
	case Flaky:
		a = r.flaky.take(verified.ID)
	case Ledger:
		a = r.ledger.take(verified.ID, body)
	}
	return a, strings.TrimSpace(string(body))
}
