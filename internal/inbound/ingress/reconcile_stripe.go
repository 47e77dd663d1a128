package ingress

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Stripe reads an account's events. Stripe stores them for 30 days, and reports for each whether an
// endpoint has not received it.
type Stripe struct {
	Account
	Types []string // only these; empty: all
}

// Sent lists the account's events with their bodies. Failed means that at least one endpoint of the
// account, not necessarily the source, has not received it.
func (s *Stripe) Sent(ctx context.Context, since time.Time) ([]Sent, error) {
	failed, err := s.list(ctx, since, false)
	if err != nil {
		return nil, err
	}
	arrived, err := s.list(ctx, since, true)
	if err != nil {
		return nil, err
	}
	// An event that arrived between the two lists is in both: it arrived.
	all := latest(append(arrived, failed...))
	slices.SortStableFunc(all, func(a, b Sent) int { return b.At.Compare(a.At) })
	return all, nil
}

func (s *Stripe) list(ctx context.Context, since time.Time, success bool) ([]Sent, error) {
	base := "https://api.stripe.com"
	if s.URL != "" {
		base = strings.TrimSuffix(s.URL, "/")
	}
	query := url.Values{"limit": {strconv.Itoa(perPage)}, "created[gte]": {strconv.FormatInt(since.Unix(), 10)},
		"delivery_success": {strconv.FormatBool(success)}}
	for _, kind := range s.Types {
		query.Add("types[]", kind)
	}
	var all []Sent
	for range maxPages {
		var page struct {
			Data    []json.RawMessage `json:"data"`
			HasMore bool              `json:"has_more"`
		}
		if _, err := s.ask(ctx, http.MethodGet, base+"/v1/events?"+query.Encode(), http.Header{}, &page); err != nil {
			return nil, err
		}
		for _, raw := range page.Data {
			var ev struct {
				ID      string `json:"id"`
				Type    string `json:"type"`
				Created int64  `json:"created"`
				Pending int    `json:"pending_webhooks"`
			}
			if err := json.Unmarshal(raw, &ev); err != nil || ev.ID == "" {
				return nil, fmt.Errorf("the provider's list has an entry that is no event: %.100q", raw)
			}
			one := Sent{ID: ev.ID, Event: ev.ID, Type: ev.Type, At: time.Unix(ev.Created, 0).UTC(), Failed: !success, Body: raw}
			if !success {
				one.Detail = fmt.Sprintf("%d endpoints have not got it", ev.Pending)
			}
			all = append(all, one)
			query.Set("starting_after", ev.ID)
		}
		if !page.HasMore || len(page.Data) == 0 {
			return all, nil
		}
	}
	return nil, fmt.Errorf("Stripe lists more than %d pages of events", maxPages)
}

// Resend is not possible: Stripe's API has no call for it. The event itself is in Sent.Body.
func (s *Stripe) Resend(context.Context, Sent) error {
	return grapnel.Errorf(grapnel.CodeUnsupported,
		"Stripe sends events again by itself for three days, in its dashboard, or by its command line; its API cannot be asked to.")
}
