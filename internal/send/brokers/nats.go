package brokers

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/grapnelhq/grapnel"
)

// A message goes to a subject that a stream of JetStream has, and counts as delivered when the
// stream has stored it. The stream drops a message whose Nats-Msg-Id it has stored within its
// duplicate window.

var _ = register(Kind{
	Name: "nats", Plain: "nats", Secure: "tls", Port: "4222", Many: true, What: "subject", Filled: true,
	Options: []Option{{Name: "stream"}}, // the stream that must take the subject; none: whichever does
	Check: func(t *grapnel.Target, _ Place) *Fault {
		if !literal(t.Name) {
			return &Fault{"name", "must be a subject without wildcards and empty parts, as in invoices.paid"}
		}
		return nil
	},
	Open: func(t *grapnel.Target, p Place, n Network) (Driver, error) {
		return &natsDriver{target: t, place: p, network: n, session: newSession[natsSession]()}, nil
	},
})

// literal says whether a subject has no wildcard and no empty part.
func literal(subject string) bool {
	return !strings.ContainsAny(subject, "*> ") && !strings.Contains("."+subject+".", "..")
}

type natsDriver struct {
	target  *grapnel.Target
	place   Place
	network Network
	session session[natsSession]
}

type natsSession struct {
	conn   *nats.Conn
	stream jetstream.JetStream
}

func (d *natsDriver) Connect(ctx context.Context) error {
	_, err := d.connected(ctx)
	return err
}

func (d *natsDriver) connected(ctx context.Context) (*natsSession, error) {
	return d.session.get(ctx, func(s *natsSession) bool { return s.conn.IsConnected() }, endNATS, d.open)
}

func endNATS(s *natsSession) { s.conn.Close() }

// open connects without the library's reconnecting: the next attempt does it.
func (d *natsDriver) open(ctx context.Context) (*natsSession, error) {
	deadline, _ := ctx.Deadline()
	dialer := &natsDialer{ctx: ctx, network: d.network}
	options := []nats.Option{
		nats.Name("grapnel"), nats.NoReconnect(), nats.NoEcho(), nats.IgnoreDiscoveredServers(), nats.SetCustomDialer(dialer),
		nats.Timeout(max(time.Until(deadline), time.Millisecond)), nats.PingInterval(20 * time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // else it writes to stderr
	}
	scheme := "nats://"
	if d.network.TLS != nil {
		scheme = "tls://"
		options = append(options, nats.Secure(d.network.TLS))
	}
	switch password := d.target.Password.Text; {
	case strings.Contains(password, "BEGIN NATS USER JWT"):
		options = append(options, nats.UserCredentialBytes([]byte(password)))
	case d.target.Username != "":
		options = append(options, nats.UserInfo(d.target.Username, password))
	case password != "":
		options = append(options, nats.Token(password))
	}
	conn, err := nats.Connect(scheme+strings.Join(d.place.Hosts, ","+scheme), options...)
	if err != nil {
		return nil, refusedByNATS(err)
	}
	stream, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &natsSession{conn, stream}, nil
}

// natsDialer dials for one call of nats.Connect, whose dialers get no context.
type natsDialer struct {
	ctx     context.Context
	network Network
}

// Dial is called with the host that the operator wrote, see SkipHostLookup.
func (d *natsDialer) Dial(_, address string) (net.Conn, error) { return d.network.Bare(d.ctx, address) }

// SkipHostLookup leaves names to Dial, which checks their addresses.
func (d *natsDialer) SkipHostLookup() bool { return true }

func (d *natsDriver) Send(ctx context.Context, m *Message) (Receipt, error) {
	s, err := d.connected(ctx)
	if err != nil {
		return nil, err
	}
	if !literal(m.Name) { // a placeholder's value made it so
		return nil, &Refusal{Status: 400, Text: "the subject of this event has a wildcard or an empty part"}
	}
	msg := &nats.Msg{Subject: m.Name, Data: m.Body, Header: nats.Header{}}
	for _, h := range m.Headers {
		msg.Header[h.Name] = []string{h.Value}
	}
	options := []jetstream.PublishOpt{jetstream.WithMsgID(m.ID), jetstream.WithRetryAttempts(0)}
	if name := d.target.Options["stream"]; name != "" {
		options = append(options, jetstream.WithExpectStream(name))
	}
	ack, err := s.stream.PublishMsg(ctx, msg, options...)
	if err != nil {
		// a server reports a missing permission on the side, and answers the publish with nothing
		if last := s.conn.LastError(); last != nil && ctx.Err() != nil && errors.Is(last, nats.ErrPermissionViolation) {
			err = last
		}
		return nil, refusedByNATS(err)
	}
	receipt := Receipt{"stream": ack.Stream, "sequence": strconv.FormatUint(ack.Sequence, 10)}
	if ack.Duplicate {
		receipt["duplicate"] = "true"
	}
	return receipt, nil
}

func (d *natsDriver) Close() { d.session.close(endNATS) }

// refusedByNATS makes a refusal of an error that the server answered. JetStream has the statuses of
// HTTP.
func refusedByNATS(err error) error {
	var api jetstream.JetStreamError
	switch {
	case errors.As(err, &api) && api.APIError() != nil:
		status := api.APIError().Code
		if status < 400 || status > 599 || status == 410 {
			status = 502
		}
		return &Refusal{Status: status, Text: api.APIError().Description}
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return &Refusal{Status: 404, Text: "no stream takes the subject"}
	case errors.Is(err, nats.ErrMaxPayload):
		return &Refusal{Status: 413, Text: "the message is larger than the server takes"}
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return &Refusal{Status: 401, Text: "the server refuses the credentials"}
	case errors.Is(err, nats.ErrPermissionViolation):
		return &Refusal{Status: 403, Text: "the user may not publish to the subject"}
	case errors.Is(err, nats.ErrBadSubject):
		return &Refusal{Status: 400, Text: "the subject is not valid for this event"}
	}
	return err
}
