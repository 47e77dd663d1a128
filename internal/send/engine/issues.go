package engine

import (
	"context"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/insight"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/issue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/policy"
)

// issues counts recorded attempts for package issue. Queues, operational events, tests, and
// failures of our own are left out: they say nothing about a receiver.
type issues struct {
	book  *configuration.Book
	ids   *grapnel.IDs
	tally *issue.Tally

	silent bool // counts nothing
}

// newIssueKeeper makes the keeper that stores a tally.
func newIssueKeeper(o issue.Options, from Store, book *configuration.Book) *issue.Keeper {
	o.Documents = from
	o.Failing = func(ctx context.Context, i *issue.Issue) (bool, error) { return stillFailing(ctx, from, i) }
	o.Gone = func(endpoint string) bool {
		ep := book.Snapshot().At(endpoint)
		return ep == nil || !ep.DeletedAt.IsZero()
	}
	return issue.NewKeeper(o)
}

// recorded counts attempts that are durable. It reads nothing and never blocks.
func (n *issues) recorded(page []core.Change, results []store.Changed) {
	if n.silent {
		return
	}
	for i := range results {
		a := page[i].Attempt
		switch {
		case !results[i].Applied || a == nil || !a.Trigger.Counts():
		case a.Decision == policy.Deliver:
			n.tally.Succeeded(page[i].Endpoint)
		default:
			n.failed(&page[i], a)
		}
	}
}

func (n *issues) failed(ch *core.Change, a *grapnel.Attempt) {
	ep := n.book.Snapshot().At(ch.Endpoint)
	if ep == nil || ep.Queue != nil || a.Class == policy.ClassInternal || grapnel.Operational(ch.Subject.Type) {
		return
	}
	n.tally.Failed(&issue.Failure{
		Group: issue.Group{Tenant: ep.Tenant, Endpoint: ep.ID, Class: a.Class, Status: a.StatusCode,
			Answer: insight.Fingerprint(a.ResponseBody, issue.AnswerBytes)},
		At: a.StartedAt.Add(a.Duration), Delivery: n.ids.Delivery(ch.Subject.CreatedAt, ch.Delivery),
		Key: ch.Subject.Key, Created: ch.Subject.CreatedAt,
		Again: a.Trigger == grapnel.TriggerReplay || a.Trigger == grapnel.TriggerManual,
	})
}

// stillFailing says whether a delivery whose last attempt is of the issue is pending. A backlog
// that is too long to be searched at once counts as one: it is searched again later.
func stillFailing(ctx context.Context, from Store, i *issue.Issue) (bool, error) {
	if i.Class == issue.ClassOther {
		return false, nil
	}
	found, resume, err := from.DeliverySearch(ctx, store.Of(i.Tenant), store.DeliveryQuery{Endpoint: i.Endpoint,
		Status: []grapnel.Status{grapnel.Pending, grapnel.Held}, Class: i.Class, StatusCode: i.Status, Limit: 1}, "")
	return len(found) > 0 || resume != 0, err
}
