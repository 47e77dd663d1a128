//go:build full

package brokers

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// overHTTP is the way to a broker whose API is HTTP. It goes to the address of the target and
// nowhere else, follows no redirect, and repeats no request whose first byte was written.
type overHTTP struct {
	client  *http.Client
	base    string // "https://host", without the usual port
	at      string
	network Network
	first   session[struct{}]
	made    chan net.Conn // the connection of Connect, until a request takes it
	closing context.Context
	close   context.CancelFunc
}

func newHTTP(p Place, n Network) *overHTTP {
	h := &overHTTP{at: p.Hosts[0], network: n, first: newSession[struct{}](), made: make(chan net.Conn, 1)}
	h.base = "http://" + strings.TrimSuffix(h.at, ":80")
	if p.Secure {
		h.base = "https://" + strings.TrimSuffix(h.at, ":443")
	}
	h.closing, h.close = context.WithCancel(context.Background())
	h.client = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: shortAnswers{n.Answer, &http.Transport{DialContext: h.dial, DialTLSContext: h.dial,
			MaxConnsPerHost: n.Conns, MaxIdleConnsPerHost: n.Conns,
			IdleConnTimeout: 15 * time.Second, MaxResponseHeaderBytes: n.Answer, DisableCompression: true}},
	}
	return h
}

// Connect makes the first connection, so that a failure to reach the broker is found before a
// message is written. Requests make those that follow.
func (h *overHTTP) Connect(ctx context.Context) error {
	_, err := h.first.get(ctx, func(*struct{}) bool { return true }, func(*struct{}) {}, func(ctx context.Context) (*struct{}, error) {
		c, err := h.network.Dial(ctx, h.at)
		if err != nil {
			return nil, err
		}
		h.made <- c // has room, because this succeeds once
		return &struct{}{}, nil
	})
	return err
}

// dial is called by the transport, which lets a dial go on after its request has ended.
func (h *overHTTP) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if address != h.at {
		return nil, errors.New("the request is for another host than the target's")
	}
	select {
	case c := <-h.made:
		return c, nil
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)()
	return h.network.Dial(ctx, address)
}

// Close closes the connections. No request is under way.
func (h *overHTTP) Close() {
	h.close()
	h.client.CloseIdleConnections()
	select {
	case c := <-h.made:
		_ = c.Close()
	default:
	}
}

// shortAnswers bounds the bodies of answers: reading a longer one fails with *http.MaxBytesError. A
// refusal is cut: its status says enough.
type shortAnswers struct {
	most int64
	*http.Transport
}

func (s shortAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.Transport.RoundTrip(r)
	switch {
	case err != nil:
	case answer.StatusCode < http.StatusMultipleChoices:
		answer.Body = http.MaxBytesReader(nil, answer.Body, s.most)
	default:
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, s.most), answer.Body}
	}
	return answer, err
}
