package receive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Delivery is one verified request, as its handler gets it.
type Delivery struct {
	Source    string
	ID        string // the event's, the same on each of its deliveries
	Header    http.Header
	Body      []byte // exactly as it came
	Timestamp time.Time

	// Generation rises with every claim of the key. A service that stores the highest one it has
	// seen, and refuses lower ones, is safe from a handler that outlived its lease.
	Generation int64
	Attempt    int64 // how many times the key was claimed, this one included
	Replayed   bool  // an operator replays a dead letter

	secret   []string // headers that are never stored
	fromBody bool     // the ID was made from the body
}

// Decode reads the body as JSON. Its errors are permanent, unless the handler says otherwise.
func (d *Delivery) Decode(v any) error { return Permanent(json.Unmarshal(d.Body, v)) }

// IdempotencyKey is the key for a call of another service in this step of the handler. Every
// delivery of the event gives the same one, so the service can drop a repeated call.
func (d *Delivery) IdempotencyKey(step string) string {
	h := sha256.New()
	_, _ = io.WriteString(h, "grapnel:idempotency:1\n")
	for _, part := range []string{d.Source, d.ID, step} {
		_, _ = fmt.Fprintf(h, "%d:%s\n", len(part), part)
	}
	return "idk_" + hex.EncodeToString(h.Sum(nil))[:32]
}
