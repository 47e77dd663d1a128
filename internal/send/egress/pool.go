package egress

import (
	"time"
)

// take returns the connection used last, or nil.
func (p *pool) take() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle[len(p.idle)-1] = nil
	p.idle = p.idle[:len(p.idle)-1]
	if time.Since(c.idleSince) >= p.timeout { // its timer is late
		_ = c.Close()
		return nil
	}
	return c
}

// put keeps a connection for the next request.
func (p *pool) put(c *conn) {
	c.idleSince = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.most {
		_ = c.Close()
		return
	}
	p.idle = append(p.idle, c)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(p.timeout, p.expire)
	}
}

// expire closes the connections that were idle for too long.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep = nil
	now, old := time.Now(), 0
	for old < len(p.idle) && now.Sub(p.idle[old].idleSince) >= p.timeout {
		_ = p.idle[old].Close()
		old++
	}
	p.idle = append(p.idle[:0:0], p.idle[old:]...)
	if len(p.idle) > 0 && !p.closed {
		p.sweep = time.AfterFunc(p.timeout-now.Sub(p.idle[0].idleSince), p.expire)
	}
}

// close closes the idle connections; those in use are closed after their request.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}
