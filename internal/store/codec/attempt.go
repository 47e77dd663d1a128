package codec

import (
	"slices"

	"github.com/grapnelhq/grapnel"
)

// attemptFormat is the first byte of an encoded attempt; another layout gets another number.
const attemptFormat = 1

// The bits of an encoded attempt's flags.
const (
	flagReused  = 1
	flagRequest = 2 // headers of the request follow
	flagPeer    = 4 // the receiver's end of the connection follows
)

// EncodeAttempt writes one.
func EncodeAttempt(a *grapnel.Attempt) []byte {
	size := 96 + len(a.Error) + len(a.ResponseBody) + 48*len(a.ResponseHeaders)
	for _, h := range a.RequestHeaders {
		size += 4 + len(h.Value)
	}
	e := encoder{b: make([]byte, 0, size)}
	e.b = append(e.b, attemptFormat)
	e.int(int64(a.Number))
	encodeWord(&e, Triggers, a.Trigger)
	e.time(a.ScheduledFor)
	e.time(a.StartedAt)
	e.span(a.Duration)
	e.span(a.Phases.DNS)
	e.span(a.Phases.Connect)
	e.span(a.Phases.TLS)
	e.span(a.Phases.FirstByte)
	e.span(a.Phases.Body)
	flags := uint64(0)
	if a.Phases.Reused {
		flags |= flagReused
	}
	if len(a.RequestHeaders) > 0 {
		flags |= flagRequest
	}
	if a.Peer != (grapnel.Peer{}) {
		flags |= flagPeer
	}
	e.uint(flags)
	e.int(int64(a.StatusCode))
	encodeWord(&e, Classes, a.Class)
	e.text(a.Error)
	e.texts(a.ResponseHeaders)
	e.bytes(a.ResponseBody)
	encodeWord(&e, decisions, a.Decision)
	e.time(a.NextAttemptAt)
	e.int(a.PolicyRevision)
	if flags&flagRequest != 0 {
		encodeRequest(&e, a.RequestHeaders)
	}
	if flags&flagPeer != 0 {
		e.text(a.Peer.Address)
		e.text(a.Peer.Certificate)
		e.time(a.Peer.CertificateUntil)
	}
	return e.b
}

// EmptyAttempt removes what an encoded attempt captured of request and response. Times, status and
// decision stay.
func EmptyAttempt(b []byte) ([]byte, error) {
	a, err := DecodeAttempt(b)
	if err != nil {
		return nil, err
	}
	Empty(&a)
	return EncodeAttempt(&a), nil
}

// Empty does the same with an attempt.
func Empty(a *grapnel.Attempt) {
	a.Error, a.RequestHeaders, a.ResponseHeaders, a.ResponseBody = "", nil, nil, nil
}

// DecodeLast decodes only the fields of an attempt that lists show.
func DecodeLast(b []byte) (grapnel.Last, error) {
	if len(b) == 0 || b[0] != attemptFormat {
		return grapnel.Last{}, ErrMangled
	}
	d := decoder{b: b[1:]}
	d.int()
	decodeWord(&d, Triggers)
	d.time()
	d.time()
	last := grapnel.Last{Duration: d.span()}
	for range 5 {
		d.span()
	}
	d.uint()
	last.StatusCode, last.Class = int(d.int()), decodeWord(&d, Classes)
	if d.bad {
		return grapnel.Last{}, ErrMangled
	}
	return last, nil
}

// DecodeAttempt reads one.
func DecodeAttempt(b []byte) (grapnel.Attempt, error) {
	if len(b) == 0 || b[0] != attemptFormat {
		return grapnel.Attempt{}, ErrMangled
	}
	d := decoder{b: b[1:]}
	var flags uint64
	a := grapnel.Attempt{
		Number:       int(d.int()),
		Trigger:      decodeWord(&d, Triggers),
		ScheduledFor: d.time(),
		StartedAt:    d.time(),
		Duration:     d.span(),
		Phases: grapnel.Phases{
			DNS: d.span(), Connect: d.span(), TLS: d.span(), FirstByte: d.span(), Body: d.span(), Reused: flag(&d, &flags),
		},
		StatusCode:      int(d.int()),
		Class:           decodeWord(&d, Classes),
		Error:           d.text(),
		ResponseHeaders: d.texts(),
		ResponseBody:    slices.Clone(d.bytes()),
		Decision:        decodeWord(&d, decisions),
		NextAttemptAt:   d.time(),
		PolicyRevision:  d.int(),
	}
	if flags&flagRequest != 0 {
		a.RequestHeaders = decodeRequest(&d)
	}
	if flags&flagPeer != 0 {
		a.Peer = grapnel.Peer{Address: d.text(), Certificate: d.text(), CertificateUntil: d.time()}
	}
	if d.bad {
		return grapnel.Attempt{}, ErrMangled
	}
	return a, nil
}

// flag reads the flags and returns the first of them.
func flag(d *decoder, flags *uint64) bool {
	*flags = d.uint()
	return *flags&flagReused != 0
}
