package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// Step is one step of the story.
type Step struct {
	Name   string // retry, circuit, drain, dead, cause, replay, duplicate
	Title  string
	Detail string // the observation, or the action that the viewer has to take; may be empty
	Done   bool
}

// Story publishes events and waits for their outcomes. A step is done when the server's answers, or
// the ledger's counts, show it.
type Story struct {
	r    *Receivers
	c    *client.Client
	tell func(Step)

	unfit []string // payments in yen

	mu    sync.Mutex
	steps []Step
}

const (
	poll   = 250 * time.Millisecond // between two looks at the server
	linger = 5 * time.Second        // time that the flaky receiver stays down after its circuit has opened
)

// NewStory makes a story about receivers that are installed. tell is called for each step when it
// is done, and for each action of the viewer.
func NewStory(r *Receivers, c *client.Client, tell func(Step)) *Story {
	return &Story{r: r, c: c, tell: tell, steps: []Step{
		{Name: "retry", Title: "A failed attempt is repeated until it succeeds"},
		{Name: "circuit", Title: "An endpoint that is down gets probes only"},
		{Name: "drain", Title: "What it missed arrives when it is back"},
		{Name: "dead", Title: "What cannot succeed becomes a dead letter"},
		{Name: "cause", Title: "The cause is visible"},
		{Name: "replay", Title: "Dead letters are replayed"},
		{Name: "duplicate", Title: "A duplicate does no harm"},
	}}
}

// Steps returns all steps in the order in which they are shown.
func (s *Story) Steps() []Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps)
}

// Run plays the story and returns when its last step is done or its context ends.
func (s *Story) Run(ctx context.Context) error {
	for _, act := range []func(context.Context) error{s.retry, s.outage, s.payments, s.duplicate, s.replay} {
		if err := act(ctx); err != nil {
			return fmt.Errorf("playing the demo's story: %w", err)
		}
	}
	return nil
}

// retry follows the events that Install has published.
func (s *Story) retry(ctx context.Context) error {
	var again *client.Delivery
	err := s.until(ctx, func() (bool, error) {
		page, err := s.c.Deliveries(ctx, client.DeliveryFilter{
			Endpoint: s.r.endpoints[Flaky], Status: []grapnel.Status{grapnel.Delivered}, Limit: 500,
		})
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(page.Data, func(d client.Delivery) bool { return d.AttemptsMade > 1 })
		if i >= 0 {
			again = &page.Data[i]
		}
		return i >= 0, nil
	})
	if err != nil {
		return err
	}
	s.done("retry", fmt.Sprintf("%s arrived at attempt %d", again.EventID, again.AttemptsMade))
	return nil
}

// outage takes the flaky receiver down until its circuit is open, and a little longer.
func (s *Story) outage(ctx context.Context) error {
	s.r.down(true)
	defer s.r.down(false)
	var events []client.NewEvent
	for i := range 9 {
		events = append(events, client.NewEvent{Type: "cart.updated", Key: fmt.Sprint("cart_", i+1), Data: json.RawMessage(`{"items":2}`)})
	}
	missed, err := s.publish(ctx, events)
	if err != nil {
		return err
	}
	held := 0
	err = s.until(ctx, func() (bool, error) {
		e, err := s.c.Endpoint(ctx, s.r.endpoints[Flaky])
		if err != nil {
			return false, err
		}
		held = e.Health.Held
		return e.Health.State == grapnel.HealthOpen && held > 0, nil
	})
	if err != nil {
		return err
	}
	s.done("circuit", fmt.Sprintf("the circuit is open, %d events are held, nothing is lost", held))
	if !backoff.Wait(ctx.Done(), linger) {
		return ctx.Err()
	}
	s.r.down(false)
	if err := s.settled(ctx, Flaky, grapnel.Delivered, missed); err != nil {
		return err
	}
	s.done("drain", fmt.Sprintf("all %d arrived once a probe had succeeded", len(missed)))
	return nil
}

// payments has half of its events in a currency that the ledger refuses.
func (s *Story) payments(ctx context.Context) error {
	var euros, yen []client.NewEvent
	for i := range 3 {
		euros = append(euros, payment(10*i+20, "EUR"))
		yen = append(yen, payment(900*i+1500, "JPY"))
	}
	fit, err := s.publish(ctx, euros)
	if err != nil {
		return err
	}
	unfit, err := s.publish(ctx, yen)
	if err != nil {
		return err
	}
	s.unfit = unfit
	if err := s.settled(ctx, Ledger, grapnel.Failed, unfit); err != nil {
		return err
	}
	s.done("dead", fmt.Sprintf("the ledger answered 422 to %d payments, at three attempts each; "+
		"they are kept, and not tried in vain for days", len(unfit)))
	if err := s.settled(ctx, Ledger, grapnel.Delivered, fit); err != nil {
		return err
	}
	s.done("cause", fmt.Sprintf("currency is JPY in %d of %d that failed and in 0 of %d that arrived", len(unfit), len(unfit), len(fit)))
	return nil
}

func payment(amount int, currency string) client.NewEvent {
	return client.NewEvent{Type: "payment.made", Data: json.RawMessage(fmt.Sprintf(`{"amount":%d,"currency":%q}`, amount, currency))}
}

func (s *Story) duplicate(ctx context.Context) error {
	var n Count
	err := s.until(ctx, func() (bool, error) {
		n = s.r.Count()
		return n.Requests > n.Events && n.Effects == n.Events, nil
	})
	if err != nil {
		return err
	}
	s.done("duplicate", fmt.Sprintf("%d requests, %d events, %d effects; a receiver that does not remember events would have %d",
		n.Requests, n.Events, n.Effects, n.Naive))
	return nil
}

// replay waits until the viewer repairs the ledger and replays its dead letters.
func (s *Story) replay(ctx context.Context) error {
	s.ask("replay", "repair the ledger, then replay what it refused")
	if err := s.settled(ctx, Ledger, grapnel.Delivered, s.unfit); err != nil {
		return err
	}
	s.done("replay", fmt.Sprintf("%d dead letters were delivered after the repair", len(s.unfit)))
	return nil
}

// publish publishes a batch and returns the events' ids.
func (s *Story) publish(ctx context.Context, events []client.NewEvent) (ids []string, err error) {
	results, err := s.c.PublishBatch(ctx, events)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		if r.Err != nil {
			return nil, r.Err
		}
		ids = append(ids, r.Published.ID)
	}
	return ids, nil
}

// settled waits until a receiver's deliveries of all these events have a status.
func (s *Story) settled(ctx context.Context, receiver string, status grapnel.Status, events []string) error {
	return s.until(ctx, func() (bool, error) {
		for _, id := range events {
			e, err := s.c.Event(ctx, id)
			if err != nil {
				return false, err
			}
			if !slices.ContainsFunc(e.Deliveries, func(d client.Delivery) bool {
				return d.EndpointID == s.r.endpoints[receiver] && d.Status == status
			}) {
				return false, nil
			}
		}
		return true, nil
	})
}

// until asks repeatedly until the answer is yes.
func (s *Story) until(ctx context.Context, asked func() (bool, error)) error {
	for {
		if yes, err := asked(); yes || err != nil {
			return err
		}
		if !backoff.Wait(ctx.Done(), poll) {
			return ctx.Err()
		}
	}
}

// done reports a step as done.
func (s *Story) done(name, detail string) { s.show(name, detail, true) }

// ask reports the action that a step needs from the viewer.
func (s *Story) ask(name, detail string) { s.show(name, detail, false) }

func (s *Story) show(name, detail string, done bool) {
	s.mu.Lock()
	i := slices.IndexFunc(s.steps, func(step Step) bool { return step.Name == name })
	s.steps[i].Detail, s.steps[i].Done = detail, done
	step := s.steps[i]
	s.mu.Unlock()
	s.tell(step)
}
