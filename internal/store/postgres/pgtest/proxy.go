package pgtest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// Proxy stands between a client and a server and loses what it is told to lose. It understands the protocol just enough to know which
// statement an answer is for.
type Proxy struct {
	server   *Server
	listener net.Listener
	lose     atomic.Pointer[string]
	deaf     atomic.Bool
	Lost     atomic.Int64 // how many answers it has lost

	mu    sync.Mutex
	conns map[net.Conn]bool
	all   sync.WaitGroup
}

// NewProxy starts one; Close ends it.
func (s *Server) NewProxy() (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // listening takes no time
	if err != nil {
		return nil, err
	}
	p := &Proxy{server: s, listener: listener, conns: make(map[net.Conn]bool)}
	p.all.Go(p.accept)
	return p, nil
}

// URL is how one connects to a database through the proxy.
func (p *Proxy) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: p.listener.Addr().String(), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// LoseNext cuts the connection on which the next answer to a statement comes, such as COMMIT or BEGIN, instead of passing it on.
func (p *Proxy) LoseNext(statement string) { p.lose.Store(&statement) }

// Cut cuts all connections, and refuses new ones if it is told to.
func (p *Proxy) Cut(refuse bool) {
	p.deaf.Store(refuse)
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Close ends the proxy and waits until nothing of it is left.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Cut(true)
	p.all.Wait()
	return err
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
		if p.deaf.Load() {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("unix", filepath.Join(p.server.dir, ".s.PGSQL.5432")) //nolint:noctx // it is there or it is not
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		end := func() {
			_ = client.Close()
			_ = server.Close()
			p.mu.Lock()
			delete(p.conns, client)
			delete(p.conns, server)
			p.mu.Unlock()
		}
		p.all.Go(func() {
			defer end()
			_, _ = io.Copy(server, client)
		})
		p.all.Go(func() {
			defer end()
			p.answer(client, server)
		})
	}
}

// answer passes on what the server says, message by message: a letter, a length that includes itself, and the rest.
func (p *Proxy) answer(client io.Writer, server io.Reader) {
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		if lose := p.lose.Load(); head[0] == 'C' && lose != nil && strings.TrimSuffix(string(body), "\x00") == *lose && p.lose.CompareAndSwap(lose, nil) {
			p.Lost.Add(1)
			return
		}
		if _, err := client.Write(append(append([]byte{}, head...), body...)); err != nil {
			return
		}
	}
}
