//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// sink receives deliveries, counts them and, on request, records how long each took.
type sink struct {
	received atomic.Int64
	timing   atomic.Bool

	mu   sync.Mutex
	took []time.Duration
}

func newSink() verbs {
	s := &sink{}
	return verbs{
		"listen": taking(func(pause time.Duration) (string, error) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return "", err
			}
			go receive(listener, func(body []byte) {
				backoff.Wait(nil, pause) // as a receiver that works
				s.take(body)
			})
			return listener.Addr().String(), nil
		}),
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

// receive answers every request once take has had its body, until the process ends with its
// orchestrator.
func receive(listener net.Listener, take func(body []byte)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			m := newMessage(conn)
			for m.read() == nil {
				take(m.body)
				if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
					return
				}
			}
		}()
	}
}

func (s *sink) take(body []byte) {
	now, events := time.Now(), 1
	if bytes.HasPrefix(body, []byte("[")) {
		events = max(1, bytes.Count(body, []byte(sentMark)))
	}
	s.received.Add(int64(events))
	for ; events > 0 && s.timing.Load(); events-- {
		s.note(body, now)
		_, body, _ = bytes.Cut(body, []byte(sentMark))
	}
}

// sentMark precedes the time at which an event should have been sent, in its data.
const sentMark = `"sent":`

func (s *sink) note(body []byte, now time.Time) {
	sent, err := numberAfter(sentMark, body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, now.Sub(time.Unix(0, sent)))
}

var errNoNumber = errors.New("the body has no number")

// numberAfter reads the number between a mark and a comma.
func numberAfter(mark string, body []byte) (int64, error) {
	_, rest, found := bytes.Cut(body, []byte(mark))
	if !found {
		return 0, errNoNumber
	}
	digits, _, _ := bytes.Cut(rest, []byte(","))
	return strconv.ParseInt(string(digits), 10, 64)
}
