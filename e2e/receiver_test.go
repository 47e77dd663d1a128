//go:build linux

package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
	"github.com/grapnelhq/grapnel/sign"
)

// reply is what a receiver does with one request after it has recorded it.
type reply struct {
	after  time.Duration
	status int
	hang   bool // no answer until the sender gives up
	reset  bool // the connection is reset: without an answer if status is 0, else right behind the answer
}

// receivers is an HTTP server that plays every endpoint of a trial.
type receivers struct {
	t        testing.TB
	ledger   *ledger
	server   *http.Server
	base     string
	numbers  atomic.Int64
	healed   atomic.Bool   // all receivers behave well from now on
	answered chan struct{} // gets a token after each written 2xx, if a test reads them

	mu      sync.Mutex
	targets map[string]*target // by path
}

// target is one endpoint: its settings at the server, what the judge needs to know of it, and its
// behaviour.
type target struct {
	name   string
	create map[string]any // the body of POST /v1/endpoints without the URL
	rules  history.Endpoint
	behave func() reply

	verifier *sign.Verifier
	received atomic.Int64
	probed   atomic.Int64
	batches  atomic.Int64 // requests with several events
}

func newReceivers(t testing.TB, l *ledger) *receivers {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receivers{t: t, ledger: l, base: "http://" + listener.Addr().String(), answered: make(chan struct{}),
		targets: map[string]*target{}}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = r.server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = r.server.Close()
		<-served
	})
	return r
}

// add makes a target reachable. Its verifier uses the secret that the server gave to the endpoint.
func (r *receivers) add(x *target, secret string) {
	v, err := sign.NewVerifier(sign.VerifierOptions{Secrets: []string{secret}})
	if err != nil {
		r.t.Fatalf("the secret of endpoint %s: %v", x.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	x.verifier = v
	r.targets["/"+x.name] = x
}

func (r *receivers) url(name string) string { return r.base + "/" + name }

func (r *receivers) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	start := r.ledger.now()
	r.mu.Lock()
	x := r.targets[req.URL.Path]
	r.mu.Unlock()
	if x == nil {
		http.NotFound(w, req) // created, but the harness does not know its secret yet, so no event was published
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender died while writing, so the event has not been received
	}
	var numbers []int
	for _, seen := range x.look(req, body) {
		seen.Start = start
		numbers = append(numbers, int(r.numbers.Add(1)))
		r.ledger.write(entry{Receipt: numbers[len(numbers)-1], Begin: &seen})
		x.received.Add(1)
		if seen.Trigger == grapnel.TriggerProbe {
			x.probed.Add(1)
		}
	}
	a := reply{status: http.StatusOK}
	if !r.healed.Load() {
		a = x.behave()
	}
	if len(numbers) > 1 {
		x.batches.Add(1)
	}
	r.answer(w, req, numbers, a)
}

// look reads a request's headers and checks its bytes. A batch has several events, whose deliveries
// its headers do not name.
func (x *target) look(req *http.Request, body []byte) []history.Receipt {
	h := req.Header
	position, _ := strconv.ParseInt(h.Get("grapnel-sequence"), 10, 64)
	attempt, _ := strconv.Atoi(h.Get("grapnel-attempt"))
	r := history.Receipt{Event: h.Get("webhook-id"), Endpoint: x.rules.ID, Delivery: h.Get("grapnel-delivery"), Position: position,
		Attempt: attempt, Trigger: grapnel.Trigger(h.Get("grapnel-trigger")), Body: fingerprint(body),
		Node: h.Get("grapnel-node")}
	r.Epoch, _ = strconv.ParseInt(h.Get("grapnel-epoch"), 10, 64)
	var envelope struct {
		ID   string          `json:"id"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &envelope); err == nil && envelope.ID == r.Event {
		r.Hash = fingerprint(envelope.Data)
	}
	verified, err := x.verifier.Verify(h, body)
	r.BadSignature = err != nil || verified.ID != r.Event
	var batch []json.RawMessage
	if x.create["format"] != "batch" || json.Unmarshal(body, &batch) != nil {
		return []history.Receipt{r}
	}
	all := make([]history.Receipt, len(batch))
	for i, element := range batch {
		is := r
		if err := json.Unmarshal(element, &envelope); err == nil {
			is.Event, is.Hash, is.Body = envelope.ID, fingerprint(envelope.Data), fingerprint(element)
		}
		if len(batch) > 1 {
			is.Events = len(batch)
		}
		is.BadSignature = err != nil || len(batch) == 1 && envelope.ID != r.Event
		all[i] = is
	}
	return all
}

// named gives the receipts of batches their deliveries, which only the server's state names.
func named(h *history.History) {
	type pair struct{ event, endpoint string }
	firsts := map[pair]*history.Final{}
	for i := range h.Finals {
		if f := &h.Finals[i]; f.ReplayOf == "" {
			firsts[pair{f.Event, f.Endpoint}] = f
		}
	}
	for i := range h.Receipts {
		r := &h.Receipts[i]
		if f := firsts[pair{r.Event, r.Endpoint}]; r.Delivery == "" && f != nil {
			r.Delivery, r.Position = f.Delivery, f.Position
		}
	}
}

// answer does what the reply says. It records the end of a request before it answers, so that no
// consequence of the answer can have an earlier time.
func (r *receivers) answer(w http.ResponseWriter, req *http.Request, numbers []int, a reply) {
	gone := req.Context().Done()
	end := func(status int, lost bool) {
		for _, number := range numbers {
			r.ledger.write(entry{Receipt: number, End: &history.Receipt{End: r.ledger.now(), Status: status, AnswerLost: lost}})
		}
	}
	if a.hang {
		<-gone
		end(0, false)
		return
	}
	if a.after > 0 {
		timer := time.NewTimer(a.after)
		defer timer.Stop()
		select {
		case <-gone:
			end(0, false)
			return
		case <-timer.C:
		}
	}
	if a.reset {
		end(a.status, true)
		r.cut(w, a.status)
		return
	}
	end(a.status, false)
	w.WriteHeader(a.status)
	if a.status >= 200 && a.status < 300 {
		_ = http.NewResponseController(w).Flush()
		select {
		case r.answered <- struct{}{}:
		default:
		}
	}
}

// cut resets the connection, behind an answer if a status is given.
func (r *receivers) cut(w http.ResponseWriter, status int) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if status != 0 {
		_, _ = io.WriteString(conn, "HTTP/1.1 "+strconv.Itoa(status)+" OK\r\nContent-Length: 0\r\n\r\n")
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func fingerprint(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}
