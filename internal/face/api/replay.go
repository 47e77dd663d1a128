package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// replayOrder is a method of replay.Jobs that pauses, resumes or cancels.
type replayOrder func(replay.Jobs, context.Context, store.Scope, string, grapnel.By) (replay.Progress, error)

const replayTag = "Replays"

func replayRoutes() []route {
	lever := func(verb, summary, about string, order replayOrder) route {
		return route{method: "POST", path: "/v1/replays/{id}/" + verb, scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay,
			handle: ordered(func(a *api, c *call, by grapnel.By) (answer, error) {
				p, err := order(a.Replays, c.Context(), c.scope, c.PathValue("id"), by)
				return shown(p, err, a.replayView(c))
			}),
			name: verb + "-replay", tag: replayTag, summary: summary, about: about,
			body: optionalBody, takes: newReason{}, gives: map[int]any{200: wire.Replay{}}}
	}
	return []route{
		{method: "POST", path: "/v1/endpoints/{id}/replay", scope: grapnel.ScopeReplay, portal: grapnel.ScopeReplay, handle: startReplay,
			name: "start-replay", tag: replayTag, summary: "Redeliver finished deliveries",
			about: "Creates a durable job that delivers the original bytes under the original event ids, in the original order within each key and behind its pending deliveries. It covers the deliveries that are finished when it is created. Deliveries that were replayed with success, are being redelivered or were discarded are left out, unless again says otherwise, and so are tests. Pending and held deliveries are on their way and are not replayed. Without status it takes those that failed; under /v1/admin/webhook-endpoints it takes those that were delivered, failed or dropped. With dry_run it only counts, and answers 200.",
			body:  &intake{types: []string{grapnel.JSONType}, limit: perReplay, optional: true}, takes: wire.NewReplay{},
			gives: map[int]any{202: wire.Replay{}, 200: wire.Plan{}}},
		{method: "GET", path: "/v1/replays", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listReplays,
			name: "list-replays", tag: replayTag, summary: "List replays, the newest first",
			query: pageOf(endpointParam, tenantParam, param{name: "active", one: []string{"true"}, doc: "only those that are running or paused"}),
			gives: map[int]any{200: list[wire.Replay]{}}},
		{method: "GET", path: "/v1/replays/{id}", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: getReplay,
			name: "get-replay", tag: replayTag, summary: "Get a replay and its progress", gives: map[int]any{200: wire.Replay{}}},
		{method: "GET", path: "/v1/replays/{id}/items", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: listItems,
			name: "list-replay-items", tag: replayTag, summary: "List the deliveries that a replay has created, in order",
			query: pageOf(), gives: map[int]any{200: list[wire.Item]{}}},
		lever("pause", "Pause a replay", "Once it is answered it creates no more deliveries; those it has created continue. 409 for a finished replay.", replay.Jobs.Pause),
		lever("resume", "Resume a replay", "409 for a finished replay.", replay.Jobs.Resume),
		lever("cancel", "Cancel a replay", "Once it is answered it creates no more deliveries; those it has created continue. 409 for a replay that has finished in another way.", replay.Jobs.Cancel),
	}
}

// asked turns a body into a request for replays. The caller looks up the deliveries that it names.
func asked(in *wire.NewReplay, endpoint string, f *strict.Faults) replay.Request {
	r := replay.Request{Endpoint: endpoint, Rate: in.Rate, StopAfter: in.StopAfter, Canary: in.Canary,
		CountFor: time.Duration(in.CountFor), Selection: grapnel.Selection{
			Types: in.EventTypes, Keys: in.Keys, Status: in.Status, Again: in.Again, Class: in.ErrorClass, StatusCode: in.StatusCode,
		}}
	s := &r.Selection
	if in.From != nil {
		s.From = *in.From
	}
	if in.To != nil {
		s.To = *in.To
	}
	if !s.From.IsZero() && !s.To.IsZero() && !s.From.Before(s.To) {
		f.Add("/to", "must be after from")
	}
	if len(in.Deliveries) > 0 && (in.From != nil || in.To != nil || len(in.EventTypes) > 0 || len(in.Keys) > 0 || len(in.Status) > 0 ||
		in.ErrorClass != "" || in.StatusCode != 0) {
		f.Add("/deliveries", "must not be given together with from, to, event_types, keys, status, error_class or status_code")
	}
	return r
}

func viewReplay(p *replay.Progress) wire.Replay {
	s := &p.Selection
	v := wire.Replay{
		ID: p.ID, EndpointID: p.Endpoint, Tenant: p.Tenant, Status: p.Status, Reason: p.Reason, Rate: p.Rate,
		StopAfter: p.StopAfter, Canary: p.Canary, Total: p.Total, Made: p.Started, Done: p.Done, Delivered: p.Delivered, Failed: p.Failed,
		StartedAt: p.CreatedAt, StartedBy: p.Actor, UpdatedAt: p.UpdatedAt, FinishedAt: timeOf(p.FinishedAt), ETA: timeOf(p.ETA),
		Selection: wire.Selection{From: timeOf(s.From), To: timeOf(s.To), EventTypes: s.Types, Keys: s.Keys,
			ErrorClass: s.Class, StatusCode: s.StatusCode, Deliveries: len(s.Deliveries), Again: s.Again},
	}
	if len(s.Deliveries) == 0 {
		v.Selection.Status = s.Status
	}
	return v
}

// replayView shows replays with the names of their endpoints.
func (a *api) replayView(c *call) func(*replay.Progress) wire.Replay {
	return func(p *replay.Progress) wire.Replay {
		v := viewReplay(p)
		v.EndpointName = a.endpointName(c, p.Endpoint)
		return v
	}
}

func viewPlan(p *replay.Plan) wire.Plan {
	return wire.Plan{DryRun: true, Total: p.Total, Keys: p.Keys, LongestChain: p.LongestChain, Overtaken: p.Overtaken, Partial: p.Partial,
		Waiting: p.Waiting, ByStatus: wire.ByStatus{Delivered: p.By[grapnel.Delivered], Failed: p.By[grapnel.Failed],
			Dropped: p.By[grapnel.Dropped], Discarded: p.By[grapnel.Discarded], Skipped: p.By[grapnel.Skipped]},
		Excluded: wire.Excluded{AlreadyReplayed: p.AlreadyReplayed, Discarded: p.Discarded, OnItsWay: p.OnItsWay, Superseded: p.Superseded,
			Tests: p.Tests}}
}

// viewItems shows items with the type and key of their events, unless retention has deleted the
// delivery.
func (a *api) viewItems(c *call, items []grapnel.ReplayItem) ([]wire.Item, error) {
	all := make([]wire.Item, len(items))
	for n := range items {
		i := &items[n]
		all[n] = wire.Item{OriginalID: c.ids.Delivery(i.CreatedAt, i.Original), DeliveryID: c.ids.Delivery(i.MadeAt, i.Made),
			MadeAt: i.MadeAt, Status: i.Status}
		d, err := a.History.Delivery(c.Context(), c.scope, i.Made)
		switch {
		case err == nil:
			all[n].Type, all[n].Key = d.Type, d.Key
		case grapnel.CodeOf(err) != grapnel.CodeNotFound:
			return nil, err
		}
	}
	return all, nil
}

// printedHome is where a replay without a status takes all that its endpoint should have had: its
// users replay a period.
const printedHome = "/v1/admin/webhook-endpoints/"

func startReplay(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewReplay](c.body, &f)
	ep, err := a.endpoint(c)
	if err != nil {
		return answer{}, err
	}
	if len(in.Status) == 0 && len(in.Deliveries) == 0 && strings.Contains(c.Pattern, printedHome) {
		in.Status = replay.All()
	}
	r := asked(&in, ep.ID, &f)
	if r.Selection.Deliveries, err = numbers(a, c, ep.ID, in.Deliveries, &f); err != nil {
		return answer{}, err
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	return a.begin(c, r, in.DryRun, in.Reason)
}

// begin starts a replay, or counts what it would redeliver.
func (a *api) begin(c *call, r replay.Request, dryRun bool, reason string) (answer, error) {
	if dryRun {
		plan, err := a.Replays.Plan(c.Context(), c.scope, r)
		return shown(plan, err, viewPlan)
	}
	reply := func(made grapnel.Replay) answer {
		return jsonAnswer(http.StatusAccepted, a.replayView(c)(&replay.Progress{Replay: made}))
	}
	o := replay.Order{Request: r, By: c.by(reason), Once: func(made grapnel.Replay) *store.Once {
		return withEffect(c, func(store.Put) answer { return reply(made) })
	}}
	started, err := a.Replays.Start(c.Context(), c.scope, o)
	return answered(started.Replay, started.Answer, err, reply)
}

// numbers are the row ids of the named deliveries. Each has to be a finished one of the endpoint.
func numbers(a *api, c *call, endpoint string, ids []string, f *strict.Faults) ([]int64, error) {
	var numbers []int64
	for i, id := range ids {
		d, err := a.delivery(c, id)
		pointer := "/deliveries/" + strconv.Itoa(i)
		switch {
		case err != nil && grapnel.CodeOf(err) != grapnel.CodeNotFound:
			return nil, err
		case err != nil || d.EndpointID != endpoint:
			f.Add(pointer, "must be a delivery of this endpoint")
		case !d.Status.Final():
			f.Add(pointer, "is not finished; retry it instead")
		default:
			numbers = append(numbers, d.Seq)
		}
		if f.Full() {
			break
		}
	}
	return numbers, nil
}

func listReplays(a *api, c *call) (answer, error) {
	return pages(c, func(before string, most int) ([]replay.Progress, error) {
		return a.Replays.List(c.Context(), c.scope, store.ReplayQuery{Tenant: c.query.text("tenant"), Endpoint: c.query.text("endpoint"),
			Active: c.query.text("active") != "", Before: before, Limit: most})
	}, func(p *replay.Progress) string { return p.ID }, each(a.replayView(c)))
}

func getReplay(a *api, c *call) (answer, error) {
	p, err := a.Replays.Get(c.Context(), c.scope, c.PathValue("id"))
	return shown(p, err, a.replayView(c))
}

func listItems(a *api, c *call) (answer, error) {
	return pages(c, func(after string, most int) ([]grapnel.ReplayItem, error) {
		return a.Replays.Items(c.Context(), c.scope, c.PathValue("id"), number(after), most)
	}, func(i *grapnel.ReplayItem) string { return strconv.FormatInt(i.Original, 10) }, func(items []grapnel.ReplayItem) ([]wire.Item, error) {
		return a.viewItems(c, items)
	})
}
