//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"
)

// receivers is the receivers of many endpoints. They refuse connections until they are opened, and
// then accept everything. Each delivery has a number, and the receivers count each number once.
type receivers struct {
	addresses []string

	mu     sync.Mutex
	opened time.Time
	seen   []bool // by number
	count  receiversCount
}

// receiversCount counts requests.
type receiversCount struct {
	Distinct int           // numbers
	Repeated int           // requests with a number that had arrived before
	Strange  int           // requests without a number, or with one that was not ordered
	Took     time.Duration // from the opening to the last new number
}

// receiversOrder is the orchestrator's order to the receivers.
type receiversOrder struct {
	Hosts   int // of separate addresses
	Numbers int // of deliveries, from 0
}

// receiversNet has no other address of this benchmark, so a port stays free while its host is down.
const receiversNet = "127.0.78."

func newReceivers() verbs {
	c := &receivers{}
	return verbs{
		"reserve": taking(c.reserve),
		"open":    c.open,
		"count": func(json.RawMessage) (any, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.count, nil
		},
	}
}

// reserve chooses the addresses.
func (c *receivers) reserve(o receiversOrder) ([]string, error) {
	c.seen = make([]bool, o.Numbers)
	for n := range o.Hosts {
		listener, err := net.Listen("tcp", fmt.Sprintf("%s%d:0", receiversNet, n+1))
		if err != nil {
			return nil, err
		}
		c.addresses = append(c.addresses, listener.Addr().String())
		if err := listener.Close(); err != nil {
			return nil, err
		}
	}
	return c.addresses, nil
}

// open makes all hosts accept connections, until the process ends with its orchestrator.
func (c *receivers) open(json.RawMessage) (any, error) {
	c.mu.Lock()
	c.opened = time.Now()
	c.mu.Unlock()
	for _, address := range c.addresses {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, err
		}
		go receive(listener, c.take)
	}
	return nil, nil
}

func (c *receivers) take(body []byte) { c.arrived(receiversNumber(body)) }

func (c *receivers) arrived(n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil || n < 0 || n >= len(c.seen):
		c.count.Strange++
	case c.seen[n]:
		c.count.Repeated++
	default:
		c.seen[n] = true
		c.count.Distinct++
		c.count.Took = time.Since(c.opened)
	}
}

// numberMark precedes the number of a delivery, in its event's data.
const numberMark = `"number":`

func receiversNumber(body []byte) (int, error) {
	n, err := numberAfter(numberMark, body)
	return int(n), err
}
