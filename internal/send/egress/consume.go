package egress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
)

// Sources read from brokers over links like those that endpoints send by: the same guard, proxies
// and TLS settings hold, and each counts among the links of its tenant until it is closed.

// CheckBroker is CheckTarget for the broker of a source.
func CheckBroker(t *grapnel.Target, r URLRules) (brokers.Place, []*brokers.Fault) {
	_, place, faults := checkBroker(t, r.HTTPSOnly, newGuard(r.Allow), brokers.ReadSource)
	return place, faults
}

// Consumer is the consumer of a source's broker. Its errors are texts for people, without secrets.
type Consumer struct {
	brokers.Consumer
	link   *link
	budget int64
	rules  *rules // by which it has connected
}

// Consume connects to the broker of a source. The consumer receives at most so many messages before
// they are acknowledged, and about so many bytes of them: beyond, its connection ends. proxy is the
// URL of the tenant's proxy; empty: none. The caller closes the consumer before the sender.
func Consume(ctx context.Context, s *Sender, src *grapnel.Source, proxy string, most int, bytes int64) (_ *Consumer, err error) {
	e := &grapnel.Endpoint{ID: src.ID, Tenant: src.Tenant, Target: src.Broker, TLS: src.TLS}
	is := s.rules.Load()
	kind, place, faults := checkBroker(e.Target, is.httpsOnly, is.guard, brokers.ReadSource)
	if len(faults) > 0 {
		return nil, faults[0]
	}
	r := &route{endpoint: e, timeout: defaultTimeout, broker: &broker{kind: kind, place: place, target: e.Target}}
	if place.Secure {
		r.tls = s.tls.Clone()
		r.tls.NextProtos = kind.ALPN
	}
	if err := errors.Join(r.prepareTLS(e), r.prepareProxies(s, "", proxy)); err != nil {
		return nil, err
	}
	c := &Consumer{budget: bytes, rules: is}
	c.link, err = s.links.lend(s, r, bytes)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithTimeout(ctx, defaultTimeout)
	defer end()
	defer context.AfterFunc(s.closing, end)()
	late := context.AfterFunc(ctx, c.link.cut)
	defer late()
	n := c.link.network()
	n.Answer = bytes
	c.Consumer, err = kind.Reading.Open(ctx, e.Target, place, n, "grapnel-"+src.ID, most)
	if err != nil {
		err = c.explain(ctx, err)
		s.links.release(c.link)
		return nil, err
	}
	return c, nil
}

// Receive is that of brokers.Consumer.
func (c *Consumer) Receive(ctx context.Context, wait time.Duration) ([]brokers.Received, error) {
	if c.link.sender.rules.Load() != c.rules {
		return nil, errors.New("the server's rules for addresses have changed")
	}
	c.link.budget.Store(c.budget)
	defer context.AfterFunc(ctx, c.link.cut)()
	all, err := c.Consumer.Receive(ctx, wait)
	return all, c.explain(ctx, err)
}

// Ack is that of brokers.Consumer.
func (c *Consumer) Ack(ctx context.Context, n int) error {
	c.link.budget.Store(c.budget)
	defer context.AfterFunc(ctx, c.link.cut)()
	return c.explain(ctx, c.Consumer.Ack(ctx, n))
}

// Close closes the connections, even if the broker does not say goodbye.
func (c *Consumer) Close() {
	late := time.AfterFunc(c.link.sender.bounds.BrokerEnd, c.link.cut)
	defer late.Stop()
	c.Consumer.Close()
	c.link.cut()
	c.link.sender.links.release(c.link)
}

// explain replaces an error by its text for people; errors that callers tell apart stay.
func (c *Consumer) explain(ctx context.Context, err error) error {
	var refused *brokers.Refusal
	text := ""
	switch {
	case err == nil:
		return nil
	case c.link.budget.Load() < 0, errors.Is(err, brokers.ErrTooMuch):
		return fmt.Errorf("%w: %d", brokers.ErrTooMuch, c.budget)
	case errors.Is(err, brokers.ErrElsewhere):
		return brokers.ErrElsewhere
	case errors.As(err, &refused):
		text = fmt.Sprintf("the broker answered %d: %s", refused.Status, refused.Text)
	case c.link.failure() == nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)):
		text = "the broker did not answer in time"
	default:
		_, text = c.link.classify(err)
	}
	if password := c.link.route.endpoint.Target.Password.Text; password != "" {
		text = strings.ReplaceAll(text, password, redacted)
	}
	return errors.New(cut(text))
}
