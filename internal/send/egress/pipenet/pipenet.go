// Package pipenet is a network in memory: real HTTP clients and servers talk over net.Pipe, so that
// package testing/synctest can run days of their schedule in milliseconds. Deadlines of pipes are
// timers and obey a fake clock, unlike those of sockets.
//
// A host is "name:port" or a name alone, which takes every port. Make a network, and everything
// that uses it, inside the bubble.
//
// It promises order and nothing lost on a connection. It does not imitate a kernel: writes wait for
// their reader, and there is neither delay nor resolution of names.
package pipenet

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
)

// Network are the hosts that can be dialled. New makes one; the caller closes it.
type Network struct {
	mu     sync.Mutex
	hosts  map[string]*host
	dials  map[string]int
	served sync.WaitGroup
}

type host struct {
	accept chan net.Conn
	done   chan struct{}
	once   sync.Once
	addr   address
	fault  func() error
}

// New makes a network without hosts.
func New() *Network { return &Network{hosts: map[string]*host{}, dials: map[string]int{}} }

// Listen opens a host. Closing the listener makes it refuse connections again.
func (n *Network) Listen(name string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := &host{accept: make(chan net.Conn), done: make(chan struct{}), addr: address(name)}
	if old := n.hosts[name]; old != nil {
		h.fault = old.fault
	}
	n.hosts[name] = h
	return h
}

// Handle serves HTTP at a host until the network is closed.
func (n *Network) Handle(name string, handler http.Handler) {
	l := n.Listen(name)
	server := &http.Server{Handler: handler} //nolint:gosec // a test's server has no slow strangers
	n.served.Go(func() { _ = server.Serve(l) })
	n.served.Go(func() {
		<-l.(*host).done
		_ = server.Close()
	})
}

// Fail makes dials to a host call the function first: its error is the dial's. nil removes it.
func (n *Network) Fail(name string, fault func() error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		h = &host{done: make(chan struct{}), addr: address(name)}
		h.once.Do(func() { close(h.done) })
		n.hosts[name] = h
	}
	h.fault = fault
}

// Dial connects to a host; it has the form of net.Dialer.DialContext.
func (n *Network) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	name, _, _ := net.SplitHostPort(addr)
	h := n.hosts[addr]
	if h == nil {
		h = n.hosts[name]
	}
	n.dials[name]++
	var fault func() error
	if h != nil {
		fault = h.fault
	}
	n.mu.Unlock()
	if fault != nil {
		if err := fault(); err != nil {
			return nil, err
		}
	}
	refused := &net.OpError{Op: "dial", Net: network, Addr: address(addr), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if h == nil || h.accept == nil {
		return nil, refused
	}
	client, server := net.Pipe()
	select {
	case h.accept <- server:
		return client, nil
	case <-h.done:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Dials is the number of dials to a host (a name without port).
func (n *Network) Dials(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[name]
}

// Close closes every host, and with them the servers and connections of Handle, and waits for them.
func (n *Network) Close() {
	n.mu.Lock()
	for _, h := range n.hosts {
		_ = h.Close()
	}
	n.mu.Unlock()
	n.served.Wait()
}

func (h *host) Accept() (net.Conn, error) {
	select {
	case c := <-h.accept:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

func (h *host) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

func (h *host) Addr() net.Addr { return h.addr }

type address string

func (address) Network() string  { return "pipe" }
func (a address) String() string { return string(a) }
