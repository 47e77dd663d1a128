package brokers

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/grapnelhq/grapnel"
)

// A message is published to an exchange with confirms, as persistent and mandatory. It counts as
// delivered when the broker has confirmed it: then every queue that it was routed to has it. A
// message that no queue takes is returned and refused with 404.

var _ = register(Kind{
	Name: "rabbitmq", Plain: "amqp", Secure: "amqps", Port: "5672", SecurePort: "5671", Many: true, Path: "virtual host",
	What: "exchange", Nameless: true,
	Options: []Option{{Name: OptionRoute, Filled: true}}, // none: the event's key
	Check: func(t *grapnel.Target, _ Place) *Fault {
		if t.Name == "" && t.Options[OptionRoute] == "" {
			return &Fault{"name", "is required: the exchange; or give the name of a queue as options/routing_key"}
		}
		return nil
	},
	Open: func(t *grapnel.Target, p Place, n Network) (Driver, error) {
		return &rabbitDriver{target: t, place: p, network: n, session: newSession[rabbitSession]()}, nil
	},
})

type rabbitDriver struct {
	target  *grapnel.Target
	place   Place
	network Network
	session session[rabbitSession]
}

// rabbitSession is a connection with one channel.
type rabbitSession struct {
	raw     net.Conn
	conn    *amqp.Connection
	channel *amqp.Channel
	asks    chan returnedAsk
	over    chan struct{} // closed when watch has ended
	mu      sync.Mutex
	ended   *amqp.Error // why the broker closed the channel or the connection
}

// returnedAsk asks whether a message was returned, and forgets it.
type returnedAsk struct {
	delivery string
	answer   chan *amqp.Return
}

func (d *rabbitDriver) Connect(ctx context.Context) error {
	_, err := d.connected(ctx)
	return err
}

func (d *rabbitDriver) connected(ctx context.Context) (*rabbitSession, error) {
	return d.session.get(ctx, func(s *rabbitSession) bool { return !s.channel.IsClosed() }, endRabbit, d.open)
}

func endRabbit(s *rabbitSession) {
	_ = s.raw.SetDeadline(time.Now().Add(time.Second)) // for the farewell
	_ = s.conn.Close()
	_ = s.raw.Close()
	<-s.over
}

// open tries the hosts in their order.
func (d *rabbitDriver) open(ctx context.Context) (s *rabbitSession, err error) {
	for _, host := range d.place.Hosts {
		if s, err = d.openAt(ctx, host); err == nil || ctx.Err() != nil {
			return s, err
		}
	}
	return nil, err
}

func (d *rabbitDriver) openAt(ctx context.Context, host string) (*rabbitSession, error) {
	raw, err := d.network.Dial(ctx, host)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = raw.SetDeadline(deadline) // of a connection that has just been made
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	config := amqp.Config{Vhost: "/", Heartbeat: 10 * time.Second, Properties: amqp.Table{"connection_name": "grapnel"},
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: d.target.Username, Password: d.target.Password.Text}}}
	if d.place.Path != "" {
		config.Vhost = d.place.Path
	}
	if d.target.Username == "" && d.network.TLS != nil {
		config.SASL = []amqp.Authentication{&amqp.ExternalAuth{}} // by the client certificate
	}
	conn, err := amqp.Open(raw, config)
	if err != nil {
		stop()
		_ = raw.Close()
		return nil, refusedByRabbit(err)
	}
	s, err := watchRabbit(raw, conn)
	if !stop() || err != nil {
		_ = conn.Close()
		_ = raw.Close()
		return nil, errors.Join(refusedByRabbit(err), ctx.Err())
	}
	_ = raw.SetDeadline(time.Time{}) // from here on heartbeats find a dead connection
	return s, nil
}

// watchRabbit opens the channel.
func watchRabbit(raw net.Conn, conn *amqp.Connection) (*rabbitSession, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		return nil, err
	}
	s := &rabbitSession{raw: raw, conn: conn, channel: channel, asks: make(chan returnedAsk), over: make(chan struct{})}
	// Both are without a buffer: see watch.
	go s.watch(channel.NotifyReturn(make(chan amqp.Return)), channel.NotifyClose(make(chan *amqp.Error, 1)))
	return s, nil
}

// watch keeps the messages that the broker has returned until their senders ask. A message's return
// comes before its confirmation, and the library hands it over before it reads on. So a sender that
// has the confirmation asks after the return was kept.
func (s *rabbitSession) watch(returns <-chan amqp.Return, ends <-chan *amqp.Error) {
	defer close(s.over)
	returned := map[string]*amqp.Return{}
	for {
		select {
		case r, open := <-returns:
			if !open {
				returns = nil
				continue
			}
			returned[r.CorrelationId] = &r
		case ask := <-s.asks:
			ask.answer <- returned[ask.delivery]
			delete(returned, ask.delivery)
		case why := <-ends: // nil if this side closed it
			s.mu.Lock()
			s.ended = why
			s.mu.Unlock()
			return
		}
	}
}

// returned is the return of a message that the broker has confirmed, or will not.
func (s *rabbitSession) returned(delivery string) *amqp.Return {
	answer := make(chan *amqp.Return, 1)
	select {
	case s.asks <- returnedAsk{delivery, answer}:
		return <-answer
	case <-s.over:
		return nil
	}
}

func (s *rabbitSession) why() error {
	<-s.over
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		return amqp.ErrClosed
	}
	return s.ended
}

func (d *rabbitDriver) Send(ctx context.Context, m *Message) (Receipt, error) {
	s, err := d.connected(ctx)
	if err != nil {
		return nil, err
	}
	headers := amqp.Table{}
	for _, h := range m.Headers {
		headers[h.Name] = h.Value
	}
	route := m.Route
	if d.target.Options[OptionRoute] == "" {
		route = m.Key
	}
	confirmed, err := s.channel.PublishWithDeferredConfirmWithContext(ctx, m.Name, route, true, false, amqp.Publishing{
		Headers: headers, ContentType: m.Header("content-type"), DeliveryMode: amqp.Persistent, MessageId: m.ID, CorrelationId: m.Delivery,
		Type: m.Type, AppId: "grapnel", Body: m.Body,
	})
	if err != nil {
		if errors.Is(err, amqp.ErrClosed) && s.channel.IsClosed() {
			err = s.why()
		}
		return nil, refusedByRabbit(err)
	}
	acked, err := confirmed.WaitContext(ctx)
	if r := s.returned(m.Delivery); r != nil {
		return nil, &Refusal{Status: 404, Text: "no queue takes the message: " + r.ReplyText}
	}
	switch {
	case err != nil:
		return nil, err
	case !acked && s.channel.IsClosed():
		return nil, refusedByRabbit(s.why())
	case !acked:
		return nil, &Refusal{Status: 503, Text: "the broker could not store the message"}
	}
	return Receipt{"exchange": m.Name, OptionRoute: route}, nil
}

func (d *rabbitDriver) Close() { d.session.close(endRabbit) }

// refusedByRabbit makes a refusal of an error of the broker. AMQP took its codes from HTTP.
func refusedByRabbit(err error) error {
	var answered *amqp.Error
	if !errors.As(err, &answered) || !answered.Server && answered.Code != amqp.AccessRefused {
		return err
	}
	status := 502
	switch answered.Code {
	case amqp.AccessRefused:
		status = 403
	case amqp.NotFound:
		status = 404
	case amqp.PreconditionFailed, amqp.ContentTooLarge: // the message is larger than the broker takes
		status = 413
	case amqp.ConnectionForced, amqp.ResourceError, amqp.InternalError, amqp.ResourceLocked:
		status = 503
	case amqp.NotAllowed, amqp.InvalidPath:
		status = 404
	}
	return &Refusal{Status: status, Text: answered.Reason, Broken: true}
}
