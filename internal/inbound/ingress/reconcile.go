package ingress

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Reconciler asks a provider for its sent requests, because some providers never retry failed ones,
// or stop soon. Requests that the provider sends again come in through the source, like all others;
// those received before are duplicates there.
type Reconciler interface {
	// Sent lists the provider's requests since a time, the newest first, one entry for each event:
	// its last delivery.
	Sent(ctx context.Context, since time.Time) ([]Sent, error)
	// Resend asks the provider to send one again; grapnel.CodeUnsupported if its API cannot.
	Resend(ctx context.Context, s Sent) error
}

// Sent is one request in the provider's list.
type Sent struct {
	ID     string // of the delivery, for asking again
	Event  string // the id of the event, by which the source deduplicates
	Type   string
	At     time.Time
	Failed bool
	Status int    // of the answer; 0: unknown, or no answer
	Detail string // in the provider's words
	Body   []byte // of the event, if the provider's list contains it
}

// Account is how a provider's API is reached.
type Account struct {
	Token  string
	URL    string       // of the API; empty: the provider's own
	Client *http.Client // nil: one with a timeout
}

// Limits of one listing.
const (
	askTimeout  = 30 * time.Second
	maxPage     = 32 << 20 // bytes of one page of a list
	maxPages    = 1_000
	perPage     = 100
	maxMistakes = 512 // bytes quoted of an unexpected answer
)

// ask sends one request to the provider's API and decodes the JSON of its answer into v, unless v
// is nil.
func (a *Account) ask(ctx context.Context, method, url string, headers http.Header, v any) (http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, fmt.Errorf("asking the provider: %w", err)
	}
	r.Header = headers.Clone()
	r.Header.Set("Authorization", "Bearer "+a.Token)
	r.Header.Set("User-Agent", "Grapnel/"+grapnel.Version)
	client := a.Client
	if client == nil {
		client = &http.Client{Timeout: askTimeout}
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, grapnel.Errorf(grapnel.CodeUnavailable, "The provider cannot be reached: %v", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	if err != nil {
		return nil, grapnel.Errorf(grapnel.CodeUnavailable, "The provider's answer ended too early: %v", err)
	}
	if answer.StatusCode/100 != 2 {
		return nil, refusedBy(answer, body)
	}
	if v != nil {
		if err := json.Unmarshal(body, v); err != nil {
			return nil, fmt.Errorf("the provider's answer is not the expected JSON: %w", err)
		}
	}
	return answer.Header, nil
}

// refusedBy is the error for an unsuccessful answer.
func refusedBy(answer *http.Response, body []byte) error {
	code := grapnel.CodeInvalid
	switch {
	case answer.StatusCode == http.StatusNotFound:
		code = grapnel.CodeNotFound
	case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500:
		code = grapnel.CodeUnavailable
	}
	refused := grapnel.Errorf(code, "The provider answered %s: %.*s", answer.Status, maxMistakes, body)
	if wait, err := time.ParseDuration(answer.Header.Get("Retry-After") + "s"); err == nil {
		refused.RetryAfter = wait
	}
	return refused
}

// latest keeps the first entry of each event: lists are the newest first.
func latest(all []Sent) []Sent {
	seen, kept := make(map[string]bool, len(all)), all[:0]
	for _, s := range all {
		if s.Event == "" || !seen[s.Event] {
			kept = append(kept, s)
		}
		seen[s.Event] = true
	}
	return kept
}
