package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// encoder writes values that no query reads: varints, and texts with their length before them. JSON
// would be four times as long and cost ten times as much, once for every delivery.
type encoder struct{ b []byte }

func (e *encoder) uint(v uint64)        { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)          { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) time(t time.Time)     { e.int(Micros(t)) }
func (e *encoder) text(s string)        { e.uint(uint64(len(s))); e.b = append(e.b, s...) }
func (e *encoder) bytes(s []byte)       { e.uint(uint64(len(s))); e.b = append(e.b, s...) }
func (e *encoder) span(d time.Duration) { e.int(int64(d)) }

// texts writes a map in the order of its keys, so that the same map is always the same bytes.
func (e *encoder) texts(m map[string]string) {
	e.uint(uint64(len(m)))
	var room [16]string
	names := room[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e.text(name)
		e.text(m[name])
	}
}

// encodeWord writes a word's index plus one, or 0 and the text.
func encodeWord[W ~string](e *encoder, list Words[W], w W) {
	if i, known := list.Place(w); known {
		e.uint(uint64(i) + 1)
		return
	}
	e.uint(0)
	e.text(string(w))
}

// ErrMangled is the error for a stored value that cannot be decoded.
var ErrMangled = errors.New("store: a stored value cannot be decoded")

// Damaged is the error of a read of one event whose bytes do not match their checksum.
func Damaged(event string) error {
	detail := fmt.Sprintf("the stored bytes of event %s do not match their checksum", event)
	return &grapnel.Error{Code: grapnel.CodeDamaged, Detail: detail, Err: ErrMangled}
}

// decoder reads the output of encoder. After the first invalid value it returns zeros, and bad is
// set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	return number(d, v, n)
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	return number(d, v, n)
}

func number[N int64 | uint64](d *decoder, v N, n int) N {
	if n <= 0 {
		d.b, d.bad = nil, true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte { return d.take(d.uint()) }

// take reads n bytes.
func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return nil
	}
	s := d.b[:n:n]
	d.b = d.b[n:]
	return s
}

func (d *decoder) text() string        { return string(d.bytes()) }
func (d *decoder) time() time.Time     { return Moment(d.int()) }
func (d *decoder) span() time.Duration { return time.Duration(d.int()) }

func (d *decoder) texts() map[string]string {
	n := d.uint()
	if n == 0 || n > uint64(len(d.b)) {
		d.bad = d.bad || n > 0
		return nil
	}
	m := make(map[string]string, n)
	for range n {
		name := d.text()
		m[name] = d.text()
	}
	return m
}

func decodeWord[W ~string](d *decoder, list Words[W]) W {
	i := d.uint()
	switch {
	case i == 0:
		return W(d.text())
	case i > uint64(len(list)):
		d.bad = true
		return ""
	}
	return list[i-1]
}

// Micros is a time as it is stored. The zero time is stored as the number that UnixMicro gives it.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Moment is the time of a stored number, in UTC.
func Moment(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// Words are the texts of a fixed set, each of which is stored as its index in the list. Indexes are
// in databases: a list only grows at its end. A text that is not in it is stored as it is.
type Words[W ~string] []W

// Place is a word's index.
func (list Words[W]) Place(w W) (int64, bool) {
	i := slices.Index(list, w)
	return int64(max(i, 0)), i >= 0
}

// The words of encoded values; stores also use some of them in columns.
var (
	Triggers = Words[grapnel.Trigger]{"", grapnel.TriggerSchedule, grapnel.TriggerManual, grapnel.TriggerReplay, grapnel.TriggerProbe,
		grapnel.TriggerTest}
	Classes = Words[policy.Class]{"", policy.ClassNone, policy.ClassDNS, policy.ClassConnect, policy.ClassTLS, policy.ClassTimeout,
		policy.ClassReset, policy.ClassProtocol, policy.ClassRedirect, policy.ClassBlocked, policy.ClassStatus3xx, policy.ClassStatus4xx,
		policy.ClassStatus429, policy.ClassStatus5xx, policy.ClassInternal, policy.ClassNack, policy.ClassReject, policy.ClassLease,
		policy.ClassProxy, policy.ClassToken}

	decisions = Words[policy.Decision]{"", policy.Deliver, policy.Retry, policy.Fail, policy.Throttle, policy.DisableEndpoint}
	dedupeBys = Words[grapnel.DedupeBy]{"", grapnel.ByEventID, grapnel.ByDeliveryID, grapnel.ByContent}
)
