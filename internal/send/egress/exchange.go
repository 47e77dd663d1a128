package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel/policy"
)

// An exchange is one request and its answer over one connection. It does not use http.Transport,
// whose two goroutines for each connection pass every request and answer on, which takes a third of
// a delivery's processor time. A request is one piece of memory (message), a plain answer is read
// where it lies (simpleReply), and every other answer is read by net/http (ReadResponse). The
// order of the two, and one deadline on the connection for everything, are ours.

// perform sends the request and reads the answer. A receiver may close an idle connection at the
// moment it is chosen. As long as nothing of the request was written, another connection is tried.
func (s *Sender) perform(ctx context.Context, r *route, a *attempt, m *message, result *Result) error {
	for stale := 0; ; stale++ {
		c, err := s.connection(ctx, r, a)
		if err != nil {
			return err
		}
		err = s.exchange(ctx, r, c, a, m, result)
		if err == nil || !a.reused || a.wroteAt.Load() != 0 || ctx.Err() != nil || stale == s.bounds.Stale {
			return err
		}
	}
}

// connection returns an idle connection that still lives, or a new one.
func (s *Sender) connection(ctx context.Context, r *route, a *attempt) (*conn, error) {
	for {
		c := r.pool.take()
		if c == nil {
			break
		}
		if c.quiet() && c.SetDeadline(a.deadline) == nil && c.alive() && c.watch(ctx) {
			a.reused = true
			c.serve(a)
			return c, nil
		}
		_ = c.Close() // the receiver has closed it already, or a context has
	}
	a.reused = false
	dialing, cancel := context.WithDeadline(ctx, a.deadline)
	defer cancel()
	c, err := s.dial(dialing, r, a)
	if err != nil {
		return nil, err
	}
	c.serve(a)
	if err := c.SetDeadline(a.deadline); err != nil {
		_ = c.Close()
		return nil, err
	}
	c.watch(ctx)
	return c, nil
}

// watch has the end of a context end every read and write of the connection, until the connection
// is closed or watches another context. Attempts mostly have the same context, so few of them
// register anything. A caller sets the deadline first and then asks the context for its error: if
// the context had ended before, its call of interrupt may have come before the caller's deadline.
// false: the context before has ended, and its call may still come.
func (c *conn) watch(ctx context.Context) bool {
	if c.watched == ctx {
		return true
	}
	c.sender.connsMu.Lock()
	defer c.sender.connsMu.Unlock()
	if c.unwatch != nil && !c.unwatch() {
		return false
	}
	c.watched, c.unwatch = ctx, context.AfterFunc(ctx, c.interrupt)
	return true
}

// interrupt ends every read and write of the connection.
func (c *conn) interrupt() { _ = c.SetDeadline(longAgo) }

// exchange makes one request over a connection, and then returns the connection to the pool or
// closes it.
func (s *Sender) exchange(ctx context.Context, r *route, c *conn, a *attempt, m *message, result *Result) error {
	if err := ctx.Err(); err != nil { // after the deadline was set: see watch
		_ = c.Close()
		return err
	}
	reusable, err := s.converse(c, a, m, result)
	if reusable && ctx.Err() == nil {
		c.serve(nil)
		r.pool.put(c)
	} else {
		_ = c.Close() // bytes left on it belong to no other request
	}
	return err
}

// converse writes the request and reads the answer. The connection is reusable when both are
// complete and nothing follows.
func (s *Sender) converse(c *conn, a *attempt, m *message, result *Result) (reusable bool, err error) {
	a.enter(stageSend)
	if a.still != nil && !a.still() {
		return false, errWithdrawn
	}
	if m.body == nil {
		wrote := c.send(m)
		if wrote != nil && a.wroteAt.Load() == 0 {
			return false, wrote
		}
		// A receiver may refuse a request before it has read all of it, so an answer is read even
		// if writing failed.
		ended, err := s.receive(c, result)
		if wrote != nil {
			if err != nil {
				err = wrote
			}
			return false, err
		}
		return ended, err
	}
	wrote := make(chan error, 1)
	go func() { wrote <- c.send(m) }()
	ended, err := s.receive(c, result)
	patience := time.NewTimer(s.bounds.Patience)
	defer patience.Stop()
	select {
	case failed := <-wrote:
		return ended && failed == nil, err
	case <-patience.C:
		// the receiver answered before it had read everything and will not read the rest
		_ = c.Close()
		<-wrote //nolint:errcheck // it fails now, for our own reason
		return false, err
	}
}

// errWithdrawn is the error of an attempt that Still refused at the last moment.
var errWithdrawn = errors.New("withdrawn: another node owns the endpoint")

// send writes a request.
func (c *conn) send(m *message) error {
	if _, err := c.Write(m.bytes); err != nil || m.body == nil {
		return err
	}
	_, err := c.Write(m.body)
	return err
}

// answer reads an answer.
func (s *Sender) answer(c *conn) (reply, error) {
	c.headerLeft = maxResponseHeader + s.bounds.Ahead
	if is, ok := c.simple(); ok {
		c.headerLeft = noLimit
		return is, nil
	}
	resp, err := c.response() //nolint:bodyclose // closing it would read the rest
	c.headerLeft = noLimit
	if err != nil {
		return reply{}, err
	}
	is := reply{status: resp.StatusCode, headers: keptHeaders(resp.Header),
		retryAfter: resp.Header.Get("Retry-After"), date: resp.Header.Get("Date"), wish: resp.Header.Get("Webhook-Delivery")}
	if is.status >= 200 {
		is.body, is.ended, is.broken = s.readBody(resp.Body)
		is.ended = is.ended && !resp.Close
	}
	return is, nil
}

// simple takes a simple answer out of the buffer, once its first bytes are there. It takes nothing
// if the answer is another one.
func (c *conn) simple() (reply, bool) {
	if _, err := c.reader.Peek(1); err != nil {
		return reply{}, false // the next reader gets the error again
	}
	b, _ := c.reader.Peek(c.reader.Buffered())
	is, size, ok := c.same.read(b, c.sender.bounds.SameHead)
	if ok {
		is.body, is.ended = bytes.Clone(b[size-is.length:size]), true
		_, _ = c.reader.Discard(size) // it is in the buffer
	}
	return is, ok
}

// response reads an answer up to its body with net/http. Interim answers (1xx) are skipped; their
// headers count toward the limit, so an endless series fails.
func (c *conn) response() (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(c.reader, nil)
		if c.headerLeft <= 0 && err != nil {
			err = errLongHeader // net/http may have replaced the error by one of its own
		}
		// net/http reads any digits as a version. Only HTTP/1 has the messages that are read here.
		if err == nil && resp.ProtoMajor != 1 {
			return nil, fmt.Errorf("malformed HTTP version %q", resp.Proto)
		}
		if err != nil || resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// quiet says that TLS holds no received bytes back: alive sees only those still in the socket.
func (c *conn) quiet() bool {
	if _, tunneled := c.below.(*tunneled); c.Conn == c.below && !tunneled {
		return true
	}
	if c.SetReadDeadline(longAgo) != nil {
		return false
	}
	var b [1]byte
	n, err := c.Conn.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// receive reads an answer into the result of Send; the engine makes core.Finished of it. A body
// that breaks off matters only if the status says success: the receiver had not finished saying
// so.
func (s *Sender) receive(c *conn, result *Result) (ended bool, err error) {
	is, err := s.answer(c)
	if err != nil {
		return false, err
	}
	result.Outcome.Status = is.status
	result.Outcome.Class = policy.ClassOf(is.status)
	result.Headers, result.Body = is.headers, is.body
	if is.status < 200 { // 101, after which another protocol follows, or no valid status
		result.Error = "the answer is not valid HTTP: status " + strconv.Itoa(is.status) + " switches to another protocol or means nothing"
		return false, nil
	}
	result.Outcome.Wish = policy.ParseWish(is.wish)
	ended = is.ended && c.reader.Buffered() == 0
	if result.Outcome.Class == policy.ClassNone {
		return ended, is.broken
	}
	result.Error = strconv.Itoa(is.status) + " " + http.StatusText(is.status)
	if result.Outcome.Class == policy.ClassRedirect {
		result.Error += ": redirects are not followed"
	}
	if is.retryAfter != "" {
		now := s.opts.Now()
		if date, err := http.ParseTime(is.date); err == nil {
			now = date
		}
		result.Outcome.RetryAfter, result.Outcome.HasRetryAfter = policy.ParseRetryAfter(is.retryAfter, now)
	}
	return ended, nil
}

// explain turns an error into a class and a text. Our own reasons to stop come first, then the
// deadline: both make the connection fail in ways that look like the receiver's.
func (s *Sender) explain(ctx context.Context, r *route, a *attempt, err error, result *Result) {
	switch {
	case ctx.Err() != nil || s.closing.Err() != nil:
		result.fail(policy.ClassInternal, "interrupted: the server is shutting down")
	case errors.Is(err, errWithdrawn):
		result.Deferred = true
		result.fail(policy.ClassInternal, err.Error())
	case isProxys(err):
		result.fail(classify(err))
	case time.Until(a.deadline) <= 0:
		result.fail(policy.ClassTimeout, "no complete answer within "+r.timeout.String()+", "+stage(a.stage.Load()).String())
	default:
		result.fail(classify(err))
	}
}
