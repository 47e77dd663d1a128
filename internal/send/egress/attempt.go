package egress

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// stage is the progress of an attempt; a timeout's text names it.
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

func (a *attempt) enter(s stage) { a.stage.Store(int32(s)) }

// since is the time since the start, plus one nanosecond: 0 stands for never.
func (a *attempt) since() int64 { return int64(a.sender.opts.Now().Sub(a.start)) + 1 }

// wrote records that bytes of the request were sent. From the first byte on the receiver may act on
// it.
func (a *attempt) wrote() {
	if a.wroteAt.Swap(a.since()) == 0 {
		a.sender.counters.written.Add(1)
	}
	a.stage.CompareAndSwap(int32(stageSend), int32(stageAnswer))
}

func (a *attempt) answered() {
	if a.answeredAt == 0 {
		a.answeredAt = a.since()
		a.enter(stageRead)
	}
}

// phases returns the durations of the attempt's parts, as far as they are known.
func (a *attempt) phases(took time.Duration) grapnel.Phases {
	p := grapnel.Phases{Reused: a.reused}
	if !a.reused {
		p.DNS, p.Connect, p.TLS = a.dns, a.connect, a.tls
	}
	if answered := a.answeredAt; answered > 0 {
		wrote := a.wroteAt.Load()
		if wrote == 0 || wrote > answered { // it answered before it had read the whole request
			wrote = answered
		}
		p.FirstByte = time.Duration(answered - wrote)
		p.Body = max(took-time.Duration(answered-1), 0)
	}
	return p
}
