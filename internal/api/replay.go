package api

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/replay"
	"github.com/grapnelhq/grapnel/wire"
)

// newReplay says what shall be delivered again, and how.
type newReplay struct {
	From       string   `json:"from,omitempty" form:"time" doc:"events accepted then or later"`
	To         string   `json:"to,omitempty" form:"time" doc:"events accepted before then"`
	EventTypes []string `json:"event_types,omitempty" maxItems:"1000" form:"pattern" doc:"only these; a whole segment may be *"`
	Keys       []string `json:"keys,omitempty" maxItems:"1000" form:"key" doc:"only these ordering keys"`
	Status     []string `json:"status,omitempty" enum:"delivered,failed,dropped,discarded,skipped" maxItems:"5" doc:"failed if not given"`
	Deliveries []string `json:"deliveries,omitempty" maxItems:"1000" form:"id" doc:"these that are over, and nothing else; not together with the fields above"`
	Again      bool     `json:"again,omitempty" doc:"also what was replayed with success already or discarded"`
	Rate       float64  `json:"rate,omitempty" exclusiveMinimum:"0" maximum:"10000" doc:"deliveries made in a second; 100 if not given"`
	StopAfter  int      `json:"stop_after,omitempty" minimum:"1" maximum:"1000000" doc:"so many failures in a row end the replay; none: never"`
	Canary     bool     `json:"canary,omitempty" doc:"the first one has to arrive before the others are made"`
	DryRun     bool     `json:"dry_run,omitempty" doc:"count, and make nothing"`
	Reason     string   `json:"reason,omitempty" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

// request makes of it what the desk takes. Which deliveries are named is looked up by the caller.
func (in *newReplay) request(endpoint string, f *strict.Faults) replay.Request {
	r := replay.Request{Endpoint: endpoint, Rate: in.Rate, StopAfter: in.StopAfter, Canary: in.Canary, Selection: grapnel.Selection{
		From: instant(in.From), To: instant(in.To), Types: in.EventTypes, Keys: in.Keys, Again: in.Again,
	}}
	if s := &r.Selection; !s.From.IsZero() && !s.To.IsZero() && !s.From.Before(s.To) {
		f.Add("/to", "must be after from")
	}
	for _, status := range in.Status {
		r.Selection.Status = append(r.Selection.Status, grapnel.Status(status))
	}
	if len(in.Deliveries) > 0 && (in.From != "" || in.To != "" || len(in.EventTypes) > 0 || len(in.Keys) > 0 || len(in.Status) > 0) {
		f.Add("/deliveries", "must not be given together with from, to, event_types, keys or status")
	}
	return r
}

// instant is a time in a body; zero when it is not given.
func instant(text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, _ := strict.ParseTime(text) // it has the form
	return t
}

func viewReplay(p *replay.Progress) wire.Replay {
	s := &p.Selection
	v := wire.Replay{
		ID: p.ID, EndpointID: p.Endpoint, Tenant: p.Tenant, Status: p.Status, Reason: p.Reason, Rate: p.Rate,
		StopAfter: p.StopAfter, Canary: p.Canary, Total: p.Total, Made: p.Started, Done: p.Done, Delivered: p.Delivered, Failed: p.Failed,
		StartedAt: p.CreatedAt, StartedBy: p.Actor, UpdatedAt: p.UpdatedAt, FinishedAt: timeOf(p.FinishedAt), ETA: timeOf(p.ETA),
		Selection: wire.Selection{From: timeOf(s.From), To: timeOf(s.To), EventTypes: s.Types, Keys: s.Keys,
			Deliveries: len(s.Deliveries), Again: s.Again},
	}
	if len(s.Deliveries) == 0 {
		v.Selection.Status = s.Status
	}
	return v
}

// timeOf is nil for a time that is not set.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func viewPlan(p replay.Plan) wire.Plan {
	return wire.Plan{DryRun: true, Total: p.Total, Keys: p.Keys, LongestChain: p.LongestChain, Overtaken: p.Overtaken, Partial: p.Partial,
		Excluded: wire.Excluded{AlreadyReplayed: p.AlreadyReplayed, Discarded: p.Discarded, OnItsWay: p.OnItsWay, Superseded: p.Superseded}}
}

func viewItem(i *grapnel.ReplayItem, ids *grapnel.IDs) wire.Item {
	return wire.Item{OriginalID: ids.Delivery(i.CreatedAt, i.Original), DeliveryID: ids.Delivery(i.MadeAt, i.Made), MadeAt: i.MadeAt,
		Status: i.Status}
}
