package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	grammar "github.com/grapnelhq/grapnel/internal/search"
)

// page is one page: a row, a builder of its view model, a template. The multiplexer, the
// navigation, live updates, JSON twins and the tests of tenants are all made from the same rows.
type page struct {
	path     string                            // a pattern of http.ServeMux
	title    string                            // of the browser's tab; a model with a Title method says more
	nav      string                            // the entry of the navigation that is lit
	scope    grapnel.Scope                     // the key must have
	build    func(*visit) (any, error)         // asks the API for the view model
	template string                            // a file of templates/
	twin     func(*visit) (string, url.Values) // the request to the public API that answers with the same in JSON
	command  func(*visit) string               // the same on the command line
	finds    bool                              // the search box looks here, not in the list of deliveries
	still    bool                              // a form to fill in, which does not change by itself
}

// pages lists all pages. The order is that of the navigation.
func pages() []page {
	return slices.Concat([]page{
		{path: "/{$}", title: "Overview", nav: "Overview", scope: grapnel.ScopeRead, build: build(overview), template: "overview.html",
			twin: overviewTwin, command: says("grapnel top")},
		{path: "/deliveries", title: "Deliveries", nav: "Deliveries", scope: grapnel.ScopeRead, build: build(deliveries),
			template: "deliveries.html", twin: deliveriesTwin, command: deliveriesCommand},
		{path: "/deliveries/{id}", title: "Delivery", nav: "Deliveries", scope: grapnel.ScopeRead, build: build(delivery),
			template: "delivery.html", twin: one("/v1/deliveries/"), command: naming("grapnel deliveries get")},
		{path: "/deliveries/{id}/compare", title: "Compare", nav: "Deliveries", scope: grapnel.ScopeRead, build: build(compare), template: "compare.html",
			twin: one("/v1/deliveries/"), command: naming("grapnel deliveries get"), still: true},
		{path: "/endpoints", title: "Endpoints", nav: "Endpoints", scope: grapnel.ScopeRead, build: build(endpoints), template: "endpoints.html",
			twin: endpointsTwin, command: says("grapnel endpoints list")},
		{path: "/endpoints/{id}", title: "Endpoint", nav: "Endpoints", scope: grapnel.ScopeRead, build: build(endpoint),
			template: "endpoint.html", twin: one("/v1/endpoints/"), command: naming("grapnel endpoints get")},
		{path: "/endpoints/{id}/why", title: "Why", nav: "Endpoints", scope: grapnel.ScopeRead, build: build(whyPage),
			template: "why.html", twin: whyTwin, command: naming("grapnel why"), still: true},
		{path: "/dead-letters", title: "Dead letters", nav: "Dead letters", scope: grapnel.ScopeRead, build: build(deadLetters),
			template: "dead-letters.html", twin: deadLettersTwin, command: deadLettersCommand, finds: true},
		{path: "/issues", title: "Issues", nav: "Issues", scope: grapnel.ScopeRead, build: build(issues), template: "issues.html",
			twin: issuesTwin, command: issuesCommand},
		{path: "/issues/{id}", title: "Issue", nav: "Issues", scope: grapnel.ScopeRead, build: build(issuePage), template: "issue.html",
			twin: one("/v1/issues/"), command: naming("grapnel issues get"), still: true},
		{path: "/replays", title: "Replays", nav: "Replays", scope: grapnel.ScopeRead, build: build(replays), template: "replays.html",
			twin: replaysTwin, command: replaysCommand},
		{path: "/replays/new", title: "Replay", nav: "Replays", scope: grapnel.ScopeReplay, build: build(wizard), template: "wizard.html",
			twin: wizardTwin, command: wizardCommand, still: true},
		{path: "/replays/{id}", title: "Replay", nav: "Replays", scope: grapnel.ScopeRead, build: build(replayPage), template: "replay.html",
			twin: one("/v1/replays/"), command: naming("grapnel replay get")},
		{path: "/alerts", title: "Alerts", nav: "Alerts", scope: grapnel.ScopeRead, build: build(alerts), template: "alerts.html",
			twin: alertsTwin, command: alertsCommand},
		{path: "/alerts/{id}", title: "Alert", nav: "Alerts", scope: grapnel.ScopeRead, build: build(alertPage), template: "alert.html",
			twin: one("/v1/alerts/"), command: naming("grapnel alerts get")},
		{path: "/stats", title: "Statistics", nav: "Statistics", scope: grapnel.ScopeRead, build: build(statistics), template: "stats.html",
			twin: statsTwin, command: statsCommand},
		{path: "/events", title: "Events", nav: "Events", scope: grapnel.ScopeRead, build: build(events), template: "events.html",
			twin: eventsTwin, command: eventsCommand, finds: true},
		{path: "/events/{id}", title: "Event", nav: "Events", scope: grapnel.ScopeRead, build: build(eventPage), template: "event.html",
			twin: eventTwin, command: naming("grapnel events get")},
		{path: "/sources", title: "Sources", nav: "Sources", scope: grapnel.ScopeRead, build: build(sources), template: "sources.html",
			twin: cursored("/v1/sources"), command: says("grapnel sources list")},
		{path: "/sources/{id}", title: "Source", nav: "Sources", scope: grapnel.ScopeRead, build: build(source), template: "source.html",
			twin: one("/v1/sources/"), command: naming("grapnel sources get")},
		{path: "/inbox", title: "Requests", nav: "Sources", scope: grapnel.ScopeRead, build: build(inbox), template: "inbox.html",
			twin: inboxTwin, command: inboxCommand},
		{path: "/inbox/{id}", title: "Request", nav: "Sources", scope: grapnel.ScopeRead, build: build(inboxRequest), template: "request.html",
			twin: one("/v1/inbox/"), command: naming("grapnel inbox get")},
		{path: "/queues", title: "Queues", nav: "Queues", scope: grapnel.ScopeRead, build: build(queues), template: "queues.html",
			twin: cursored("/v1/queues"), command: says("grapnel queues list")},
		{path: "/queues/{id}", title: "Queue", nav: "Queues", scope: grapnel.ScopeRead, build: build(queue), template: "queue.html",
			twin: one("/v1/queues/"), command: naming("grapnel queues get")},
		{path: "/channels", title: "Channels", nav: "Channels", scope: grapnel.ScopeRead, build: build(alertChannels), template: "channels.html",
			twin: cursored("/v1/channels"), command: says("grapnel channels list")},
		{path: "/policies", title: "Policies", nav: "Policies", scope: grapnel.ScopeRead, build: build(policies), template: "policies.html",
			twin: cursored("/v1/policies"), command: says("grapnel policies list")},
		{path: "/policies/{id}", title: "Policy", nav: "Policies", scope: grapnel.ScopeRead, build: build(policyPage), template: "policy.html",
			twin: one("/v1/policies/"), command: naming("grapnel policies get"), still: true},
		{path: "/keys", title: "API keys", nav: "API keys", scope: grapnel.ScopeAdmin, build: build(keys), template: "keys.html",
			twin: cursored("/v1/keys"), command: says("grapnel keys list")},
		{path: "/audit", title: "Audit", nav: "Audit", scope: grapnel.ScopeRead, build: build(audit), template: "audit.html",
			twin: auditTwin, command: auditCommand},
		{path: "/nodes", title: "Nodes", nav: "Nodes", scope: grapnel.ScopeAdmin, build: build(nodes), template: "nodes.html",
			twin: func(*visit) (string, url.Values) { return "/v1/cluster", nil }, command: says("grapnel cluster status")},
	}, formPages(), promisePages())
}

// entry is one of the navigation.
type entry struct {
	Name string
	Path string
	Key  string // after g on the keyboard
	Sign string // its picture in the bar of a phone
	Deep bool   // the bar of a phone has no space for it: it is behind More there
	Head string // the heading above it: of this entry and of those that follow
	Here bool
}

// navigation lists the entries, each with the page that it leads to.
func navigation() []entry {
	return []entry{
		{Name: "Overview", Path: "/", Key: "o", Sign: "overview"},
		{Name: "Deliveries", Path: "/deliveries", Key: "d", Sign: "deliveries", Head: "Sending"},
		{Name: "Endpoints", Path: "/endpoints", Key: "e", Sign: "endpoints"},
		{Name: "Dead letters", Path: "/dead-letters", Key: "x", Sign: "dead"},
		{Name: "Ordering keys", Path: "/ordering-keys", Key: "w", Sign: "lanes", Deep: true},
		{Name: "Replays", Path: "/replays", Key: "r", Sign: "replays", Deep: true},
		{Name: "Events", Path: "/events", Key: "v", Sign: "events", Deep: true},
		{Name: "Issues", Path: "/issues", Key: "i", Sign: "issues", Deep: true, Head: "Watching"},
		{Name: "Alerts", Path: "/alerts", Key: "b", Sign: "bell", Deep: true},
		{Name: "Channels", Path: "/channels", Key: "h", Sign: "channels", Deep: true},
		{Name: "Statistics", Path: "/stats", Key: "u", Sign: "stats", Deep: true},
		{Name: "Promises", Path: "/slo", Key: "m", Sign: "promises", Deep: true},
		{Name: "Sources", Path: "/sources", Key: "s", Sign: "sources", Deep: true, Head: "Receiving"},
		{Name: "Queues", Path: "/queues", Key: "q", Sign: "queues", Deep: true},
		{Name: "Event types", Path: "/event-types", Key: "t", Sign: "types", Deep: true, Head: "Design"},
		{Name: "Policies", Path: "/policies", Key: "p", Sign: "policies", Deep: true},
		{Name: "Playground", Path: "/playground", Key: "l", Sign: "play", Deep: true},
		{Name: "API keys", Path: "/keys", Key: "k", Sign: "keys", Deep: true, Head: "Server"},
		{Name: "Audit", Path: "/audit", Key: "a", Sign: "audit", Deep: true},
		{Name: "Nodes", Path: "/nodes", Key: "n", Sign: "nodes", Deep: true},
		{Name: "Settings", Path: "/settings", Key: "c", Sign: "settings", Deep: true},
	}
}

// action is something that a form does. It returns a sentence about the result, for the next
// page.
type action struct {
	path  string
	scope grapnel.Scope // which keys are offered it
	do    func(*visit) (notice string, err error)
}

// actions lists all actions.
func actions() []action {
	return slices.Concat([]action{
		{path: "/deliveries/retry", scope: grapnel.ScopeReplay, do: retryDeliveries},
		{path: "/deliveries/{id}/retry", scope: grapnel.ScopeReplay, do: retryDelivery},
		{path: "/deliveries/{id}/skip", scope: grapnel.ScopeReplay, do: calls((*client.Client).Skip, "The delivery was skipped. The next one of its key goes out.")},
		{path: "/deliveries/{id}/discard", scope: grapnel.ScopeReplay, do: calls((*client.Client).Discard, "The dead letter was put away.")},
		{path: "/endpoints/{id}/pause", scope: grapnel.ScopeOperate, do: calls((*client.Client).PauseEndpoint, "The endpoint is paused. Its deliveries are held.")},
		{path: "/endpoints/{id}/resume", scope: grapnel.ScopeOperate, do: calls((*client.Client).ResumeEndpoint, "The endpoint is resumed. Held deliveries go out in order.")},
		{path: "/endpoints/{id}/enable", scope: grapnel.ScopeManage, do: calls((*client.Client).EnableEndpoint, "The endpoint is enabled.")},
		{path: "/endpoints/{id}/probe", scope: grapnel.ScopeOperate, do: calls((*client.Client).ProbeEndpoint, "A probe is on its way.")},
		{path: "/endpoints/{id}/test", scope: grapnel.ScopeOperate, do: testEndpoint},
		{path: "/channels/{id}/test", scope: grapnel.ScopeOperate, do: testChannel},
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
		{path: "/sources/{id}/pause", scope: grapnel.ScopeManage, do: setSource(grapnel.EndpointPaused, "The source is paused.")},
		{path: "/sources/{id}/resume", scope: grapnel.ScopeManage, do: setSource(grapnel.EndpointEnabled, "The source accepts requests again.")},
		{path: "/queues/{id}/pause", scope: grapnel.ScopeOperate, do: calls((*client.Client).PauseQueue, "The queue is paused. Present leases can be settled.")},
		{path: "/queues/{id}/resume", scope: grapnel.ScopeOperate, do: calls((*client.Client).ResumeQueue, "The queue leases messages again.")},
		{path: "/sessions/end", scope: grapnel.ScopeAdmin, do: endSessions},
		{path: "/keys/{id}/revoke", scope: grapnel.ScopeAdmin, do: revokeKey},
	}, formActions(), promiseActions())
}

// calls makes an action of a call of the API that takes an id and a reason: the id in the path.
func calls[T any](call func(*client.Client, context.Context, string, string) (T, error), notice string) func(*visit) (string, error) {
	return func(v *visit) (string, error) {
		_, err := call(v.client, v.Context(), v.PathValue("id"), byDashboard)
		return notice, err
	}
}

// byDashboard is the reason that the audit has of an action without one of its own.
const byDashboard = "from the dashboard"

// mayDo says whether a session is offered an action, by its path.
func (s *session) mayDo(path string) bool {
	all := actions()
	i := slices.IndexFunc(all, func(a action) bool { return a.path == path })
	if s.portal && (!slices.Contains(portalActions, path) || path == "/endpoints/new" && s.limited) {
		return false
	}
	return i >= 0 && s.May(all[i].scope)
}

// build makes a builder of a function with a model of its own type.
func build[M any](of func(*visit) (M, error)) func(*visit) (any, error) {
	return func(v *visit) (any, error) { return of(v) }
}

// one is the twin of a page about one thing, which has its id in the path.
func one(path string) func(*visit) (string, url.Values) {
	return func(v *visit) (string, url.Values) { return path + url.PathEscape(v.PathValue("id")), nil }
}

// says is a command without arguments.
func says(command string) func(*visit) string { return func(*visit) string { return command } }

// naming is a command about the thing whose id is in the path.
func naming(command string) func(*visit) string {
	return func(v *visit) string { return command + " " + shellQuote(v.PathValue("id")) }
}

// page makes the handler of a page. An EventSource gets its live updates, ?format=json its twin,
// any other request the page.
func (w *web) page(p *page) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		v := w.visit(rw, r, p)
		switch {
		case v.session == nil && (wants(r, "text/event-stream") || r.URL.Query().Get("format") == "json"):
			http.Error(rw, "The session has ended.", http.StatusUnauthorized)
		case v.session == nil:
			v.toLogin()
		case wants(r, "text/event-stream") && p.still:
			rw.WriteHeader(http.StatusNoContent)
		case wants(r, "text/event-stream"):
			w.stream(v)
		case r.URL.Query().Get("format") == "json":
			v.json()
		default:
			v.show(http.StatusOK)
		}
	}
}

// action makes the handler of an action: refused unless the form is this server's own, done, and
// answered with a redirect, so that a reload repeats nothing.
func (w *web) action(a *action) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		v := w.visit(rw, r, nil)
		if v.session == nil {
			v.toLogin()
			return
		}
		if err := v.ownForm(); err != nil {
			v.fail(err)
			return
		}
		notice, err := a.do(v)
		if err != nil {
			if !v.redraw(a.path, err) {
				v.fail(err)
			}
			return
		}
		if v.secret != nil {
			v.reveal()
			return
		}
		v.notify(notice)
		v.redirect(r.PostForm.Get("back"))
	}
}

// Commands that pages without data teach.
const (
	createCommand        = "grapnel endpoints create https://example.com/hooks"
	publishCommand       = "grapnel send invoice.paid -d '{\"amount\":100}' --key inv_1"
	createSourceCommand  = "grapnel sources create stripe --scheme stripe --secret @stripe.secret"
	createChannelCommand = "grapnel channels create 'slack://hook:A-B-C@webhook'"
	createQueueCommand   = "grapnel queues create orders"
	createTypeCommand    = "grapnel types create invoice.paid --schema @invoice.json --check refuse"
	lanesCommand         = "grapnel endpoints lanes"
	createKeyCommand     = "grapnel keys create --name ci --scope publish"
)

// Commands lists what pages offer to copy for the command line, with a search that uses every
// condition, so that a test of the commands holds them against the program.
func Commands() []string {
	all := []string{createCommand, publishCommand, createSourceCommand, createQueueCommand, createTypeCommand,
		createKeyCommand, openIncidentCommand, lanesCommand}
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
