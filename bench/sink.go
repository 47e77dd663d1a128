//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// sink receives deliveries, counts them and, on request, records how long each took.
type sink struct {
	listener net.Listener
	received atomic.Int64
	timing   atomic.Bool

	mu   sync.Mutex
	took []time.Duration
}

func newSink() verbs {
	s := &sink{}
	return verbs{
		"listen": func(json.RawMessage) (any, error) {
			var err error
			if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				return nil, err
			}
			go s.accept()
			return s.listener.Addr().String(), nil
		},
		"received": func(json.RawMessage) (any, error) { return s.received.Load(), nil },
		"time": func(json.RawMessage) (any, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.took = nil
			s.timing.Store(true)
			return nil, nil
		},
		"times": func(json.RawMessage) (any, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.timing.Store(false)
			return s.took, nil
		},
	}
}

// accept serves until the process ends with its orchestrator.
func (s *sink) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.serve(conn)
	}
}

func (s *sink) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	m := newMessage(conn)
	for m.read() == nil {
		s.received.Add(1)
		if s.timing.Load() {
			s.note(m.body, time.Now())
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// sentMark precedes the time at which an event should have been sent, in its data.
const sentMark = `"sent":`

func (s *sink) note(body []byte, now time.Time) {
	_, rest, found := bytes.Cut(body, []byte(sentMark))
	if !found {
		return
	}
	digits, _, _ := bytes.Cut(rest, []byte(","))
	sent, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, now.Sub(time.Unix(0, sent)))
}
