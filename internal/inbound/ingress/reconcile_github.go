package ingress

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// GitHub reads the deliveries of one GitHub webhook. GitHub stores them for three days and never
// redelivers by itself.
type GitHub struct {
	Account
	// Hook is the webhook's place in the API: repos/OWNER/REPO/hooks/ID, orgs/ORG/hooks/ID, or
	// app/hook for a GitHub App.
	Hook string
}

// delivered is a delivery as GitHub lists it.
type delivered struct {
	ID          int64     `json:"id"`
	GUID        string    `json:"guid"`
	DeliveredAt time.Time `json:"delivered_at"`
	Status      string    `json:"status"`
	StatusCode  int       `json:"status_code"`
	Event       string    `json:"event"`
}

func (g *GitHub) deliveries() string {
	base := "https://api.github.com"
	if g.URL != "" {
		base = strings.TrimSuffix(g.URL, "/")
	}
	return base + "/" + strings.Trim(g.Hook, "/") + "/deliveries"
}

func (g *GitHub) headers() http.Header {
	return http.Header{"Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"}}
}

// Sent lists the webhook's deliveries.
func (g *GitHub) Sent(ctx context.Context, since time.Time) ([]Sent, error) {
	var all []Sent
	page := g.deliveries() + "?per_page=" + strconv.Itoa(perPage)
	for range maxPages {
		var list []delivered
		header, err := g.ask(ctx, http.MethodGet, page, g.headers(), &list)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			if d.DeliveredAt.Before(since) {
				return latest(all), nil
			}
			all = append(all, Sent{ID: strconv.FormatInt(d.ID, 10), Event: d.GUID, Type: d.Event, At: d.DeliveredAt,
				Failed: d.StatusCode < 200 || d.StatusCode > 299, Status: d.StatusCode, Detail: d.Status})
		}
		next := nextLink(header.Get("Link"))
		if next == "" || len(list) == 0 {
			return latest(all), nil
		}
		if !sameHost(next, page) {
			return nil, fmt.Errorf("the next page of deliveries is at another host: %.100q", next)
		}
		page = next
	}
	return nil, fmt.Errorf("GitHub lists more than %d pages of deliveries", maxPages)
}

// Resend asks for a redelivery. It comes with the same X-GitHub-Delivery.
func (g *GitHub) Resend(ctx context.Context, s Sent) error {
	_, err := g.ask(ctx, http.MethodPost, g.deliveries()+"/"+url.PathEscape(s.ID)+"/attempts", g.headers(), nil)
	return err
}

// nextLink is the address with rel="next" in a Link header; empty: there is none.
func nextLink(header string) string {
	for link := range strings.SplitSeq(header, ",") {
		address, parameters, _ := strings.Cut(strings.TrimSpace(link), ";")
		if strings.Contains(parameters, `rel="next"`) {
			return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(address), "<"), ">")
		}
	}
	return ""
}

// sameHost says whether two addresses have the same scheme and host: the token is sent nowhere
// else.
func sameHost(a, b string) bool {
	x, err := url.Parse(a)
	if err != nil {
		return false
	}
	y, err := url.Parse(b)
	return err == nil && x.Scheme == y.Scheme && x.Host == y.Host
}
