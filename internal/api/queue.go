package api

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/queue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// Queues are where consumers take leases and say what came of them; package queue.
type Queues interface {
	Next(ctx context.Context, q *grapnel.Endpoint, consumer string, most int, wait time.Duration) ([]queue.Message, error)
	// SettleAll returns an error or nil for each; grapnel.CodeConflict is for leases that are over or settled.
	SettleAll(ctx context.Context, scope store.Scope, list []queue.Settlement) []error
	Extend(ctx context.Context, scope store.Scope, token string, by time.Duration) (grapnel.Lease, error)
	// Release gives leases back that nobody has learnt of; they count as no attempts.
	Release(leases []grapnel.Lease)
	Peek(ctx context.Context, queue string, limit int) ([]queue.Waiting, error)
	Consumers(ctx context.Context, queue string) ([]grapnel.Consumer, error)
	Counts(ctx context.Context, queue string) (grapnel.QueueCounts, error)
}

// QueueSettings are what can be set on a queue, and changed later.
type QueueSettings struct {
	Name        string      `json:"name" required:"true" minLength:"1" maxLength:"64" form:"queue" doc:"by which consumers ask for it: [A-Za-z0-9_-], and not like a queue's id; one queue of a tenant has it"`
	Description string      `json:"description,omitempty" maxLength:"1000"`
	EventTypes  []string    `json:"event_types,omitempty" maxItems:"100" form:"pattern" nullable:"false" doc:"patterns in which a whole segment may be *; none: every type"`
	Filter      string      `json:"filter,omitempty" maxLength:"4096" doc:"a CEL expression over event (type, key, data, metadata)"`
	Source      string      `json:"source,omitempty" form:"id" doc:"the id of a source: only what came in through it; none: from anywhere"`
	Policy      policyInput `json:"policy,omitempty" doc:"the name of a policy, or a policy; none: hooque"`
	Ordering    string      `json:"ordering,omitempty" enum:"key,none" doc:"none: events of one key do not wait for each other; key if not given"`
	Lease       string      `json:"lease,omitempty" form:"lease" doc:"how long a consumer has unless it extends, 1s to 12h; 30s if not given"`
	MaxLeased   int         `json:"max_leased,omitempty" minimum:"1" maximum:"10000" doc:"leases that one consumer may hold at once; 1000 if not given"`
	Quiet       bool        `json:"quiet,omitempty" doc:"nobody but its consumers notices it: no webhook_endpoint.* events are about it, no statistics count it, and what would be a dead letter or block its key is discarded; false if not given"`
	Status      string      `json:"status,omitempty" enum:"enabled,paused,disabled" doc:"paused: nothing is handed out; enabled if not given"`
}

// newQueue is how a queue is created.
type newQueue struct {
	QueueSettings
	Tenant string `json:"tenant,omitempty" form:"tenant" doc:"the key's tenant, else default"`
}

// queueView is a queue as it is shown.
type queueView struct {
	ID             string    `json:"id"`
	Tenant         string    `json:"tenant"`
	Name           string    `json:"name"`
	Description    string    `json:"description"`
	EventTypes     []string  `json:"event_types" nullable:"false"`
	Filter         *string   `json:"filter"`
	Source         *string   `json:"source"`
	Policy         policyRef `json:"policy"`
	Ordering       string    `json:"ordering" enum:"key,none"`
	Lease          span      `json:"lease"`
	MaxLeased      int       `json:"max_leased"`
	Quiet          bool      `json:"quiet"`
	Status         string    `json:"status" enum:"enabled,paused,disabled"`
	DisabledReason *string   `json:"disabled_reason"`
	DisabledAt     *stamp    `json:"disabled_at" nullable:"true"`
	QueueCounts
	CreatedAt stamp `json:"created_at"`
	UpdatedAt stamp `json:"updated_at"`
	Revision  int64 `json:"revision" doc:"grows with every change"`
}

// QueueCounts are what is in a queue, and who takes from it.
type QueueCounts struct {
	Ready     *int64         `json:"ready,omitempty" doc:"due, and nobody has it; this and those below may be rough above 10000"`
	Leased    *int64         `json:"leased,omitempty"`
	Delayed   *int64         `json:"delayed,omitempty" doc:"due later: after a nack, or by the policy"`
	Waiting   *int64         `json:"waiting,omitempty" doc:"behind another one of its key"`
	Blocked   *int64         `json:"blocked,omitempty" doc:"its key waits for a person"`
	Dead      *int64         `json:"dead,omitempty" doc:"dead letters that are not discarded"`
	OldestAge *span          `json:"oldest_age,omitempty" doc:"of the oldest that is not over; absent: there is none"`
	OldestAt  *stamp         `json:"oldest_at,omitempty" doc:"when that was accepted"`
	Consumers []consumerView `json:"consumers,omitzero" nullable:"false" doc:"who has asked within a day, or holds leases; only when one queue is asked for"`
}

// consumerView is who takes from a queue.
type consumerView struct {
	Name   string `json:"name"`
	Leased int64  `json:"leased"`
	SeenAt stamp  `json:"seen_at"`
}

func viewQueue(ep *grapnel.Endpoint) queueView {
	v := queueView{
		ID: ep.ID, Tenant: ep.Tenant, Name: ep.Queue.Name, Description: ep.Description, EventTypes: ep.EventTypes, Filter: orNull(ep.Filter),
		Source: orNull(ep.Source), Policy: policyRef{ep.PolicyName, ep.Policy}, Ordering: string(ep.Ordering), Lease: span(ep.Queue.Lease),
		MaxLeased: ep.Queue.MaxLeased, Quiet: ep.Queue.Quiet, Status: string(ep.Status), DisabledReason: orNull(ep.DisabledReason), DisabledAt: stampOf(ep.DisabledAt),
		CreatedAt: stamp(ep.CreatedAt), UpdatedAt: stamp(ep.UpdatedAt), Revision: ep.Revision,
	}
	if v.EventTypes == nil {
		v.EventTypes = []string{}
	}
	return v
}

func viewCounts(n grapnel.QueueCounts, consumers []grapnel.Consumer, now time.Time) QueueCounts {
	v := QueueCounts{Ready: &n.Ready, Leased: &n.Leased, Delayed: &n.Delayed, Waiting: &n.Waiting, Blocked: &n.Blocked, Dead: &n.Dead,
		OldestAt: stampOf(n.Oldest)}
	if !n.Oldest.IsZero() {
		age := span(max(now.Sub(n.Oldest), 0).Round(time.Millisecond))
		v.OldestAge = &age
	}
	if consumers != nil {
		v.Consumers = make([]consumerView, len(consumers))
	}
	for i, c := range consumers {
		v.Consumers[i] = consumerView{c.Name, c.Leased, stamp(c.SeenAt)}
	}
	return v
}

// queueSettings are a queue's settings as they would be given to make one like it.
func queueSettings(ep *grapnel.Endpoint) QueueSettings {
	return QueueSettings{
		Name: ep.Queue.Name, Description: ep.Description, EventTypes: ep.EventTypes, Filter: ep.Filter, Source: ep.Source,
		Policy: encode(policyRef{ep.PolicyName, ep.Policy}), Ordering: string(ep.Ordering), Lease: ep.Queue.Lease.String(), MaxLeased: ep.Queue.MaxLeased,
		Quiet: ep.Queue.Quiet, Status: string(ep.Status),
	}
}

// setQueue puts settings on a queue, or says what is wrong with them. What is left out is the default. What every endpoint has is set
// as on any other.
func setQueue(a *api, c *call, ep *grapnel.Endpoint, in QueueSettings, f *strict.Faults) {
	if in.Name != "" && (!grapnel.ValidID(in.Name) || strings.HasPrefix(in.Name, grapnel.QueuePrefix+"_")) {
		f.Add("/name", "must be 1 to %d characters of [A-Za-z0-9_-], and must not begin with %s_", grapnel.MaxQueueName, grapnel.QueuePrefix)
	}
	if len(in.Policy) == 0 {
		in.Policy = policyInput(strconv.Quote(queuePolicy))
	}
	a.set(c, ep, EndpointSettings{
		Description: in.Description, EventTypes: in.EventTypes, Filter: in.Filter, Source: in.Source, Policy: in.Policy, Ordering: in.Ordering,
		Format: string(grapnel.FormatRaw), Status: in.Status,
	}, f)
	ep.Queue = &grapnel.Queue{Name: in.Name, Lease: cmp.Or(duration(in.Lease), grapnel.DefaultLease), MaxLeased: cmp.Or(in.MaxLeased, grapnel.DefaultMaxLeased), Quiet: in.Quiet}
}

// queuePolicy is the policy of queues that name none.
const queuePolicy = "hooque"

// duration is one that has the form of its field; 0 if there is none.
func duration(text string) time.Duration {
	d, _ := policy.ParseDuration(text)
	return d
}

// room is where consumers are served.
func (a *api) room() (Queues, error) {
	if a.Queues == nil {
		return nil, grapnel.Errorf(grapnel.CodeUnavailable, "This server has no queues.")
	}
	return a.Queues, nil
}

// queue is the one that the path names, by its name or id. A key that is bound to no tenant may say whose it means; else a name that only
// one tenant has will do, and then that of the default tenant.
func (a *api) queue(c *call) (grapnel.Endpoint, error) {
	name, tenant := c.PathValue("name"), c.query.text("tenant")
	ep, ok := a.Engine.Queue(c.scope, tenant, name)
	if !ok && tenant == "" {
		ep, ok = a.Engine.Queue(c.scope, grapnel.DefaultTenant, name)
	}
	if !ok {
		return ep, store.ErrNotFound("queue")
	}
	return ep, nil
}

// counter is where the queue that the path names is served. It is asked for once the query has been read, and finds fault with that first.
func (a *api) counter(c *call) (room Queues, q grapnel.Endpoint, err error) {
	if err = c.query.faults.Err(); err != nil {
		return nil, grapnel.Endpoint{}, err
	}
	if room, err = a.room(); err == nil {
		q, err = a.queue(c)
	}
	return room, q, err
}
