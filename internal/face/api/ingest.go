package api

import (
	"net/http"
	"net/netip"
	"net/url"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/store"
)

func ingestRoutes() []route {
	return []route{
		{method: "POST", path: "/in/{source}", open: anybody, bare: ingest,
			name: "ingest", tag: sourceTag, summary: "Send a webhook to a source",
			about: "For providers. Answers 202 once the request is durable as an event with all its deliveries (200 to a provider " +
				"that takes no 202 for success), and 200 for a duplicate: id is that of the first request, and conflict says that the " +
				"body differs. An unverified request gets 401, or the answer to an accepted one if the source quarantines, or waits for its " +
				"secret and the request lacks nothing else.",
			body: &intake{verbatim: true}, takes: rawBody{}, gives: map[int]any{202: received{}, 200: received{}}},
	}
}

// received is the answer to a provider. It is the document's picture of what the room of ingress
// writes.
type received struct {
	ID        string `json:"id" doc:"id of the event, or of the quarantined request"`
	Duplicate bool   `json:"duplicate"`
	Conflict  bool   `json:"conflict,omitempty" doc:"with duplicate: the first request had another body"`
}

// ingest hands a request on as it came: nothing has been read of it.
func ingest(a *api, w http.ResponseWriter, c *call) {
	if a.Ingest == nil {
		ans := a.refuse(c, store.ErrNotFound("source"))
		ans.write(&c.answering, c.Request)
		return
	}
	if err := a.Engine.Current(); err != nil { // the source may have been deleted, or have other secrets
		ans := a.refuse(c, err)
		ans.write(&c.answering, c.Request)
		if a.Turned != nil {
			a.Turned()
		}
		return
	}
	source, is := c.PathValue("source"), &noticed{ResponseWriter: w}
	a.Ingest.Take(is, c.Request, source)
	if is.status == http.StatusNotFound {
		source = "" // there is no end of ids that no source has
	}
	a.slow(w, source, is.status)
}

// Refuse answers requests that ingress does not take, as problems like any other. The cause of a
// failure is logged by ingress.
func Refuse(public *url.URL, proxies func() []netip.Prefix) func(http.ResponseWriter, *http.Request, ingress.Refusal) {
	l := newLinks(public, proxies)
	return func(w http.ResponseWriter, r *http.Request, refused ingress.Refusal) {
		err := &grapnel.Error{Code: refused.Code, Detail: refused.Detail, RetryAfter: refused.RetryAfter}
		p := problem(err, w.Header().Get("X-Request-Id"), l.path(r))
		p.Status = refused.Status
		ans := answer{status: refused.Status, body: encode(p), quota: refused.Quota}
		if refused.RetryAfter > 0 {
			ans.retryAfter = ingress.RetrySeconds(refused.RetryAfter)
		}
		ans.write(&answering{ResponseWriter: w}, nil)
	}
}
