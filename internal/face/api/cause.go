package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/insight"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/send/issue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

func causeRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/endpoints/{id}/causes", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: causes,
			name: "endpoint-causes", tag: "Statistics", summary: "Say why deliveries to an endpoint fail",
			about: "Compares the newest deliveries whose first attempt failed with those whose first attempt did not: by event type, fields of the data, size, " +
				"address and certificate of the receiver, secret, settings, and time. A cause is something that failures are associated with; it is named " +
				"only where chance is a bad explanation. At most 1,000 deliveries are compared, and fewer if reading them takes long; failures and successes " +
				"say how many. Only a few explanations are made at once; others get 503.",
			gives: map[int]any{200: wire.Causes{}}},
	}
}

// causes explains the failures of one endpoint.
func causes(a *api, c *call) (answer, error) {
	ep, err := a.endpoint(c)
	if err != nil {
		return answer{}, err
	}
	release, err := slot(a.explanations, "Other failures are being explained.")
	if err != nil {
		return answer{}, err
	}
	defer release()
	past, err := a.past(c, ep.ID)
	if err != nil {
		return answer{}, err
	}
	v := past.view(c, ep.ID)
	if ep.HeldForConsent() {
		v.Sentence = words.Sentence(ep.DisabledReason) + " " + v.Sentence
	}
	return jsonAnswer(http.StatusOK, v), nil
}

// past is what an explanation looks at.
type past struct {
	deliveries   []grapnel.Delivery // the newest first, with the attempts that were read
	observations []insight.Observation
	of           []int // the delivery of each observation
	changes      []words.Change
	left         map[bool]int // attempts that may still be read: of failures, and of successes
	more         bool
	others       int // failures of other issues, which narrow has left out
}

// past reads the newest deliveries of an endpoint, the newest first, until there are
// Bounds.Compared or the time of Bounds.Comparing is up. Of a delivery with one attempt, which
// succeeded, the list says enough; attempts are read of Bounds.Explained failures and as many
// successes.
func (a *api) past(c *call, endpoint string) (*past, error) {
	end := a.Clock().Add(a.Bounds.Comparing)
	late := func(compared int) bool { return compared >= a.Bounds.LeastCompared && !a.Clock().Before(end) }
	p := &past{left: map[bool]int{true: a.Bounds.Explained, false: a.Bounds.Explained}}
	for q := (store.DeliveryQuery{Endpoint: endpoint}); ; {
		q.Limit = min(listedAtOnce, a.Bounds.Compared+1-len(p.deliveries))
		list, err := a.History.DeliveryList(c.Context(), c.scope, q)
		if err != nil {
			return nil, err
		}
		last := len(list) < q.Limit
		for i := range list {
			if len(p.deliveries) == a.Bounds.Compared {
				p.more, last = true, true
				break
			}
			if p.deliveries = append(p.deliveries, list[i]); list[i].AttemptsMade > 0 && !grapnel.Operational(list[i].Type) &&
				!list[i].Test() {
				p.of = append(p.of, len(p.deliveries)-1)
			}
		}
		for from := len(p.observations); from < len(p.of); from = len(p.observations) {
			if late(from) {
				p.cut(from)
				return p, p.audit(c, a, endpoint)
			}
			if err := p.part(c, a, from, min(from+eventsAtOnce, len(p.of))); err != nil {
				return nil, err
			}
		}
		if last {
			return p, p.audit(c, a, endpoint)
		}
		q.Before = list[len(list)-1].Seq
	}
}

// cut leaves the first n observations and their deliveries.
func (p *past) cut(n int) {
	p.deliveries, p.more = p.deliveries[:p.of[n]], true
	p.of = p.of[:n]
}

// listedAtOnce is how many deliveries are listed together. Their events are read soon afterwards,
// while the pages of the store that have both are in memory.
const listedAtOnce = 128

// eventsAtOnce is how many events are in memory together.
const eventsAtOnce = 32

// part looks at some of the deliveries.
func (p *past) part(c *call, a *api, from, to int) error {
	p.observations = append(p.observations, make([]insight.Observation, to-from)...)
	if err := p.attempts(c.Context(), a, c.scope, from, to); err != nil {
		return err
	}
	if c.mayReadPayloads() {
		return p.events(c.Context(), a, from, to)
	}
	for i := from; i < to; i++ {
		p.observations[i].Answer = ""
	}
	return nil
}

// attempts says of each delivery how its first attempt ended, and which address and certificate
// answered.
func (p *past) attempts(ctx context.Context, a *api, scope store.Scope, from, to int) error {
	for i := from; i < to; i++ {
		d, o := &p.deliveries[p.of[i]], &p.observations[i]
		o.At, o.Endpoint, o.Type = d.CreatedAt, d.EndpointID, d.Type
		if o.Failed = d.AttemptsMade > 1 || d.Status != grapnel.Delivered; o.Failed && d.Status != grapnel.Delivered {
			o.Class, o.Status = string(d.Last.Class), d.Last.StatusCode
		}
		if p.left[o.Failed]--; p.left[o.Failed] < 0 {
			continue
		}
		whole, err := a.History.Delivery(ctx, scope, d.Seq)
		if grapnel.CodeOf(err) == grapnel.CodeNotFound {
			continue // purged meanwhile
		}
		if err != nil {
			return err
		}
		if len(whole.Attempts) > 0 {
			tried(o, &whole.Attempts[0])
		}
	}
	return nil
}

func tried(o *insight.Observation, at *grapnel.Attempt) {
	o.At, o.Took = at.StartedAt, at.Duration
	if o.Failed = at.Decision != policy.Deliver; o.Failed {
		o.Class, o.Status, o.Answer = string(at.Class), at.StatusCode, insight.Fingerprint(at.ResponseBody, issue.AnswerBytes)
	}
	for _, t := range []insight.Trait{
		{Kind: insight.Address, Value: at.Peer.Address}, {Kind: insight.Certificate, Value: at.Peer.Certificate},
		{Kind: insight.Settings, Value: strconv.FormatInt(at.PolicyRevision, 10)},
	} {
		if t.Value != "" {
			o.Traits = append(o.Traits, t)
		}
	}
}

// events adds what the events' data may explain.
func (p *past) events(ctx context.Context, a *api, from, to int) error {
	seqs := make([]int64, to-from)
	for i := range seqs {
		seqs[i] = p.deliveries[p.of[from+i]].EventSeq
	}
	found, err := a.History.Events(ctx, seqs)
	if err != nil {
		return err
	}
	for i, ev := range found {
		o := &p.observations[from+i]
		if ev != nil && ev.Tenant == p.deliveries[p.of[from+i]].Tenant {
			o.Size = len(ev.Data)
			o.Traits = append(o.Traits, insight.Fields(ev.Data)...)
		}
	}
	return nil
}

// audit adds which secret signed, as far as rotations are in the endpoint's audit, and the changes
// that may explain the beginning of failures.
func (p *past) audit(c *call, a *api, endpoint string) error {
	entries, err := a.History.AuditList(c.Context(), c.scope, store.AuditQuery{Endpoint: endpoint, Limit: a.Bounds.Changes})
	if err != nil {
		return err
	}
	var rotations []time.Time
	for i := range entries {
		e := &entries[i]
		switch e.Verb {
		case grapnel.VerbRotate:
			rotations = append(rotations, e.At)
			p.changes = append(p.changes, words.Change{At: e.At, What: "its secret was rotated"})
		case grapnel.VerbChange:
			p.changes = append(p.changes, words.Change{At: e.At, What: "its settings were changed"})
		case grapnel.VerbEnable, grapnel.VerbResume:
			p.changes = append(p.changes, words.Change{At: e.At, What: "it was switched on again"})
		}
	}
	if len(rotations) == 0 {
		return nil
	}
	slices.SortFunc(rotations, time.Time.Compare)
	for i := range p.observations {
		o := &p.observations[i]
		n, _ := slices.BinarySearchFunc(rotations, o.At, func(at, than time.Time) int {
			if at.After(than) {
				return 1
			}
			return -1
		})
		value := "that signed before " + rotations[0].UTC().Format(time.RFC3339)
		if n > 0 {
			value = "of " + rotations[n-1].UTC().Format(time.RFC3339)
		}
		o.Traits = append(o.Traits, insight.Trait{Kind: insight.Secret, Value: value})
	}
	return nil
}

// view explains.
func (p *past) view(c *call, endpoint string) wire.Causes {
	v := wire.Causes{EndpointID: endpoint, More: p.more, Causes: []wire.Cause{}, Groups: []wire.FailureGroup{}}
	if len(p.deliveries) > 0 {
		v.From = timeOf(p.deliveries[len(p.deliveries)-1].CreatedAt)
	}
	for i := range p.observations {
		if p.observations[i].Failed {
			v.Failures++
		} else {
			v.Successes++
		}
	}
	for _, x := range insight.Explain(p.observations) {
		cause := wire.Cause{Kind: string(x.Kind), Name: x.Name, Value: x.Value, Bytes: x.Bytes, From: timeOf(x.From), To: timeOf(x.To),
			Failures: x.Failed, Successes: x.Delivered, Evidence: x.Evidence, Sentence: words.Cause(&x, p.changes)}
		if x.Value == insight.Absent {
			cause.Value = "absent"
		}
		if x.Kind == insight.Type {
			cause.Filter = "endpoint:" + endpoint + " type:" + x.Value
		}
		v.Causes = append(v.Causes, cause)
	}
	for _, g := range insight.Groups(p.observations) {
		if len(v.Groups) == mostGroups {
			break
		}
		v.Groups = append(v.Groups, wire.FailureGroup{ErrorClass: policy.Class(g.Class), StatusCode: g.Status, Answer: g.Answer, Count: g.Count,
			First: g.First, Last: g.Last, DeliveryID: c.ids.Of(&p.deliveries[p.of[g.Example]])})
	}
	v.Sentence = p.sentence(&v)
	return v
}

// mostGroups is how many groups are shown.
const mostGroups = 20

// sentence answers why deliveries fail.
func (p *past) sentence(v *wire.Causes) string {
	switch {
	case len(p.observations) == 0:
		return "Nothing was sent to it yet."
	case v.Failures+v.Successes == 1 && v.Failures == 0:
		return "Nothing fails: the first attempt of the only delivery went."
	case v.Failures == 0:
		return fmt.Sprintf("Nothing fails: the first attempts of the last %d deliveries went.", v.Successes)
	case len(v.Causes) > 0:
		return v.Causes[0].Sentence
	case v.Successes == 0 && p.others > 0:
		return fmt.Sprintf("%d of the last %d deliveries failed in this way at first and the others in other ways, so nothing sets the failures apart.",
			v.Failures, v.Failures+p.others)
	case v.Successes == 0 && v.Failures == 1:
		return "The only delivery failed at first, so there is nothing to compare it with."
	case v.Successes == 0:
		return fmt.Sprintf("All of the last %d deliveries failed at first, so nothing sets the failures apart.", v.Failures)
	default:
		way := ""
		if p.others > 0 {
			way = " in this way"
		}
		return fmt.Sprintf("%d of the last %d deliveries failed%s at first, and nothing that Grapnel sees sets them apart from the others.",
			v.Failures, v.Failures+v.Successes+p.others, way)
	}
}
