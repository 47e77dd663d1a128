package web

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	grammar "github.com/grapnelhq/grapnel/internal/base/search"
)

// filtered is the twin of a list under the page's search.
func filtered(path string) func(*visit) (string, url.Values) {
	return func(v *visit) (string, url.Values) {
		_, q := cursored(path)(v)
		if text := strings.TrimSpace(v.URL.Query().Get("q")); text != "" {
			q.Set("filter", text)
		}
		return path, q
	}
}

// newPortal makes the portal of a dashboard.
func newPortal(of *web) *web {
	w := &web{Options: of.Options, home: portalHome, seals: of.seals, nav: portalNavigation(), layout: "portal-layout.html",
		templates: of.templates, assets: of.assets, cross: of.cross}
	for _, p := range pages() {
		if slices.Contains(portalPages, p.path) {
			switch p.nav {
			case "Audit":
				p.title, p.nav = "Activity", "Activity"
			case "Events", "Ordering keys":
				p.nav = "Deliveries"
			case "Customers":
				p.nav = "Contacts"
			case "Issues":
				p.nav = "Dead letters"
			case "Alerts":
				p.scope = grapnel.ScopeAlertsRead
			}
			w.pages = append(w.pages, p)
		}
	}
	for _, a := range actions() {
		if slices.Contains(portalActions, a.path) {
			w.actions = append(w.actions, a)
		}
	}
	w.live = newReaders(w.seals.token("shared pages of the portal"))
	return w
}

// pages lists all pages. The order is that of the navigation.
func pages() []page {
	return slices.Concat([]page{
		row("Overview", "/{$}", "Overview", "overview.html", overview, "grapnel top").as(alone("/v1/overview"), nil),
		row("Deliveries", "/deliveries", "Deliveries", "deliveries.html", deliveries, "").as(filtered("/v1/deliveries"), finding("grapnel deliveries list")),
		row("Deliveries", "/deliveries/{id}", "Delivery", "delivery.html", byID((*client.Client).Delivery, delivery), "grapnel deliveries get"),
		row("Deliveries", "/deliveries/{id}/compare", "Compare", "compare.html", compare, "grapnel deliveries get").unmoved(),
		row("Endpoints", "/endpoints", "Endpoints", "endpoints.html", endpoints, "grapnel endpoints list").as(endpointsTwin, nil).byName(),
		row("Endpoints", "/endpoints/{id}", "Endpoint", "endpoint.html", byID((*client.Client).Endpoint, endpoint), "grapnel endpoints get"),
		row("Endpoints", "/endpoints/{id}/why", "Why", "why.html", byID((*client.Client).Endpoint, whyPage), "grapnel why").
			as(one("/v1/endpoints/{id}/causes"), nil).unmoved(),
		row("Dead letters", "/dead-letters", "Dead letters", "dead-letters.html", deadLetters, "").as(filtered("/v1/dead-letters"), finding("grapnel dlq list")).searched(),
		row("Issues", "/issues", "Issues", "issues.html", issues, "").as(issuesTwin, issuesCommand),
		row("Issues", "/issues/{id}", "Issue", "issue.html", byID((*client.Client).Issue, issuePage), "grapnel issues get").unmoved(),
		row("Replays", "/replays", "Replays", "replays.html", replays, "").as(replaysTwin, replaysCommand),
		row("Replays", "/replays/new", "Replay", "wizard.html", wizard, "").
			as(filtered("/v1/dead-letters"), wizardCommand).needs(grapnel.ScopeReplay).unmoved(),
		row("Replays", "/replays/{id}", "Replay", "replay.html", byID((*client.Client).Replay, replayPage), "grapnel replay get"),
		row("Alerts", "/alerts", "Alerts", "alerts.html", alerts, "").
			as(cursored("/v1/alerts", "state", "rule", "endpoint"), flagged("grapnel alerts list", "state", "endpoint")),
		row("Alerts", "/alerts/{id}", "Alert", "alert.html", byID((*client.Client).Alert, alertPage), "grapnel alerts get"),
		row("Statistics", "/stats", "Statistics", "stats.html", statistics, "").as(statsTwin, statsCommand),
		row("Events", "/events", "Events", "events.html", events, "").as(eventsTwin, eventsCommand).searched(),
		row("Events", "/events/{id}", "Event", "event.html", eventPage, "grapnel events get").as(eventTwin, nil),
		row("Sources", "/sources", "Sources", "sources.html", sources, "grapnel sources list").byName(),
		row("Sources", "/sources/{id}", "Source", "source.html", byID((*client.Client).Source, source), "grapnel sources get"),
		row("Requests", "/inbox", "Requests", "inbox.html", inbox, "").
			as(cursored("/v1/inbox", "source", "outcome"), flagged("grapnel inbox list", "source", "outcome")),
		row("Requests", "/inbox/{id}", "Request", "request.html", byID((*client.Client).InboxRequest, inboxRequest), "grapnel inbox get"),
		row("Queues", "/queues", "Queues", "queues.html", queues, "grapnel queues list").byName(),
		row("Queues", "/queues/{id}", "Queue", "queue.html", byID((*client.Client).Queue, queue), "grapnel queues get"),
		row("Channels", "/channels", "Channels", "channels.html", alertChannels, "grapnel channels list").byName(),
		row("Policies", "/policies", "Policies", "policies.html", policies, "grapnel policies list").byName(),
		row("Policies", "/policies/{id}", "Policy", "policy.html", byID((*client.Client).Policy, policyPage), "grapnel policies get").unmoved(),
		row("API keys", "/keys", "API keys", "keys.html", keys, "grapnel keys list").needs(grapnel.ScopeAdmin).byName(),
		row("Audit", "/audit", "Audit", "audit.html", audit, "").
			as(cursored("/v1/audit", "endpoint", "delivery"), flagged("grapnel audit", "endpoint", "delivery")).byName(),
		row("Customers", "/customers", "Customers", "customers.html", customers, "grapnel tenants list").as(customersTwin, nil).byName(),
		row("Customers", "/customers/{id}", "Customer", "customer.html", byID((*client.Client).Terms, customer), "grapnel tenants get").
			as(one("/v1/tenants/{id}"), nil),
		row("Nodes", "/nodes", "Nodes", "nodes.html", nodes, "grapnel cluster status").as(alone("/v1/cluster"), nil).needs(grapnel.ScopeAdmin),
	}, formPages(), promisePages())
}

// actions lists all actions, those of forms last.
func actions() []action {
	all := []action{
		{path: "/deliveries/retry", scope: grapnel.ScopeReplay, do: retryDeliveries},
		{path: "/deliveries/{id}/retry", scope: grapnel.ScopeReplay, do: retryDelivery},
		{path: "/deliveries/{id}/skip", scope: grapnel.ScopeReplay, do: calls((*client.Client).Skip, "The delivery was skipped. The next one of its key goes out.")},
		{path: "/deliveries/{id}/discard", scope: grapnel.ScopeReplay, do: calls((*client.Client).Discard, "The dead letter was put away.")},
		{path: "/endpoints/{id}/pause", scope: grapnel.ScopeOperate, do: calls((*client.Client).PauseEndpoint, "The endpoint is paused. Its deliveries are held.")},
		{path: "/endpoints/{id}/resume", scope: grapnel.ScopeOperate, do: calls((*client.Client).ResumeEndpoint, "The endpoint is resumed. Held deliveries go out in order.")},
		{path: "/endpoints/{id}/enable", scope: grapnel.ScopeManage, do: calls((*client.Client).EnableEndpoint, "The endpoint is enabled.")},
		{path: "/endpoints/{id}/probe", scope: grapnel.ScopeOperate, do: calls((*client.Client).ProbeEndpoint, "A probe is on its way.")},
		{path: "/endpoints/{id}/consent", scope: grapnel.ScopeOperate, do: askConsent},
		{path: "/endpoints/{id}/test", scope: grapnel.ScopeOperate, do: tests("/v1/endpoints/", "The endpoint", map[string]any{})},
		{path: "/endpoints/{id}/retry", scope: grapnel.ScopeReplay, do: retryWaiting},
		{path: "/issues/{id}/retry", scope: grapnel.ScopeReplay, do: byID((*client.Client).Issue, retryIssue)},
		{path: "/channels/{id}/test", scope: grapnel.ScopeOperate, do: tests("/v1/channels/", "The service", nil)},
		{path: "/contacts/{id}/ask", scope: grapnel.ScopeManage, do: askContact},
		{path: "/contacts/{id}/delete", scope: grapnel.ScopeManage, do: deleteContact},
		{path: "/dead-letters/replay", scope: grapnel.ScopeReplay, do: replayLetters},
		{path: "/dead-letters/discard", scope: grapnel.ScopeReplay, do: discardLetters},
		{path: "/dead-letters/note", scope: grapnel.ScopeReplay, do: noteLetters},
		{path: "/issues/{id}/acknowledge", scope: grapnel.ScopeReplay, do: setIssue("acknowledged", "The issue is acknowledged.")},
		{path: "/issues/{id}/mute", scope: grapnel.ScopeReplay, do: setIssue("muted", "The issue is muted for 24 hours.")},
		{path: "/issues/{id}/resolve", scope: grapnel.ScopeReplay, do: setIssue("resolved", "The issue is resolved; another failure opens it again.")},
		{path: "/issues/{id}/reopen", scope: grapnel.ScopeReplay, do: setIssue("open", "The issue is open again.")},
		{path: "/issues/{id}/set", scope: grapnel.ScopeReplay, do: noteIssue},
		{path: "/replays/start", scope: grapnel.ScopeReplay, do: startReplays},
		{path: "/replays/{id}/pause", scope: grapnel.ScopeReplay, do: calls((*client.Client).PauseReplay, "The replay is paused. What it has made goes on.")},
		{path: "/replays/{id}/resume", scope: grapnel.ScopeReplay, do: calls((*client.Client).ResumeReplay, "The replay goes on.")},
		{path: "/replays/{id}/cancel", scope: grapnel.ScopeReplay, do: calls((*client.Client).CancelReplay, "The replay was cancelled. What it has made goes on.")},
		{path: "/alerts/{id}/acknowledge", scope: grapnel.ScopeOperate, do: acknowledgeAlert},
		{path: "/events/{id}/publish", scope: grapnel.ScopePublish, do: publishAgain},
		{path: "/sources/{id}/pause", scope: grapnel.ScopeManage, do: setSource("status", grapnel.EndpointPaused, "The source is paused.")},
		{path: "/sources/{id}/resume", scope: grapnel.ScopeManage, do: setSource("status", grapnel.EndpointEnabled, "The source accepts requests again.")},
		{path: "/sources/{id}/quarantine", scope: grapnel.ScopeManage, do: setSource("on_unverified", grapnel.Quarantine,
			"Requests that cannot be verified are stored from now on. They are never delivered.")},
		{path: "/queues/{id}/pause", scope: grapnel.ScopeOperate, do: calls((*client.Client).PauseQueue, "The queue is paused. Present leases can be settled.")},
		{path: "/queues/{id}/resume", scope: grapnel.ScopeOperate, do: calls((*client.Client).ResumeQueue, "The queue leases messages again.")},
		{path: "/customers/{id}/only", scope: grapnel.ScopeRead, do: lookAtOne},
		{path: "/customers/all", scope: grapnel.ScopeRead, do: lookAtAll},
		{path: "/sessions/end", scope: grapnel.ScopeAdmin, do: endSessions},
		{path: "/keys/{id}/revoke", scope: grapnel.ScopeAdmin, do: revokeKey},
		{path: "/event-types/{id}/deprecate", scope: grapnel.ScopeManage, do: deprecate},
		{path: "/event-types/{id}/send", scope: grapnel.ScopePublish, do: byID((*client.Client).EventType, sendExample)},
	}
	for _, p := range pages() {
		if p.do != nil {
			all = append(all, action{p.path, p.scope, p.do})
		}
	}
	return all
}

// Commands lists what pages offer to copy for the command line, with a search that uses every
// condition, so that a test of the commands holds them against the program.
func Commands() []string {
	all := []string{createCommand, publishCommand, createSourceCommand, createQueueCommand, createTypeCommand,
		createKeyCommand, createContactCommand, openIncidentCommand, lanesCommand, triggerCommand("stripe", "src_1")}
	var every search
	for _, name := range grammar.Names {
		if name == "since" { // it is another word for from
			continue
		}
		every.Text += token{name, grammar.Examples[name]}.String() + " "
	}
	for _, p := range pages() {
		rq := &http.Request{URL: &url.URL{Path: p.path, RawQuery: url.Values{"q": {every.Text + "'text' $x"},
			"source": {"src_1"}, "outcome": {"unverified"}, "endpoint": {"ep_1"}, "delivery": {"dlv_1"}}.Encode()}}
		rq.SetPathValue("id", "dlv_1")
		all = append(all, p.command(&visit{Request: rq, page: &p, now: time.Unix(0, 0)}))
	}
	return all
}

// Paths lists the pages and actions as patterns of http.ServeMux, so that tests of the whole server
// try all of them.
func Paths() (all []string) {
	for _, p := range pages() {
		all = append(all, http.MethodGet+" "+p.path)
	}
	for _, a := range actions() {
		all = append(all, http.MethodPost+" "+a.path)
	}
	return all
}

// New makes the handler of the dashboard, which hands all other requests to the API.
func New(o Options) http.Handler { return newWeb(o).mux() }

// Reference makes the handler of the API reference alone, for a server without a dashboard. All
// other requests go to the API.
func Reference(o Options) http.Handler {
	w := newWeb(o)
	w.alone = true
	mux := http.NewServeMux()
	w.addReference(mux)
	mux.HandleFunc("GET /assets/{name}", w.asset)
	mux.Handle("/", w.API)
	return mux
}

func newWeb(o Options) *web {
	o.Bounds = bounds.Fill(o.Bounds)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Stopping == nil {
		o.Stopping = func() bool { return false }
	}
	if o.Known == nil {
		o.Known = func(*http.Request) bool { return true }
	}
	if o.Origin == nil {
		o.Origin = func(r *http.Request) string { return "http://" + r.Host }
	}
	w := &web{
		Options: o, seals: newSeals(o.Secret, o.Random), flows: newFlows(o.Bounds), pages: pages(), actions: actions(), nav: navigation(),
		layout: "layout.html", templates: templates(), assets: newAssets(), cross: http.NewCrossOriginProtection(),
	}
	if o.Dev.Coach != nil {
		w.pages, w.actions = append(w.pages, coachPages()...), append(w.actions, coachActions()...)
		w.nav = append([]entry{coachEntry()}, w.nav...)
	}
	w.live = newReaders(w.seals.token("shared pages"))
	return w
}

// mux makes the multiplexer: pages, actions, sign-in, assets, and the API for everything else. No
// page is below /v1, so requests to it go to the API without being compared with all patterns.
func (w *web) mux() http.Handler {
	mux := http.NewServeMux()
	w.addRows(mux)
	mux.HandleFunc("GET /login", w.handler((*visit).login))
	mux.HandleFunc("POST /login", w.handler((*visit).signIn))
	if w.People.Issuer != nil {
		mux.HandleFunc("GET "+startPath, w.handler((*visit).startPeople))
		mux.HandleFunc("GET "+callbackPath, w.handler((*visit).callback))
		mux.HandleFunc("GET "+outPath, w.handler((*visit).signOutIssuer))
	}
	if w.Dev.Codes != nil {
		mux.HandleFunc("GET /login/once", w.handler((*visit).loginLink))
		mux.HandleFunc("POST /login/once", w.handler((*visit).signInOnce))
	}
	mux.HandleFunc("GET /alerts/acknowledge", w.handler((*visit).lookAtLink))
	mux.HandleFunc("POST /alerts/acknowledge", w.handler((*visit).followLink))
	mux.HandleFunc("POST /logout", w.handler((*visit).leaveDashboard))
	mux.HandleFunc("POST /look", w.handler((*visit).setLook))
	mux.HandleFunc("GET /complete", w.handler((*visit).completions))
	mux.HandleFunc("GET /deliveries/export", w.handler((*visit).export))
	mux.HandleFunc("GET /dead-letters/export", w.handler((*visit).export))
	mux.HandleFunc("GET /assets/{name}", w.asset)
	w.addReference(mux)
	newPortal(w).portalMux(mux)
	mux.HandleFunc("/", w.beyond)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			w.API.ServeHTTP(rw, r)
			return
		}
		mux.ServeHTTP(rw, r)
	})
}
