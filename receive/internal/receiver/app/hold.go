package app

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// hold keeps events at one step of a request until the process is killed: an event that it lists
// does not go on.
type hold struct {
	mu   sync.Mutex
	step string
	ids  []string
}

// at is called by each event at each step.
func (h *hold) at(step, id string) {
	h.mu.Lock()
	held := step == h.step
	if held {
		h.ids = append(h.ids, id)
	}
	h.mu.Unlock()
	if held {
		select {}
	}
}

// begin keeps what reaches a step from now on.
func (h *hold) begin(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.step = r.FormValue("step")
	w.WriteHeader(http.StatusNoContent)
}

// list answers the ids of the events at the step.
func (h *hold) list(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(append([]string{}, h.ids...))
}

// verifier holds events before the claim.
type verifier struct {
	receive.Verifier
	hold *hold
}

func (c verifier) Verify(r *http.Request, body []byte, now time.Time) (receive.Verified, error) {
	v, err := c.Verifier.Verify(r, body, now)
	if err == nil {
		c.hold.at("before-claim", v.ID)
	}
	return v, err
}

// answer holds an event after the commit, before the first byte of its answer.
type answer struct {
	http.ResponseWriter
	id   string
	hold *hold
}

func (a *answer) WriteHeader(status int) {
	if a.done() {
		a.hold.at("after-commit", a.id)
	}
	a.ResponseWriter.WriteHeader(status)
}

// done reports whether this request claimed the event and committed.
func (a *answer) done() bool {
	o := receive.Outcome(a.Header().Get("Webhook-Outcome"))
	return o == receive.Processed || o == receive.Accepted
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
