package pgtest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy stands between a client and a server, and plays a bad network. It understands just enough
// of the protocol to know which statement an answer is for.
//
//	Cut, Reset    connections end, by FIN or by RST; new ones may be refused
//	Freeze        connections stay open and carry nothing any more, for good; new ones work
//	Blackhole     the same, for new connections as well until it is healed
//	Stall         all traffic is held back, and arrives late
//	Latency       every piece is delayed by the same time
//	Mute          requests arrive and answers do not; when that ends, so do the connections that lost one
//	LoseNext      one answer is lost, and its connection ends
//	Point         new connections go to another server, as when a virtual address moves
type Proxy struct {
	listener net.Listener
	target   atomic.Pointer[Server]
	plain    string // the address of a server of another protocol, whose answers pass in any pieces; empty: PostgreSQL
	lose     atomic.Pointer[string]
	refuse   atomic.Bool
	swallow  atomic.Bool // new connections are frozen from their beginning
	mute     atomic.Bool
	delay    atomic.Int64
	Lost     atomic.Int64 // number of lost answers

	mu    sync.Mutex
	links map[*link]bool
	gate  chan struct{} // closed: pieces may pass
	all   sync.WaitGroup
}

// link is one connection of a client, with its connection to the server.
type link struct {
	client, server net.Conn // server is nil for a connection that was frozen from its beginning
	frozen, ended  chan struct{}
	freezing       sync.Once
	ending         sync.Once
	lossy          atomic.Bool // an answer was thrown away
}

// piece is a part of the traffic, and when it may arrive.
type piece struct {
	bytes []byte
	due   time.Time
}

// NewProxy starts a proxy; Close ends it.
func (s *Server) NewProxy() (*Proxy, error) {
	p, err := newProxy("")
	if err == nil {
		p.target.Store(s)
		p.all.Go(p.accept)
	}
	return p, err
}

// NewRelay starts a proxy in front of a server of another protocol. Only LoseNext and Point need
// PostgreSQL.
func NewRelay(addr string) (*Proxy, error) {
	p, err := newProxy(addr)
	if err == nil {
		p.all.Go(p.accept)
	}
	return p, err
}

func newProxy(plain string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening takes no time
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, plain: plain, links: make(map[*link]bool), gate: make(chan struct{})}
	close(p.gate)
	return p, nil
}

// Addr is the proxy's address, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL is the address of a database through the proxy.
func (p *Proxy) URL(database string) string { return URL(database, p) }

// URL is the address of a database at the writable one of several servers, each through its proxy.
func URL(database string, proxies ...*Proxy) string {
	var hosts []string
	for _, p := range proxies {
		hosts = append(hosts, p.Addr())
	}
	settings := url.Values{"sslmode": {"disable"}}
	if len(hosts) > 1 {
		settings.Set("target_session_attrs", "read-write")
	}
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: strings.Join(hosts, ","), Path: "/" + database,
		RawQuery: settings.Encode()}
	return u.String()
}

// LoseNext cuts the connection that carries the next answer to a statement, such as COMMIT or
// BEGIN, instead of passing the answer on.
func (p *Proxy) LoseNext(statement string) { p.lose.Store(&statement) }

// Point sends new connections to another server. Existing ones stay.
func (p *Proxy) Point(to *Server) { p.target.Store(to) }

// Target is the server of new connections.
func (p *Proxy) Target() *Server { return p.target.Load() }

// Cut ends all connections, and with refuse also new ones.
func (p *Proxy) Cut(refuse bool) {
	p.refuse.Store(refuse)
	p.each(func(l *link) { l.end(false) })
}

// CutSome ends some of the connections that are not frozen, and returns their number. A connection
// that ended before stays in links for a moment, and does not count.
func (p *Proxy) CutSome(most int) (cut int) {
	p.each(func(l *link) {
		if cut < most && !closed(l.frozen) && !closed(l.ended) {
			cut++
			l.end(false)
		}
	})
	return cut
}

// Reset ends all connections with RST on both sides: bytes in flight are lost.
func (p *Proxy) Reset() { p.each(func(l *link) { l.end(true) }) }

// Freeze leaves all connections open and carries nothing through them any more, in either direction
// and for good. The server does not learn when the client closes one, nor the reverse.
func (p *Proxy) Freeze() { p.each((*link).freeze) }

// Blackhole freezes all connections, and new ones too until it is called with false. The frozen
// ones stay frozen.
func (p *Proxy) Blackhole(on bool) {
	p.swallow.Store(on)
	if on {
		p.Freeze()
	}
}

// Stall holds all traffic back until it is called with false. No byte is lost.
func (p *Proxy) Stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && closed(p.gate):
		p.gate = make(chan struct{})
	case !on && !closed(p.gate):
		close(p.gate)
	}
}

// Latency delays each direction by d.
func (p *Proxy) Latency(d time.Duration) { p.delay.Store(int64(d)) }

// Mute discards answers. Called with false, it resets the connections that lost one.
func (p *Proxy) Mute(on bool) {
	p.mute.Store(on)
	if on {
		return
	}
	p.each(func(l *link) {
		if l.lossy.Load() {
			l.end(true)
		}
	})
}

// Close ends the proxy and waits for its goroutines.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Cut(true)
	p.all.Wait()
	return err
}

func (p *Proxy) each(do func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		do(l)
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if p.refuse.Load() {
			_ = client.Close()
			continue
		}
		l := &link{client: client, frozen: make(chan struct{}), ended: make(chan struct{})}
		if !p.swallow.Load() {
			l.server, err = p.dial()
			if err != nil {
				_ = client.Close()
				continue
			}
		}
		p.mu.Lock()
		p.links[l] = true
		p.mu.Unlock()
		// A fault that began since the checks above did not include this link.
		if l.server == nil || p.swallow.Load() {
			l.freeze()
		}
		if p.refuse.Load() {
			l.end(false)
		}
		p.serve(l)
	}
}

// dial connects to the server.
func (p *Proxy) dial() (net.Conn, error) {
	if p.plain != "" {
		return net.Dial("tcp", p.plain) //nolint:noctx // it is on loopback: it listens or it does not
	}
	return net.Dial("unix", filepath.Join(p.target.Load().dir, ".s.PGSQL.5432")) //nolint:noctx // it exists or it does not
}

// serve passes bytes on in both directions until the link ends.
func (p *Proxy) serve(l *link) {
	p.all.Go(func() {
		<-l.ended
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
	if l.server == nil {
		return
	}
	p.pump(l, l.server, raw(l.client))
	if p.plain != "" {
		p.pump(l, l.client, raw(l.server))
		return
	}
	answers := bufio.NewReaderSize(l.server, 32<<10)
	p.pump(l, l.client, func() ([]byte, error) { return p.answer(l, answers) })
}

// raw reads whatever arrives.
func raw(from io.Reader) func() ([]byte, error) {
	buffer := make([]byte, 32<<10)
	return func() ([]byte, error) {
		n, err := from.Read(buffer)
		return bytes.Clone(buffer[:n]), err
	}
}

// pump passes on each piece from next when it may pass. A link with one closed side ends, unless it
// is frozen.
func (p *Proxy) pump(l *link, to io.Writer, next func() ([]byte, error)) {
	pieces := make(chan piece, 256)
	p.all.Go(func() {
		defer close(pieces)
		for {
			b, err := next()
			if len(b) > 0 {
				select {
				case pieces <- piece{b, time.Now().Add(time.Duration(p.delay.Load()))}:
				case <-l.ended:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	p.all.Go(func() {
		for x := range pieces {
			p.await(l, x.due)
			if closed(l.frozen) || closed(l.ended) {
				break
			}
			if _, err := to.Write(x.bytes); err != nil {
				break
			}
		}
		if closed(l.frozen) {
			<-l.ended
		}
		l.end(false)
	})
}

// await returns when a piece may pass, or when the link has ended.
func (p *Proxy) await(l *link, due time.Time) {
	if wait := time.Until(due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.frozen:
		case <-l.ended:
		}
	}
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	select {
	case <-gate:
	case <-l.frozen:
	case <-l.ended:
	}
}

var errLost = errors.New("the answer is to be lost")

// answer reads one message of the server: a letter, a length that includes itself, and the rest.
func (p *Proxy) answer(l *link, server io.Reader) ([]byte, error) {
	message := make([]byte, 5)
	if _, err := io.ReadFull(server, message); err != nil {
		return nil, err
	}
	message = append(message, make([]byte, binary.BigEndian.Uint32(message[1:])-4)...)
	if _, err := io.ReadFull(server, message[5:]); err != nil {
		return nil, err
	}
	statement := strings.TrimSuffix(string(message[5:]), "\x00")
	if lose := p.lose.Load(); message[0] == 'C' && lose != nil && statement == *lose && p.lose.CompareAndSwap(lose, nil) {
		p.Lost.Add(1)
		return nil, errLost
	}
	if p.mute.Load() {
		l.lossy.Store(true)
		if message[0] == 'C' {
			p.Lost.Add(1)
		}
		if !p.mute.Load() { // Mute(false) may have checked this link before it was lossy
			return nil, errLost
		}
		return nil, nil
	}
	return message, nil
}

func (l *link) freeze() { l.freezing.Do(func() { close(l.frozen) }) }

// end closes both sides, with RST if reset is set.
func (l *link) end(reset bool) {
	l.ending.Do(func() {
		close(l.ended)
		for _, conn := range []net.Conn{l.client, l.server} {
			if tcp, ok := conn.(*net.TCPConn); ok && reset {
				_ = tcp.SetLinger(0)
			}
			if conn != nil {
				_ = conn.Close()
			}
		}
	})
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
