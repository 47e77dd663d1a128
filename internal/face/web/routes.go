package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	grammar "github.com/grapnelhq/grapnel/internal/base/search"
)

// page is one page: a row, a builder of its view model, a template. The multiplexer, the
// navigation, live updates, JSON twins and the tests of tenants are all made from the same rows.
type page struct {
	path     string                            // a pattern of http.ServeMux
	title    string                            // of the browser's tab; a builder may set a better one
	nav      string                            // the entry of the navigation that is lit
	scope    grapnel.Scope                     // the key must have
	build    func(*visit) (any, error)         // asks the API for the view model
	template string                            // a file of templates/
	twin     func(*visit) (string, url.Values) // the request to the public API that answers with the same in JSON
	command  func(*visit) string               // the same on the command line
	do       func(*visit) (string, error)      // what the page's form does, as an action of the same path; nil: it has none
	finds    bool                              // the search box looks here, not in the list of deliveries
	still    bool                              // a form to fill in, which does not change by itself
}

// pages lists all pages. The order is that of the navigation.
func pages() []page {
	return slices.Concat([]page{
		row("Overview", "/{$}", "Overview", "overview.html", overview, "grapnel top").as(alone("/v1/overview"), nil),
		row("Deliveries", "/deliveries", "Deliveries", "deliveries.html", deliveries, "").as(filtered("/v1/deliveries"), finding("grapnel deliveries list")),
		row("Deliveries", "/deliveries/{id}", "Delivery", "delivery.html", delivery, "grapnel deliveries get"),
		row("Deliveries", "/deliveries/{id}/compare", "Compare", "compare.html", compare, "grapnel deliveries get").unmoved(),
		row("Endpoints", "/endpoints", "Endpoints", "endpoints.html", endpoints, "grapnel endpoints list").as(endpointsTwin, nil),
		row("Endpoints", "/endpoints/{id}", "Endpoint", "endpoint.html", endpoint, "grapnel endpoints get"),
		row("Endpoints", "/endpoints/{id}/why", "Why", "why.html", whyPage, "grapnel why").as(one("/v1/endpoints/{id}/causes"), nil).unmoved(),
		row("Dead letters", "/dead-letters", "Dead letters", "dead-letters.html", deadLetters, "").as(filtered("/v1/dead-letters"), finding("grapnel dlq list")).searched(),
		row("Issues", "/issues", "Issues", "issues.html", issues, "").as(issuesTwin, issuesCommand),
		row("Issues", "/issues/{id}", "Issue", "issue.html", issuePage, "grapnel issues get").unmoved(),
		row("Replays", "/replays", "Replays", "replays.html", replays, "").as(replaysTwin, replaysCommand),
		row("Replays", "/replays/new", "Replay", "wizard.html", wizard, "").
			as(filtered("/v1/dead-letters"), wizardCommand).needs(grapnel.ScopeReplay).unmoved(),
		row("Replays", "/replays/{id}", "Replay", "replay.html", replayPage, "grapnel replay get"),
		row("Alerts", "/alerts", "Alerts", "alerts.html", alerts, "").
			as(cursored("/v1/alerts", "state", "rule", "endpoint"), flagged("grapnel alerts list", "state", "endpoint")),
		row("Alerts", "/alerts/{id}", "Alert", "alert.html", alertPage, "grapnel alerts get"),
		row("Statistics", "/stats", "Statistics", "stats.html", statistics, "").as(statsTwin, statsCommand),
		row("Events", "/events", "Events", "events.html", events, "").as(eventsTwin, eventsCommand).searched(),
		row("Events", "/events/{id}", "Event", "event.html", eventPage, "grapnel events get").as(eventTwin, nil),
		row("Sources", "/sources", "Sources", "sources.html", sources, "grapnel sources list"),
		row("Sources", "/sources/{id}", "Source", "source.html", source, "grapnel sources get"),
		row("Sources", "/inbox", "Requests", "inbox.html", inbox, "").
			as(cursored("/v1/inbox", "source", "outcome"), flagged("grapnel inbox list", "source", "outcome")),
		row("Sources", "/inbox/{id}", "Request", "request.html", inboxRequest, "grapnel inbox get"),
		row("Queues", "/queues", "Queues", "queues.html", queues, "grapnel queues list"),
		row("Queues", "/queues/{id}", "Queue", "queue.html", queue, "grapnel queues get"),
		row("Channels", "/channels", "Channels", "channels.html", alertChannels, "grapnel channels list"),
		row("Policies", "/policies", "Policies", "policies.html", policies, "grapnel policies list"),
		row("Policies", "/policies/{id}", "Policy", "policy.html", policyPage, "grapnel policies get").unmoved(),
		row("API keys", "/keys", "API keys", "keys.html", keys, "grapnel keys list").needs(grapnel.ScopeAdmin),
		row("Audit", "/audit", "Audit", "audit.html", audit, "").
			as(cursored("/v1/audit", "endpoint", "delivery"), flagged("grapnel audit", "endpoint", "delivery")),
		row("Nodes", "/nodes", "Nodes", "nodes.html", nodes, "grapnel cluster status").as(alone("/v1/cluster"), nil).needs(grapnel.ScopeAdmin),
	}, formPages(), promisePages())
}

// row is a page that every reader may see. Its twin and command are those of one thing if its path
// has an id, else of a list: as replaces them.
func row[M any](nav, path, title, template string, of func(*visit) (M, error), command string) page {
	kind, _, _ := strings.Cut(path[1:], "/")
	p := page{path: path, title: title, nav: nav, scope: grapnel.ScopeRead, build: build(of), template: template,
		twin: cursored("/v1/" + kind), command: says(command)}
	if strings.Contains(path, "{id}") {
		p.twin, p.command = one("/v1/"+kind+"/{id}"), naming(command)
	}
	return p
}

// fillIn is a page that is mainly a form, for those who may change things, with what the form does.
func fillIn[M any](nav, path, title string, of func(*visit) (M, error), do func(*visit) (string, error), command string) page {
	p := row(nav, path, title, "form.html", of, command).needs(grapnel.ScopeManage).unmoved()
	p.do = do
	return p
}

// as replaces the twin of a row, and its command unless that is nil.
func (p page) as(twin func(*visit) (string, url.Values), command func(*visit) string) page {
	if p.twin = twin; command != nil {
		p.command = command
	}
	return p
}

func (p page) needs(scope grapnel.Scope) page { p.scope = scope; return p }
func (p page) unmoved() page                  { p.still = true; return p }
func (p page) searched() page                 { p.finds = true; return p }
func (p page) drawnBy(template string) page   { p.template = template; return p }

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
		{path: "/endpoints/{id}/test", scope: grapnel.ScopeOperate, do: testEndpoint},
		{path: "/endpoints/{id}/retry", scope: grapnel.ScopeReplay, do: retryWaiting},
		{path: "/issues/{id}/retry", scope: grapnel.ScopeReplay, do: retryIssue},
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
		{path: "/sources/{id}/pause", scope: grapnel.ScopeManage, do: setSource("status", grapnel.EndpointPaused, "The source is paused.")},
		{path: "/sources/{id}/resume", scope: grapnel.ScopeManage, do: setSource("status", grapnel.EndpointEnabled, "The source accepts requests again.")},
		{path: "/sources/{id}/quarantine", scope: grapnel.ScopeManage, do: setSource("on_unverified", grapnel.Quarantine,
			"Requests that cannot be verified are stored from now on. They are never delivered.")},
		{path: "/queues/{id}/pause", scope: grapnel.ScopeOperate, do: calls((*client.Client).PauseQueue, "The queue is paused. Present leases can be settled.")},
		{path: "/queues/{id}/resume", scope: grapnel.ScopeOperate, do: calls((*client.Client).ResumeQueue, "The queue leases messages again.")},
		{path: "/sessions/end", scope: grapnel.ScopeAdmin, do: endSessions},
		{path: "/keys/{id}/revoke", scope: grapnel.ScopeAdmin, do: revokeKey},
		{path: "/event-types/{id}/deprecate", scope: grapnel.ScopeManage, do: deprecate},
		{path: "/event-types/{id}/send", scope: grapnel.ScopePublish, do: sendExample},
	}
	for _, p := range pages() {
		if p.do != nil {
			all = append(all, action{p.path, p.scope, p.do})
		}
	}
	return all
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
func (v *visit) mayDo(path string) bool {
	i := slices.IndexFunc(v.web.actions, func(a action) bool { return a.path == path })
	return i >= 0 && v.session.May(v.web.actions[i].scope) && !(v.session.limited && path == "/endpoints/new")
}

// build makes a builder of a function with a model of its own type.
func build[M any](of func(*visit) (M, error)) func(*visit) (any, error) {
	return func(v *visit) (any, error) { return of(v) }
}

// one is the twin of a page about one thing, whose id is in the path.
func one(path string) func(*visit) (string, url.Values) {
	return func(v *visit) (string, url.Values) { return v.ofThis(path), nil }
}

// alone is the twin of a page that has no parameters.
func alone(path string) func(*visit) (string, url.Values) {
	return func(*visit) (string, url.Values) { return path, nil }
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
	createChannelCommand = "grapnel channels create https://hooks.slack.com/services/T…/B…/X…"
	createQueueCommand   = "grapnel queues create orders"
	createTypeCommand    = "grapnel types create invoice.paid --schema @invoice.json --check refuse"
	lanesCommand         = "grapnel endpoints lanes"
	createKeyCommand     = "grapnel keys create --name ci --scope publish"
)

// Commands lists what pages offer to copy for the command line, with a search that uses every
// condition, so that a test of the commands holds them against the program.
func Commands() []string {
	all := []string{createCommand, publishCommand, createSourceCommand, createQueueCommand, createTypeCommand,
		createKeyCommand, openIncidentCommand, lanesCommand, triggerCommand("stripe", "src_1")}
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
