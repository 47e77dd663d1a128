//go:build full

package brokers

import (
	"context"
	"errors"
	"net"
	"regexp"
	"sync/atomic"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/grapnelhq/grapnel"
)

// A message counts as delivered when Pub/Sub has answered with its id. It is published by the API's
// generated client: the library above it gathers messages, repeats them, and stops a key whose
// message failed, all of which is the policy's to decide. The event's key is the ordering key.

var _ = register(Kind{
	Name: "pubsub", Plain: "http", Secure: "https", Port: "80", SecurePort: "443", What: "topic, as in projects/p/topics/t", ALPN: []string{"h2"},
	Check: func(t *grapnel.Target, p Place) *Fault {
		if !topicName.MatchString(t.Name) {
			return &Fault{"name", "must be a topic with its project, as in projects/p/topics/t"}
		}
		return checkServiceAccount(t, p)
	},
	Open: func(t *grapnel.Target, p Place, n Network) (Driver, error) { return newPubSub(t, p, n) },
})

var topicName = regexp.MustCompile(`^projects/[^/]+/topics/[^/]+$`)

func checkServiceAccount(t *grapnel.Target, p Place) *Fault {
	if p.Secure && t.Password.Text == "" {
		return &Fault{"password", "is required: the JSON text of a service account's key"}
	}
	if _, err := tokensOf(t); err != nil { // the library's error may quote the key
		return &Fault{"password", "must be the JSON text of a service account's key"}
	}
	return nil
}

func newPubSub(t *grapnel.Target, p Place, n Network) (*pubsubDriver, error) {
	tokens, err := tokensOf(t)
	return &pubsubDriver{target: t, place: p, network: n, tokens: tokens, session: newSession[pubsubSession]()}, err
}

// tokensOf signs tokens with the key itself, so no token server is asked. Nil: there is no key.
func tokensOf(t *grapnel.Target) (oauth2.TokenSource, error) {
	if t.Password.Text == "" {
		return nil, nil
	}
	return google.JWTAccessTokenSourceFromJSON([]byte(t.Password.Text), "https://pubsub.googleapis.com/")
}

type pubsubDriver struct {
	target  *grapnel.Target
	place   Place
	network Network
	tokens  oauth2.TokenSource
	session session[pubsubSession]
}

// pubsubSession is one connection. The library does not make another one for it.
type pubsubSession struct {
	conn *grpc.ClientConn
	raw  *heardConn
}

func (d *pubsubDriver) Connect(ctx context.Context) error {
	_, err := d.connected(ctx)
	return err
}

func (d *pubsubDriver) connected(ctx context.Context) (*pubsubSession, error) {
	return d.session.get(ctx, func(s *pubsubSession) bool { return s.raw.failure() == nil }, endPubSub, d.open)
}

func endPubSub(s *pubsubSession) {
	_ = s.conn.Close()
	_ = s.raw.Close()
}

func (d *pubsubDriver) open(ctx context.Context) (*pubsubSession, error) {
	c, err := d.network.Dial(ctx, d.place.Hosts[0])
	if err != nil {
		return nil, err
	}
	s := &pubsubSession{raw: &heardConn{Conn: c}}
	security := insecure.NewCredentials()
	if d.place.Secure {
		security = dialled{security}
	}
	once := make(chan net.Conn, 1)
	once <- s.raw
	s.conn, err = grpc.NewClient("passthrough:///"+d.place.Hosts[0], grpc.WithTransportCredentials(security), grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(), grpc.WithNoProxy(), grpc.WithIdleTimeout(0), grpc.WithUserAgent("grapnel"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(int(d.network.Answer))), grpc.WithMaxHeaderListSize(uint32(d.network.Answer)),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case c := <-once:
				return c, nil
			default:
				return nil, net.ErrClosed
			}
		}))
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	s.conn.Connect()
	for at := s.conn.GetState(); at != connectivity.Ready; at = s.conn.GetState() {
		if failed := at == connectivity.TransientFailure; failed || !s.conn.WaitForStateChange(ctx, at) {
			endPubSub(s)
			return nil, errors.Join(ctx.Err(), s.raw.failure(), errors.New("the server does not speak gRPC"))
		}
	}
	return s, nil
}

func (d *pubsubDriver) Send(ctx context.Context, m *Message) (Receipt, error) {
	is := &pubsubpb.PubsubMessage{Data: m.Body, Attributes: map[string]string{}, OrderingKey: m.Key}
	for _, h := range m.Headers {
		is.Attributes[h.Name] = h.Value
	}
	var out *pubsubpb.PublishResponse
	err := d.call(ctx, func(ctx context.Context, c *grpc.ClientConn) (err error) {
		out, err = pubsubpb.NewPublisherClient(c).Publish(ctx, &pubsubpb.PublishRequest{Topic: m.Name, Messages: []*pubsubpb.PubsubMessage{is}})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(out.MessageIds) != 1:
		return nil, errors.New("the answer has no id of the message")
	}
	return Receipt{"message": out.MessageIds[0]}, nil
}

// call makes a call of the API over the connection, with a token.
func (d *pubsubDriver) call(ctx context.Context, do func(context.Context, *grpc.ClientConn) error) error {
	s, err := d.connected(ctx)
	if err != nil {
		return err
	}
	if d.tokens != nil {
		token, err := d.tokens.Token()
		if err != nil {
			return &Refusal{Status: 401, Text: "the service account's key does not sign"}
		}
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token.AccessToken)
	}
	if err = do(ctx, s.conn); err != nil && s.raw.failure() != nil {
		return s.raw.failure()
	}
	return refusedByPubSub(err)
}

func (d *pubsubDriver) Close() { d.session.close(endPubSub) }

// ofCodes are the statuses of the codes of gRPC, as Google's own interface over HTTP has them, but
// for what would be read as our own cancelling or as the broker's confirmation being late.
var ofCodes = map[codes.Code]int{
	codes.InvalidArgument: 400, codes.FailedPrecondition: 400, codes.OutOfRange: 400, codes.Unauthenticated: 401, codes.PermissionDenied: 403,
	codes.NotFound: 404, codes.Aborted: 409, codes.AlreadyExists: 409, codes.ResourceExhausted: 429, codes.Unavailable: 503,
	codes.Internal: 503,
}

func refusedByPubSub(err error) error {
	is, answered := status.FromError(err)
	if err == nil || !answered {
		return err
	}
	r := &Refusal{Status: 502, Text: is.Code().String() + ": " + is.Message()}
	if s := ofCodes[is.Code()]; s != 0 {
		r.Status = s
	}
	return r
}

// dialled tells the library that Network.Dial has made the connection over TLS.
type dialled struct {
	credentials.TransportCredentials
}

func (dialled) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, credentials.TLSInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

func (dialled) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (d dialled) Clone() credentials.TransportCredentials { return d }

// heardConn keeps why a connection ended, which the library's errors do not say.
type heardConn struct {
	net.Conn
	failed atomic.Pointer[error]
}

func (c *heardConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (c *heardConn) failure() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}
