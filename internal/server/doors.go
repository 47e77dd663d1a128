package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
)

// door is an address at which the server listens.
type door struct {
	net.Listener
	serves func(path string) bool // nil: every path
}

// probed says whether a path is that of a probe, which every door answers, in the clear too: a load
// balancer asks it, and has no key.
func probed(path string) bool { return path == "/livez" || path == "/readyz" }

func ofIngest(path string) bool { return probed(path) || strings.HasPrefix(path, "/in/") }

func ofStatus(path string) bool {
	return probed(path) || path == "/status" || strings.HasPrefix(path, "/status/") || strings.HasPrefix(path, "/status.")
}

// doors are the addresses as one listener, so that one server and one limit of connections serve
// all of them.
type doors struct {
	all      []*door
	arrivals chan accepted
	done     chan struct{}
	open     sync.Once
	close    sync.Once
	mu       sync.Mutex     // nothing is added to running once done is closed
	running  sync.WaitGroup // the goroutines of Accept; Close waits for them
}

// Nowhere is the address of a server that listens at none: the program that it is part of answers
// requests with its Handler.
const Nowhere = "none"

// nowhere is the address of a listener that has none.
type nowhere struct{}

func (nowhere) Network() string { return "tcp" }
func (nowhere) String() string  { return Nowhere }

type accepted struct {
	conn net.Conn
	err  error
}

// entered is a connection with the door that it came through.
type entered struct {
	net.Conn
	door *door
}

type doorKey struct{}

// listenAll listens at the addresses of the options; the first is that of Options.Listen.
func listenAll(ctx context.Context, o *Options) (_ *doors, err error) {
	d := &doors{arrivals: make(chan accepted), done: make(chan struct{})}
	for _, at := range []struct {
		address string
		serves  func(string) bool
	}{{o.Listen, nil}, {o.ListenIngest, ofIngest}, {o.ListenStatus, ofStatus}, {o.Redirect, probed}} {
		if at.address == "" || at.address == Nowhere {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", at.address)
		if err != nil {
			_ = d.Close()
			return nil, &ListenError{at.address, err}
		}
		d.all = append(d.all, &door{l, at.serves})
	}
	return d, nil
}

// ListenError names the address that the server cannot listen at.
type ListenError struct {
	Address string
	err     error
}

func (e *ListenError) Error() string { return "cannot listen on " + e.Address + ": " + e.err.Error() }
func (e *ListenError) Unwrap() error { return e.err }

// Accept returns the next connection at any of the addresses.
func (d *doors) Accept() (net.Conn, error) {
	d.open.Do(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		select {
		case <-d.done:
			return
		default:
		}
		for _, at := range d.all {
			d.running.Go(func() { d.accept(at) })
		}
	})
	select {
	case a := <-d.arrivals:
		return a.conn, a.err
	case <-d.done:
		return nil, net.ErrClosed
	}
}

// accept passes on what a listener accepts, and its errors, until Close.
func (d *doors) accept(at *door) {
	for {
		c, err := at.Listener.Accept()
		a := accepted{err: err}
		if err == nil {
			a.conn = &entered{c, at}
		}
		select {
		case d.arrivals <- a:
		case <-d.done:
			if err == nil {
				_ = c.Close()
			}
			return
		}
	}
}

// Addr is the first address.
func (d *doors) Addr() net.Addr {
	if len(d.all) == 0 {
		return nowhere{}
	}
	return d.all[0].Addr()
}

// Close ends Accept.
func (d *doors) Close() (err error) {
	d.close.Do(func() {
		d.mu.Lock()
		close(d.done)
		d.mu.Unlock()
		for _, at := range d.all {
			err = errors.Join(err, at.Listener.Close())
		}
		d.running.Wait()
	})
	return err
}

// CloseWrite lets an http.Server end a connection without losing its answer.
func (c *entered) CloseWrite() error {
	if tcp, can := c.Conn.(interface{ CloseWrite() error }); can {
		return tcp.CloseWrite()
	}
	return nil
}

// throughDoor notes in the context of a connection's requests where it came in.
func throughDoor(ctx context.Context, c net.Conn) context.Context {
	if in, is := c.(*entered); is {
		return context.WithValue(ctx, doorKey{}, in.door)
	}
	return ctx
}

// admits says whether the door that a request came through serves its path.
func admits(r *http.Request) bool {
	at, is := r.Context().Value(doorKey{}).(*door)
	return !is || at.serves == nil || at.serves(r.URL.Path)
}
