package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/brokers"
	"github.com/grapnelhq/grapnel/policy"
)

// A link is the connection of one endpoint to its broker: a driver, and the sockets that it has
// made. Links are few, in all and of each tenant. A further one takes the place of the link that is
// idle for the longest; if none is idle the attempt is postponed. A link ends when it is idle for
// long, when its endpoint changes, and with its route, so that changes of DNS and of the guard's
// rules take effect.

// take returns the link of a route, and whether it is a new one. The caller gives it back.
func (t *links) take(s *Sender, r *route) (l *link, fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l = r.link; l != nil {
		l.users++
		return l, false, nil
	}
	if l, err = t.add(s, r); err != nil {
		return nil, false, err
	}
	if l.driver, err = r.broker.kind.Open(r.broker.target, r.broker.place, l.network()); err != nil {
		t.remove(l)
		return nil, false, err
	}
	r.link = l
	return l, true, nil
}

// add counts a further link, which has a user and no driver yet. t.mu is held.
func (t *links) add(s *Sender, r *route) (*link, error) {
	tenant := r.endpoint.Tenant
	if t.of[tenant] >= s.bounds.BrokerTenant && !t.evict(func(l *link) bool { return l.route.endpoint.Tenant == tenant }) {
		return nil, errors.New("the tenant uses all the connections to brokers that a tenant may have")
	}
	if len(t.open) >= s.bounds.BrokerLinks && !t.evict(func(*link) bool { return true }) {
		return nil, errors.New("all connections to brokers are in use")
	}
	l := &link{sender: s, route: r, users: 1, sockets: map[*wired]struct{}{}}
	t.open[l] = struct{}{}
	t.of[tenant]++
	return l, nil
}

// remove counts a link no more. t.mu is held.
func (t *links) remove(l *link) {
	delete(t.open, l)
	tenant := l.route.endpoint.Tenant
	if t.of[tenant]--; t.of[tenant] == 0 {
		delete(t.of, tenant)
	}
}

// lend adds a link for a consumer, which has it until release.
func (t *links) lend(s *Sender, r *route, budget int64) (*link, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errors.New("the server is ending")
	}
	l, err := t.add(s, r)
	if err == nil {
		l.budget = new(atomic.Int64)
		l.budget.Store(budget)
	}
	return l, err
}

// release takes a link back that was lent. Its sockets are closed.
func (t *links) release(l *link) {
	l.cut()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(l)
}

// network is how the driver of a link connects.
func (l *link) network() brokers.Network {
	b := &l.sender.bounds
	return brokers.Network{TLS: l.route.tls, Conns: b.BrokerConns, Answer: b.BrokerAnswer, Batch: b.BrokerBatch,
		Dial: func(ctx context.Context, at string) (net.Conn, error) { return l.dial(ctx, at, l.route.tls) },
		Bare: func(ctx context.Context, at string) (net.Conn, error) { return l.dial(ctx, at, nil) },
	}
}

// give takes a link back from a send. A spoiled one serves no other send.
func (t *links) give(l *link, idle time.Duration, spoiled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.users--
	l.idleSince = time.Now()
	if spoiled {
		t.retire(l)
	} else if l.retired {
		t.end(l)
	}
	if t.sweep == nil && len(t.open) > 0 {
		t.sweep = time.AfterFunc(idle, func() { t.expire(idle) })
	}
}

// expire ends the links that were idle for too long.
func (t *links) expire(idle time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep = nil
	for l := range t.open {
		if l.users == 0 && time.Since(l.idleSince) >= idle {
			t.retire(l)
		}
	}
	if len(t.open) > 0 && !t.closed {
		t.sweep = time.AfterFunc(idle, func() { t.expire(idle) })
	}
}

// evict ends the link that is idle for the longest; false: none is idle.
func (t *links) evict(which func(*link) bool) bool {
	var oldest *link
	for l := range t.open {
		if l.users == 0 && which(l) && (oldest == nil || l.idleSince.Before(oldest.idleSince)) {
			oldest = l
		}
	}
	if oldest == nil {
		return false
	}
	t.retire(oldest)
	return true
}

// drop retires the link of a route that is not used any more.
func (t *links) drop(r *route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.link != nil {
		t.retire(r.link)
	}
}

// retire lets no further send take the link. It ends with the last send that has it.
func (t *links) retire(l *link) {
	if l.route.link == l {
		l.route.link = nil
	}
	l.retired = true
	t.end(l)
}

// end closes the driver of a retired link that no send has. A driver says goodbye to its broker, so
// it is closed by a goroutine of its own; close waits for it.
func (t *links) end(l *link) {
	if _, open := t.open[l]; !open || l.users > 0 {
		return
	}
	t.remove(l)
	t.ending.Go(func() {
		late := time.AfterFunc(l.sender.bounds.BrokerEnd, l.cut)
		defer late.Stop()
		l.driver.Close()
		l.cut()
	})
}

// close ends all links and waits for them. No send runs any more.
func (t *links) close() {
	t.mu.Lock()
	t.closed = true
	if t.sweep != nil {
		t.sweep.Stop()
		t.sweep = nil
	}
	for l := range t.open {
		if l.budget == nil { // else its consumer has it
			t.retire(l)
		}
	}
	t.mu.Unlock()
	t.ending.Wait()
}

// dial makes a socket to an address of the broker, guarded as one to a receiver: by the route's
// proxies, and by the rules of now. The broker may have named the address itself, as those of Kafka
// do.
func (l *link) dial(ctx context.Context, address string, secure *tls.Config) (_ net.Conn, err error) {
	s, r := l.sender, l.route
	a := &attempt{sender: s, start: s.opts.Now(), deadline: time.Now().Add(r.timeout)}
	if by, has := ctx.Deadline(); has && by.Before(a.deadline) {
		a.deadline = by
	}
	ctx, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	defer func() { l.dialled(a, err) }()
	raw, err := s.connect(ctx, r.via, address, a)
	if err != nil {
		return nil, err
	}
	w, err := l.track(raw)
	if err != nil {
		return nil, err
	}
	a.peer = peerOf(raw, nil)
	if secure == nil {
		return w, nil
	}
	config := secure.Clone()
	if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
		_ = w.Close()
		return nil, errBlocked
	}
	start := s.opts.Now()
	c := tls.Client(w, config)
	err = c.HandshakeContext(ctx)
	a.tls = s.opts.Now().Sub(start)
	if err != nil {
		a.peer = peerOf(raw, refused(err))
		_ = w.Close()
		return nil, &dialError{class: policy.ClassTLS, text: tlsText(err), err: err}
	}
	a.peer = peerOf(raw, c.ConnectionState().PeerCertificates)
	return c, nil
}

// dialled notes how the last dial went. A dial that the driver has cancelled says nothing about the
// broker: a library that gives up cancels the dials that it made in parallel, and the failure that
// made it give up is the one to report.
func (l *link) dialled(a *attempt, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed, l.last = err, a
}

// failure is why the last dial failed; nil: it did not.
func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// timed gives an attempt the durations of the last dial.
func (l *link) timed(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil {
		a.dns, a.connect, a.tls = l.last.dns, l.last.connect, l.last.tls
	}
}

func (l *link) peerNow() (p grapnel.Peer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil {
		p = l.last.peer
	}
	return p
}

// track makes a socket one of the link's, unless the link has as many as it may.
func (l *link) track(raw net.Conn) (*wired, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sockets) >= l.sender.bounds.BrokerConns {
		_ = raw.Close()
		return nil, &dialError{class: policy.ClassInternal, text: "the endpoint uses all the connections to its broker that it may have"}
	}
	w := &wired{Conn: raw, link: l}
	l.sockets[w] = struct{}{}
	l.sender.counters.dialed.Add(1)
	l.sender.counters.open.Add(1)
	return w, nil
}

// cut closes the sockets of a link whose driver does not come to an end, or has come to it.
func (l *link) cut() {
	l.mu.Lock()
	all := make([]*wired, 0, len(l.sockets))
	for w := range l.sockets {
		all = append(all, w)
	}
	l.mu.Unlock()
	for _, w := range all {
		_ = w.Close()
	}
}

// Read counts the bytes that a consumer gets. Its link has none left beyond its budget.
func (w *wired) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.link.budget != nil && w.link.budget.Add(int64(-n)) < 0 {
		return 0, brokers.ErrTooMuch
	}
	return n, err
}

// Close closes the socket; only the first call counts.
func (w *wired) Close() error {
	err := w.Conn.Close()
	w.link.mu.Lock()
	defer w.link.mu.Unlock()
	if _, open := w.link.sockets[w]; open {
		delete(w.link.sockets, w)
		w.link.sender.counters.open.Add(-1)
	}
	return err
}
