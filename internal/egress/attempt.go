package egress

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
)

// attempt is what is noted while a request is under way. Dials and the goroutines of a connection can still write to it after
// the request is over, so the fields that they write are atomic and an attempt is never used again.
type attempt struct {
	sender   *Sender
	start    time.Time
	deadline time.Time
	trace    httptrace.ClientTrace
	headers  [7]string

	reused              bool // written by the goroutine that sends
	stage               atomic.Int32
	dns, connect, tls   atomic.Int64 // durations
	wroteAt, answeredAt atomic.Int64 // see since
}

// stage is how far an attempt has come; a timeout says what it was waiting for.
type stage int32

const (
	stageStart stage = iota
	stageDNS
	stageConnect
	stageTLS
	stageSend
	stageAnswer
	stageRead
)

func (s stage) String() string {
	return [...]string{
		"before a connection was made", "while the name was resolved", "while connecting", "during the TLS handshake",
		"while the request was sent", "while waiting for the answer", "while the answer was read",
	}[s]
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt { return ctx.Value(attemptKey{}).(*attempt) }

func (a *attempt) enter(s stage) { a.stage.Store(int32(s)) }

// since is the time since the start, plus one nanosecond: 0 stands for never.
func (a *attempt) since() int64 { return int64(a.sender.opts.Now().Sub(a.start)) + 1 }

// watch returns a context that carries the attempt. Of the hooks of httptrace only GotConn is used: the others fire when a
// request is in net/http's buffer, and cost an allocation each, while the connection itself sees what is really written.
func (a *attempt) watch(ctx context.Context) context.Context {
	a.trace.GotConn = a.gotConn
	return httptrace.WithClientTrace(context.WithValue(ctx, attemptKey{}, a), &a.trace)
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.reused = info.Reused
	a.enter(stageSend)
	info.Conn.(*conn).attempt.Store(a)
}

// wrote notes that bytes of the request went out. From the first of them on the receiver may act on it.
func (a *attempt) wrote() {
	if a.wroteAt.Swap(a.since()) == 0 {
		a.sender.counters.written.Add(1)
	}
	a.stage.CompareAndSwap(int32(stageSend), int32(stageAnswer))
}

func (a *attempt) answered() {
	if a.answeredAt.Load() == 0 && a.answeredAt.CompareAndSwap(0, a.since()) {
		a.enter(stageRead)
	}
}

// phases returns what is known of the parts of the attempt's time.
func (a *attempt) phases(took time.Duration) grapnel.Phases {
	p := grapnel.Phases{Reused: a.reused}
	if !a.reused {
		p.DNS, p.Connect, p.TLS = time.Duration(a.dns.Load()), time.Duration(a.connect.Load()), time.Duration(a.tls.Load())
	}
	if answered := a.answeredAt.Load(); answered > 0 {
		wrote := a.wroteAt.Load()
		if wrote == 0 || wrote > answered { // it answered before it had read the whole request
			wrote = answered
		}
		p.FirstByte = time.Duration(answered - wrote)
		p.Body = max(took-time.Duration(answered-1), 0)
	}
	return p
}
