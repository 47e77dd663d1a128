package api

import (
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/replay"
)

// newReplay says what shall be delivered again, and how.
type newReplay struct {
	From       string   `json:"from,omitempty" format:"date-time" doc:"events accepted then or later"`
	To         string   `json:"to,omitempty" format:"date-time" doc:"events accepted before then"`
	EventTypes []string `json:"event_types,omitempty" maxItems:"1000" maxLength:"128" doc:"only these; a whole segment may be *"`
	Keys       []string `json:"keys,omitempty" maxItems:"1000" maxLength:"256" doc:"only these ordering keys"`
	Status     []string `json:"status,omitempty" enum:"delivered,failed,dropped,discarded,skipped" maxItems:"5" doc:"failed if not given"`
	Deliveries []string `json:"deliveries,omitempty" maxItems:"1000" maxLength:"64" doc:"these that are over, and nothing else; not together with the fields above"`
	Again      bool     `json:"again,omitempty" doc:"also what was replayed with success already or discarded"`
	Rate       float64  `json:"rate,omitempty" exclusiveMinimum:"0" maximum:"10000" doc:"deliveries made in a second; 100 if not given"`
	StopAfter  int      `json:"stop_after,omitempty" minimum:"1" maximum:"1000000" doc:"so many failures in a row end the replay; none: never"`
	Canary     bool     `json:"canary,omitempty" doc:"the first one has to arrive before the others are made"`
	DryRun     bool     `json:"dry_run,omitempty" doc:"count, and make nothing"`
	Reason     string   `json:"reason,omitempty" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

// request makes of it what the desk takes. Which deliveries are named is looked up by the caller.
func (in *newReplay) request(endpoint string, f *faults) replay.Request {
	r := replay.Request{Endpoint: endpoint, Rate: in.Rate, StopAfter: in.StopAfter, Canary: in.Canary, Selection: grapnel.Selection{
		From: instant(in.From, "/from", f), To: instant(in.To, "/to", f), Types: in.EventTypes, Keys: in.Keys, Again: in.Again,
	}}
	if s := &r.Selection; !s.From.IsZero() && !s.To.IsZero() && !s.From.Before(s.To) {
		f.add("/to", "must be after from")
	}
	for i, pattern := range in.EventTypes {
		if !grapnel.ValidPattern(pattern) {
			f.add("/event_types/"+strconv.Itoa(i), "must be an event type; a whole segment may be *")
		}
	}
	for i, key := range in.Keys {
		checkKey(key, "/keys/"+strconv.Itoa(i), f)
	}
	for _, status := range in.Status {
		r.Selection.Status = append(r.Selection.Status, grapnel.Status(status))
	}
	if len(in.Deliveries) > 0 && (in.From != "" || in.To != "" || len(in.EventTypes) > 0 || len(in.Keys) > 0 || len(in.Status) > 0) {
		f.add("/deliveries", "must not be given together with from, to, event_types, keys or status")
	}
	return r
}

// instant is a time in a body; zero when it is not given.
func instant(text, pointer string, f *faults) time.Time {
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		f.add(pointer, "must be a time as in 2026-01-31T12:00:00Z")
	}
	return t.UTC()
}

// replayView is a replay as it is shown.
type replayView struct {
	ID         string        `json:"id"`
	EndpointID string        `json:"endpoint_id"`
	Tenant     string        `json:"tenant"`
	Status     string        `json:"status" enum:"running,paused,completed,cancelled,stopped" doc:"stopped: too many failures in a row, or the canary failed"`
	Reason     *string       `json:"reason" doc:"why it is paused, was cancelled or stopped, or does not get on"`
	Selection  selectionView `json:"selection"`
	Rate       float64       `json:"rate" doc:"deliveries made in a second, at most"`
	StopAfter  *int          `json:"stop_after" doc:"so many failures in a row end it; null: never"`
	Canary     bool          `json:"canary"`
	Total      int           `json:"total" doc:"deliveries to be made, as counted when it was started"`
	Made       int           `json:"made" doc:"so far"`
	Done       int           `json:"done" doc:"of those made: they are over"`
	Delivered  int           `json:"delivered"`
	Failed     int           `json:"failed" doc:"over, and not delivered"`
	StartedAt  stamp         `json:"started_at"`
	StartedBy  string        `json:"started_by" doc:"the id of an API key"`
	UpdatedAt  stamp         `json:"updated_at"`
	FinishedAt *stamp        `json:"finished_at" nullable:"true"`
	ETA        *stamp        `json:"eta" nullable:"true" doc:"when it will be over if it goes on like this; null: nobody knows"`
}

// selectionView says what a replay is about. The set was fixed when the replay was made: what was over by then.
type selectionView struct {
	From       *stamp   `json:"from" nullable:"true"`
	To         *stamp   `json:"to" nullable:"true"`
	EventTypes []string `json:"event_types" nullable:"false" doc:"empty: any"`
	Keys       []string `json:"keys" nullable:"false" doc:"empty: any"`
	Status     []string `json:"status" nullable:"false"`
	Deliveries *int     `json:"deliveries" doc:"how many were named; null: it goes by the fields above"`
	Again      bool     `json:"again"`
}

func viewReplay(p *replay.Progress) replayView {
	s := &p.Selection
	v := replayView{
		ID: p.ID, EndpointID: p.Endpoint, Tenant: p.Tenant, Status: string(p.Status), Reason: orNull(p.Reason), Rate: p.Rate,
		StopAfter: numberOrNull(p.StopAfter), Canary: p.Canary, Total: p.Total, Made: p.Started, Done: p.Done, Delivered: p.Delivered, Failed: p.Failed,
		StartedAt: stamp(p.CreatedAt), StartedBy: p.Actor, UpdatedAt: stamp(p.UpdatedAt), FinishedAt: stampOf(p.FinishedAt), ETA: stampOf(p.ETA),
		Selection: selectionView{From: stampOf(s.From), To: stampOf(s.To), EventTypes: append([]string{}, s.Types...), Keys: append([]string{}, s.Keys...),
			Status: []string{}, Deliveries: numberOrNull(len(s.Deliveries)), Again: s.Again},
	}
	if len(s.Deliveries) == 0 {
		for _, status := range s.Status {
			v.Selection.Status = append(v.Selection.Status, string(status))
		}
	}
	return v
}

// planView is what a replay would do.
type planView struct {
	DryRun       bool         `json:"dry_run"`
	Total        int          `json:"total" doc:"deliveries it would make"`
	Keys         int          `json:"keys" doc:"different ones among them"`
	LongestChain int          `json:"longest_chain" doc:"most deliveries of one key, which arrive one after the other"`
	Overtaken    int          `json:"overtaken" doc:"of total: something newer of their key was delivered since, so they arrive after it"`
	Excluded     excludedView `json:"excluded"`
	Partial      bool         `json:"partial" doc:"counting took too long: there are at least as many"`
}

// excludedView counts what matches and is left out.
type excludedView struct {
	AlreadyReplayed int `json:"already_replayed" doc:"delivered again with success already"`
	Discarded       int `json:"discarded" doc:"put away by a person"`
	OnItsWay        int `json:"on_its_way" doc:"being delivered again already"`
	Superseded      int `json:"superseded" doc:"delivered again already, and what became of that is meant in their place"`
}

func viewPlan(p replay.Plan) planView {
	return planView{DryRun: true, Total: p.Total, Keys: p.Keys, LongestChain: p.LongestChain, Overtaken: p.Overtaken, Partial: p.Partial,
		Excluded: excludedView{AlreadyReplayed: p.AlreadyReplayed, Discarded: p.Discarded, OnItsWay: p.OnItsWay, Superseded: p.Superseded}}
}

// itemView is what a replay made of one delivery.
type itemView struct {
	OriginalID string `json:"original_id"`
	DeliveryID string `json:"delivery_id" doc:"the new one"`
	MadeAt     stamp  `json:"made_at"`
	Status     string `json:"status" enum:"pending,delivered,failed,dropped,discarded,skipped" doc:"of the new one; pending: it is not over"`
}

func viewItem(i *grapnel.ReplayItem) itemView {
	return itemView{OriginalID: grapnel.DeliveryID(i.CreatedAt, i.Original), DeliveryID: grapnel.DeliveryID(i.MadeAt, i.Made), MadeAt: stamp(i.MadeAt), Status: string(i.Status)}
}
