package codec

import (
	"slices"

	"github.com/grapnelhq/grapnel"
)

// The first byte of an encoded attempt; another layout gets another number. In attemptSealed the
// answer and the sides come last, and are sealed: lists need neither.
const (
	attemptFormat = 1
	attemptSealed = 2
)

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
	encodeCourse(&e, a)
	encodeAnswer(&e, a)
	encodeDecided(&e, a)
	encodeSides(&e, a)
	return e.b
}

// encodeCourse writes when the attempt was made, and its result.
func encodeCourse(e *encoder, a *grapnel.Attempt) {
	e.int(int64(a.Number))
	encodeWord(e, Triggers, a.Trigger)
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
	encodeWord(e, Classes, a.Class)
}

// encodeAnswer writes what the receiver answered.
func encodeAnswer(e *encoder, a *grapnel.Attempt) {
	e.text(a.Error)
	e.texts(a.ResponseHeaders)
	e.bytes(a.ResponseBody)
}

// encodeDecided writes the policy's decision.
func encodeDecided(e *encoder, a *grapnel.Attempt) {
	encodeWord(e, decisions, a.Decision)
	e.time(a.NextAttemptAt)
	e.int(a.PolicyRevision)
}

// encodeSides writes the headers that were sent, and the peer. Either may be absent, as the flags
// of encodeCourse say.
func encodeSides(e *encoder, a *grapnel.Attempt) {
	if len(a.RequestHeaders) > 0 {
		encodeRequest(e, a.RequestHeaders)
	}
	if a.Peer != (grapnel.Peer{}) {
		e.text(a.Peer.Address)
		e.text(a.Peer.Certificate)
		e.time(a.Peer.CertificateUntil)
	}
}

// EmptyAttempt removes what an encoded attempt captured of request and response. Times, status and
// decision stay. It opens nothing.
func EmptyAttempt(b []byte) ([]byte, error) {
	a, _, _, err := decodeAround(b)
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
	if len(b) == 0 || b[0] != attemptFormat && b[0] != attemptSealed {
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

// decodeAround reads what is in clear of an attempt. Of a sealed one it returns the sealed bytes,
// too, and the flags, by which they are read; of another one it returns no sealed bytes.
func decodeAround(b []byte) (a grapnel.Attempt, flags uint64, sealed []byte, err error) {
	if len(b) == 0 || b[0] != attemptSealed {
		a, err = DecodeAttempt(b)
		return a, 0, nil, err
	}
	d := decoder{b: b[1:]}
	flags = decodeCourse(&d, &a)
	if decodeDecided(&d, &a); d.bad {
		return grapnel.Attempt{}, 0, nil, ErrMangled
	}
	return a, flags, d.b, nil
}

// DecodeAttempt reads one that EncodeAttempt has written.
func DecodeAttempt(b []byte) (a grapnel.Attempt, err error) {
	if len(b) == 0 || b[0] != attemptFormat {
		return a, ErrMangled
	}
	d := decoder{b: b[1:]}
	flags := decodeCourse(&d, &a)
	decodeAnswer(&d, &a)
	decodeDecided(&d, &a)
	decodeSides(&d, &a, flags)
	if d.bad {
		return grapnel.Attempt{}, ErrMangled
	}
	return a, nil
}

func decodeCourse(d *decoder, a *grapnel.Attempt) (flags uint64) {
	a.Number, a.Trigger = int(d.int()), decodeWord(d, Triggers)
	a.ScheduledFor, a.StartedAt, a.Duration = d.time(), d.time(), d.span()
	a.Phases = grapnel.Phases{DNS: d.span(), Connect: d.span(), TLS: d.span(), FirstByte: d.span(), Body: d.span()}
	flags = d.uint()
	a.Phases.Reused = flags&flagReused != 0
	a.StatusCode, a.Class = int(d.int()), decodeWord(d, Classes)
	return flags
}

func decodeAnswer(d *decoder, a *grapnel.Attempt) {
	a.Error, a.ResponseHeaders, a.ResponseBody = d.text(), d.texts(), slices.Clone(d.bytes())
}

func decodeDecided(d *decoder, a *grapnel.Attempt) {
	a.Decision, a.NextAttemptAt, a.PolicyRevision = decodeWord(d, decisions), d.time(), d.int()
}

func decodeSides(d *decoder, a *grapnel.Attempt, flags uint64) {
	if flags&flagRequest != 0 {
		a.RequestHeaders = decodeRequest(d)
	}
	if flags&flagPeer != 0 {
		a.Peer = grapnel.Peer{Address: d.text(), Certificate: d.text(), CertificateUntil: d.time()}
	}
}
