package egress

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/policy"
)

// The attempts of an endpoint whose target is a broker. Body and headers are those of a request,
// and the same guard, proxies and deadline hold. The driver of package brokers sends the message.

// CheckTarget returns the faults of a target that are visible without resolving a name, and where
// its broker is. It is called when the target is saved and again before it is used.
func CheckTarget(t *grapnel.Target, r URLRules) (brokers.Place, []*brokers.Fault) {
	_, place, faults := checkTarget(t, r.HTTPSOnly, newGuard(r.Allow))
	return place, faults
}

func checkTarget(t *grapnel.Target, httpsOnly bool, g *guard) (*brokers.Kind, brokers.Place, []*brokers.Fault) {
	return checkBroker(t, httpsOnly, g, brokers.Read)
}

// checkBroker checks a target that is read by the rows of destinations or of sources.
func checkBroker(t *grapnel.Target, httpsOnly bool, g *guard, read func(*grapnel.Target) (*brokers.Kind, brokers.Place, []*brokers.Fault),
) (*brokers.Kind, brokers.Place, []*brokers.Fault) {
	kind, place, faults := read(t)
	if len(faults) > 0 {
		return kind, place, faults
	}
	if httpsOnly && !place.Secure {
		faults = append(faults, &brokers.Fault{Field: "address", Detail: "must begin with " + kind.Secure + "://; this server accepts no other"})
	}
	for _, at := range place.Hosts {
		host, port, err := net.SplitHostPort(at)
		number, wrong := strconv.ParseUint(port, 10, 16)
		if err = cmp.Or(err, wrong); err == nil {
			addr, literal := netip.ParseAddr(host)
			err = checkHost(host, uint16(number), literal == nil && addr.Is6(), g)
		}
		if err != nil {
			faults = append(faults, &brokers.Fault{Field: "address", Detail: err.Error()})
			break
		}
	}
	if _, wrong := parseTemplate(t.Name); kind.Filled && wrong != "" {
		faults = append(faults, &brokers.Fault{Field: "name", Detail: wrong})
	}
	for _, o := range kind.Options {
		if _, wrong := parseTemplate(t.Options[o.Name]); o.Filled && wrong != "" {
			faults = append(faults, &brokers.Fault{Field: "options/" + o.Name, Detail: wrong})
		}
	}
	return kind, place, faults
}

// prepareBroker makes the route of an endpoint with a target.
func (r *route) prepareBroker(s *Sender, e *grapnel.Endpoint, now time.Time) *route {
	is := s.rules.Load()
	kind, place, faults := checkTarget(e.Target, is.httpsOnly, is.guard)
	if len(faults) > 0 {
		class := policy.ClassBlocked
		if kind == nil {
			class = policy.ClassInternal // another program has the driver; the delivery waits for it
		}
		return r.unusable(class, "the endpoint's target: "+faults[0].Error())
	}
	r.broker = &broker{kind: kind, place: place, target: e.Target}
	if r.broker.name = literally(e.Target.Name); kind.Filled {
		r.broker.name, _ = parseTemplate(e.Target.Name)
	}
	r.broker.key, _ = parseTemplate(e.Target.Options[brokers.OptionRoute])
	if place.Secure {
		r.tls = s.tls.Clone()
		r.tls.NextProtos = kind.ALPN
	}
	if err := r.prepareTLS(e); err != nil {
		return r.unusable(policy.ClassTLS, err.Error())
	}
	if err := r.prepareProxies(s, e.Proxy.Text, r.through); err != nil {
		return r.unusable(policy.ClassBlocked, err.Error())
	}
	if err := errors.Join(r.prepareSigner(e, now), r.prepareHeaders(e, s.opts.UserAgent, s.opts.Node)); err != nil {
		return r.unusable(policy.ClassInternal, err.Error())
	}
	return r
}

func literally(text string) template { return template{{text: text}} }

// message is a delivery as a driver gets it. The body is a copy, because a library may still read it
// after an attempt has given up, and the sender's memory is used again.
func (b *broker) message(d Delivery, body []byte, headers fields) *brokers.Message {
	m := &brokers.Message{ID: d.Event.ID, Type: d.Event.Type, Delivery: d.ID, Key: d.Event.Key, Name: b.name.of(d), Route: b.key.of(d),
		Body: bytes.Clone(body)}
	for _, h := range headers {
		m.Headers = append(m.Headers, grapnel.Header{Name: strings.ToLower(h.Name), Value: h.Value})
	}
	return m
}

// send makes the attempt; m has the headers.
func (b *broker) send(ctx context.Context, s *Sender, r *route, a *attempt, m *message, d Delivery, body []byte, result *Result) {
	m.fields.sort()
	l, fresh, err := s.links.take(s, r)
	if err != nil {
		result.Deferred = true
		s.counters.deferred.Add(1)
		result.fail(policy.ClassInternal, err.Error())
		return
	}
	a.reused = !fresh
	receipt, err := l.submit(ctx, a, b.message(d, body, m.fields))
	s.links.give(l, s.bounds.BrokerIdle, spoiled(err))
	if fresh {
		l.timed(a)
	}
	a.peer = l.peerNow()
	if err == nil {
		result.Outcome.Class, result.Headers = policy.ClassNone, receipt
	} else {
		l.explain(ctx, a, err, result)
	}
	if a.wroteAt.Load() != 0 {
		result.Sent = r.sent(m.fields)
	}
	if password := b.target.Password.Text; password != "" {
		result.Error = strings.ReplaceAll(result.Error, password, redacted)
	}
	result.Phases, result.Peer = a.phases(s.opts.Now().Sub(a.start)), a.peer
}

// submit has the driver send the message before the deadline. A driver that does not return soon
// after loses its connections.
func (l *link) submit(ctx context.Context, a *attempt, m *brokers.Message) (brokers.Receipt, error) {
	s := l.sender
	ctx, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	late := time.AfterFunc(time.Until(a.deadline)+s.bounds.Patience, l.cut)
	defer late.Stop()
	defer context.AfterFunc(ctx, func() { late.Reset(s.bounds.Patience) })()
	a.enter(stageConnect)
	if err := l.driver.Connect(ctx); err != nil {
		return nil, err
	}
	a.enter(stageSend)
	if a.still != nil && !a.still() {
		return nil, errWithdrawn
	}
	a.wrote()
	if a.reused {
		s.counters.reused.Add(1)
	} else {
		s.counters.fresh.Add(1)
	}
	receipt, err := l.driver.Send(ctx, m)
	if err == nil {
		a.answered()
	}
	return receipt, err
}

// spoiled says whether a link is of no further use after an error. A refusal is an answer like any
// other, after which the connection goes on.
func spoiled(err error) bool {
	var refused *brokers.Refusal
	if errors.As(err, &refused) {
		return refused.Broken
	}
	return err != nil && !errors.Is(err, errWithdrawn)
}

// explain classifies: a refusal by its status, everything else as at a receiver of requests.
func (l *link) explain(ctx context.Context, a *attempt, err error, result *Result) {
	s, r := l.sender, l.route
	var refused *brokers.Refusal
	switch {
	case ctx.Err() != nil, s.closing.Err() != nil, errors.Is(err, errWithdrawn):
		s.explain(ctx, r, a, err, result)
	case errors.As(err, &refused):
		result.Outcome.Status = refused.Status
		result.fail(policy.ClassOf(refused.Status), cut("the broker answered "+strconv.Itoa(refused.Status)+": "+refused.Text))
		if refused.RetryAfter > 0 {
			result.Outcome.RetryAfter, result.Outcome.HasRetryAfter = refused.RetryAfter, true
		}
	case l.failure() == nil && (errors.Is(err, context.DeadlineExceeded) || time.Until(a.deadline) <= 0):
		result.fail(policy.ClassTimeout, "no confirmation within "+r.timeout.String()+", "+stage(a.stage.Load()).String())
	default:
		result.fail(l.classify(err))
	}
}

// classify is that of requests, for an error that is no refusal.
func (l *link) classify(err error) (policy.Class, string) {
	if failed := l.failure(); failed != nil {
		err = failed // the library may have replaced the error
	}
	class, text := classify(err)
	if class == policy.ClassProtocol {
		text = cut("the broker failed: " + err.Error())
	}
	return class, text
}
