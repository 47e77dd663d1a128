// Package demo is the content of `grapnel dev`: two receivers on loopback and the endpoints that
// lead to them.
//
// The receivers follow the rules for receivers: they read a bounded body, verify the signature over
// it before they parse it, and answer quickly. One is healthy. The other is flaky on purpose, and
// always in the same way: of every three new events it refuses the first one twice before it
// accepts it, so that retries can be watched.
//
// It is no model for production: a receiver here stores nothing and does not recognize repeated
// events. `grapnel serve` uses nothing of it.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

// The receivers; a receiver's path is its name.
const (
	Healthy = "healthy"
	Flaky   = "flaky"
)

const maxBody = 1 << 20

// Receipt is one request that a receiver got.
type Receipt struct {
	Receiver string
	EventID  string
	Attempt  string
	Body     string
	Status   int    // of the receiver's answer
	Why      string // it did not answer 2xx
}

func (r Receipt) String() string {
	if r.Status < 300 {
		return fmt.Sprintf("%-7s got %s, attempt %s: %s", r.Receiver, r.EventID, r.Attempt, r.Body)
	}
	return fmt.Sprintf("%-7s answered %d to %s, attempt %s: %s", r.Receiver, r.Status, r.EventID, r.Attempt, r.Why)
}

// Receivers are the two of them behind one listener.
type Receivers struct {
	listener net.Listener
	http     *http.Server
	tell     func(Receipt)
	done     chan struct{}

	mu        sync.Mutex
	verifiers map[string]*sign.Verifier
	arrivals  int            // new events at the flaky one
	refusals  map[string]int // event → how often the flaky one will still refuse it
}

// Open starts the receivers on a free port of loopback. tell hears of every request, from several
// goroutines.
func Open(ctx context.Context, tell func(Receipt)) (*Receivers, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the demo receivers: %w", err)
	}
	r := &Receivers{
		listener: listener, tell: tell, done: make(chan struct{}),
		verifiers: map[string]*sign.Verifier{}, refusals: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{receiver}", r.receive)
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

// url is where deliveries for a receiver go.
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
	receipt.Status, receipt.Body, receipt.Why = r.judge(w, req, receipt.Receiver)
	w.WriteHeader(receipt.Status)
	r.tell(receipt)
}

func (r *Receivers) judge(w http.ResponseWriter, req *http.Request, receiver string) (status int, text, why string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		return http.StatusRequestEntityTooLarge, "", "the body is too large or did not come"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	verifier := r.verifiers[receiver]
	if verifier == nil {
		return http.StatusServiceUnavailable, "", "it has no secret yet"
	}
	verified, err := verifier.Verify(req.Header, body)
	switch {
	case errors.Is(err, sign.ErrNoMatch):
		return http.StatusUnauthorized, "", "the signature is not by the secret that it knows"
	case err != nil:
		return http.StatusUnauthorized, "", err.Error()
	}
	if receiver == Flaky && r.refuse(verified.ID) {
		return http.StatusServiceUnavailable, "", "it is flaky; watch the retry"
	}
	return http.StatusOK, strings.TrimSpace(string(body)), ""
}

// refuse says whether the flaky receiver has one of its moments.
func (r *Receivers) refuse(event string) bool {
	left, known := r.refusals[event]
	if !known {
		r.arrivals++
		if r.arrivals%3 != 1 {
			return false
		}
		left = 2
	}
	if left == 0 {
		delete(r.refusals, event)
		return false
	}
	r.refusals[event] = left - 1
	return true
}
