package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/send/issue"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

const issueTag = "Issues"

func issueRoutes() []route {
	var states []string
	for _, s := range issue.States() {
		states = append(states, string(s))
	}
	return []route{
		{method: "GET", path: "/v1/issues", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listIssues,
			name: "list-issues", tag: issueTag, summary: "List issues, the one that failed last first",
			about: "An issue is the failed attempts of one endpoint with one error class, one status code and one answer, numbers, ids and times aside. " +
				"Its counts are indications; the deliveries are the truth. Of more than 2,000 issues, 2,000 are read: name a tenant or an endpoint.",
			query: pageOf(param{name: "state", repeat: true, one: states, doc: "one or more states, repeated or separated by commas"},
				endpointParam, tenantParam),
			gives: map[int]any{200: list[wire.Issue]{}}},
		{method: "GET", path: "/v1/issues/{id}", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: getIssue,
			name: "get-issue", tag: issueTag, summary: "Get an issue, and why its deliveries fail",
			about: "why compares the failures of this issue with the successes of the endpoint, as endpoint-causes does with all failures.",
			gives: map[int]any{200: wire.Issue{}}},
		{method: "PATCH", path: "/v1/issues/{id}", scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay, handle: changeIssue,
			name: "update-issue", tag: issueTag, summary: "Acknowledge, mute, resolve or reopen an issue; set its owner and note",
			about: "A resolved issue opens again with the next failure. A muted one is open again after muted_until. Grapnel itself resolves an issue after " +
				"resolves_after successes of its endpoint since the last failure, while no delivery of it is being retried.",
			body: patchBody, takes: wire.IssueChanges{}, gives: map[int]any{200: wire.Issue{}}},
		{method: "POST", path: "/v1/issues/{id}/replay", scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay, handle: reading(replayIssue),
			name: "replay-issue", tag: issueTag, summary: "Redeliver the dead letters of an issue",
			about: "Creates a replay of the endpoint's dead letters whose last attempt has the issue's error class and status code, of events since its " +
				"oldest delivery; answers are not compared. total says how many. With dry_run it only counts, and answers 200.",
			body: optionalBody, takes: wire.NewIssueReplay{}, gives: map[int]any{202: wire.Replay{}, 200: wire.Plan{}}},
	}
}

// eachIssue reads the issues in scope, of one tenant and endpoint if they are given, at most
// Bounds.Issues of them. A limited scope is read endpoint by endpoint.
func (a *api) eachIssue(c *call, tenant, endpoint string, do func(*issue.Issue)) error {
	endpoints, limited := c.scope.Limited()
	if endpoint != "" {
		if _, covered := c.scope.For(endpoint); !covered {
			return nil
		}
		endpoints, limited = []string{endpoint}, true
	}
	if !limited {
		return a.readIssues(c.Context(), c.scope, tenant, "", "", func(i *issue.Issue) {
			if !c.scope.Hides("", i.Endpoint) {
				do(i)
			}
		})
	}
	whole := c.scope.Whole()
	for _, id := range endpoints {
		of, one := whole.One()
		if ep, ok := a.Engine.Endpoint(c.scope, id); ok {
			of, one = ep.Tenant, true
		}
		if !one { // of a deleted endpoint: any tenant may have had it
			if err := a.readIssues(c.Context(), whole, tenant, "", "", func(i *issue.Issue) {
				if i.Endpoint == id {
					do(i)
				}
			}); err != nil {
				return err
			}
			continue
		}
		if tenant != "" && tenant != of {
			continue
		}
		after, before := issue.Range(of, id)
		if err := a.readIssues(c.Context(), whole, of, after, before, do); err != nil {
			return err
		}
	}
	return nil
}

// issuesAtOnce is how many issues are read by one query.
const issuesAtOnce = 200

// readIssues reads the issues whose ids are between two.
func (a *api) readIssues(ctx context.Context, scope store.Scope, tenant, after, before string, do func(*issue.Issue)) error {
	q := store.DocumentQuery{Kind: issue.Kind, Tenant: tenant, After: after, Limit: issuesAtOnce}
	for read := 0; read < a.Bounds.Issues; read += q.Limit {
		docs, err := a.History.DocumentList(ctx, scope, q)
		if err != nil {
			return err
		}
		for n := range docs {
			if before != "" && docs[n].ID >= before {
				return nil
			}
			i, err := issue.Decode(docs[n].Body, docs[n].Revision)
			if err != nil {
				return err
			}
			do(i)
		}
		if len(docs) < q.Limit {
			return nil
		}
		q.After = docs[len(docs)-1].ID
	}
	return nil
}

func listIssues(a *api, c *call) (answer, error) {
	return pages(c, func(after string, _ int) (found []*issue.Issue, _ error) {
		states := c.query.all("state")
		last, id, _ := strings.Cut(after, ".")
		behind := number(last)
		err := a.eachIssue(c, c.query.text("tenant"), c.query.text("endpoint"), func(i *issue.Issue) {
			at := i.Last.UnixMicro()
			if id != "" && (at > behind || at == behind && i.ID <= id) || len(states) > 0 && !slices.Contains(states, string(i.At(c.now))) {
				return
			}
			found = append(found, i)
		})
		slices.SortFunc(found, func(x, y *issue.Issue) int {
			return cmp.Or(cmp.Compare(y.Last.UnixMicro(), x.Last.UnixMicro()), strings.Compare(x.ID, y.ID))
		})
		return found, err
	}, func(i **issue.Issue) string { return strconv.FormatInt((*i).Last.UnixMicro(), 10) + "." + (*i).ID },
		each(func(i **issue.Issue) wire.Issue { return a.viewIssue(c, *i) }))
}

func (a *api) viewIssue(c *call, i *issue.Issue) wire.Issue {
	v := wire.Issue{ID: i.ID, EndpointID: i.Endpoint, Tenant: i.Tenant,
		State:      string(i.At(c.now)),
		ErrorClass: i.Class, StatusCode: i.Status, Answer: i.Answer, FirstSeen: i.First, LastSeen: i.Last, Since: i.Began(),
		EventsFrom: timeOf(i.From()), Failures: i.Delta.Count, DeliveryIDs: []string{},
		Regressions: i.Regressions, ResolvesIn: int(i.Needs(issue.Bounds{})),
		ReopenedAt: timeOf(i.ReopenedAt), ResolvedAt: timeOf(i.ResolvedAt), Resolution: i.Resolution, ChangedAt: timeOf(i.ChangedAt),
		ChangedBy: i.ChangedBy, Owner: i.Owner, Note: i.Note}
	if v.State == string(issue.Muted) {
		v.MutedUntil = timeOf(i.MutedUntil)
	}
	v.Deliveries, v.Keys, v.Approximate = i.Affected()
	v.HoursFrom, v.Hours = i.Sparkline(c.now)
	for _, e := range i.Examples {
		v.DeliveryIDs = append(v.DeliveryIDs, e.Delivery)
	}
	if !c.mayReadPayloads() {
		v.Answer = ""
	}
	v.EndpointName = a.endpointName(c, i.Endpoint)
	v.Sentence = words.Issue(&v, cmp.Or(v.EndpointName, i.Endpoint))
	return v
}

// issue is the one that the path names. The list finds it without its tenant: it goes on behind the
// beginning of the id, which few others share.
func (a *api) issue(c *call) (*issue.Issue, error) {
	id := c.PathValue("id")
	if !issue.IsID(id) {
		return nil, store.ErrNotFound("issue")
	}
	docs, err := a.History.DocumentList(c.Context(), c.scope.Whole(), store.DocumentQuery{Kind: issue.Kind, After: id[:len(id)-1], Limit: 32})
	if err != nil {
		return nil, err
	}
	for n := range docs {
		if docs[n].ID != id {
			continue
		}
		i, err := issue.Decode(docs[n].Body, docs[n].Revision)
		if err != nil {
			return nil, err
		}
		if c.scope.Covers(i.Tenant, i.Endpoint) {
			return i, nil
		}
	}
	return nil, store.ErrNotFound("issue")
}

func getIssue(a *api, c *call) (answer, error) {
	i, err := a.issue(c)
	if err != nil {
		return answer{}, err
	}
	v := a.viewIssue(c, i)
	v.Why, err = a.why(c, i)
	return result(v, err)
}

// why explains the failures of an issue; nil: others are being explained, or there is no endpoint
// any more.
func (a *api) why(c *call, i *issue.Issue) (*wire.Causes, error) {
	if _, ok := a.Engine.Endpoint(c.scope, i.Endpoint); !ok {
		return nil, nil
	}
	select {
	case a.explanations <- struct{}{}:
		defer func() { <-a.explanations }()
	default:
		return nil, nil
	}
	p, err := a.past(c, i.Endpoint)
	if err != nil {
		return nil, err
	}
	p.narrow(i)
	v := p.view(c, i.Endpoint)
	if v.Failures == 0 {
		v.Sentence = "None of the newest deliveries failed in this way at first."
	}
	return &v, nil
}

// narrow leaves out failures of other issues. A failure whose answer was not read may be of this
// one.
func (p *past) narrow(i *issue.Issue) {
	if i.Class == issue.ClassOther {
		return
	}
	n := 0
	for at := range p.observations {
		o := p.observations[at]
		if o.Failed && (o.Class != string(i.Class) || o.Status != i.Status || o.Answer != "" && o.Answer != i.Answer) {
			continue
		}
		p.observations[n], p.of[n] = o, p.of[at]
		n++
	}
	p.others = len(p.of) - n
	p.observations, p.of = p.observations[:n], p.of[:n]
}

// Limits of muting.
const (
	usualMute = 24 * time.Hour
	mostMute  = 30 * 24 * time.Hour
)

func changeIssue(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.IssueChanges](c.body, &f)
	switch until := in.MutedUntil; {
	case until == nil:
	case in.State != string(issue.Muted):
		f.Add("/muted_until", "must not be given together with another state than muted")
	case !until.After(c.now) || until.Sub(c.now) > mostMute:
		f.Add("/muted_until", "must be in the future, at most 30 days ahead")
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	is, err := a.issue(c)
	if err != nil {
		return answer{}, err
	}
	is, err = issue.Change(c.Context(), a.History, store.Of(is.Tenant), is.Tenant, is.ID, issue.Bounds{}, c.now,
		func(i *issue.Issue) (*grapnel.AuditEntry, error) { return decide(c, i, &in), nil })
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, a.viewIssue(c, is)), nil
}

// decide changes an issue; nil: it is so already.
func decide(c *call, i *issue.Issue, in *wire.IssueChanges) *grapnel.AuditEntry {
	var verb grapnel.Verb
	given := func(name string) bool { return gjson.GetBytes(c.body, name).Exists() }
	if given("owner") && i.Owner != in.Owner {
		i.Owner, verb = in.Owner, grapnel.VerbChange
	}
	if given("note") && i.Note != in.Note {
		i.Note, verb = in.Note, grapnel.VerbChange
	}
	state := issue.State(in.State)
	until := c.now.Add(usualMute)
	if in.MutedUntil != nil {
		until = *in.MutedUntil
	}
	if state != "" && (state != i.At(c.now) || state == issue.Muted && !until.Equal(i.MutedUntil)) {
		i.Set(state, c.now, c.key.ID, cmp.Or(in.Reason, "by "+c.key.ID))
		verb = verbs[state]
		if state == issue.Muted {
			i.MutedUntil = until
		}
	}
	if verb == "" {
		return nil
	}
	return i.Entry(verb, c.now, c.key.ID, in.Reason)
}

// verbs are what the audit calls the states that people choose.
var verbs = map[issue.State]grapnel.Verb{issue.Open: grapnel.VerbReopen, issue.Acknowledged: grapnel.VerbAcknowledge,
	issue.Muted: grapnel.VerbMute, issue.Resolved: grapnel.VerbResolve}

// replayIssue redelivers the dead letters that are like the issue's. Replays compare no answers.
func replayIssue(a *api, c *call, in *wire.NewIssueReplay) (answer, error) {
	i, err := a.issue(c)
	if err != nil {
		return answer{}, err
	}
	r := replay.Request{Endpoint: i.Endpoint, Rate: in.Rate, StopAfter: in.StopAfter, Canary: in.Canary, Selection: likeIssue(i)}
	return a.begin(c, r, in.DryRun, cmp.Or(in.Reason, "dead letters of the issue "+i.ID))
}

func likeIssue(i *issue.Issue) grapnel.Selection {
	s := grapnel.Selection{From: i.From(), Status: []grapnel.Status{grapnel.Failed}}
	if i.Class != issue.ClassOther {
		s.Class, s.StatusCode = i.Class, i.Status
	}
	return s
}
