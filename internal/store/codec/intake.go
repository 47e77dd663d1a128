package codec

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/grapnelhq/grapnel"
)

// An intake describes how a request came in, and is stored encoded. It is read only with its single
// event or request, so it has a checksum of its own, which also covers that event's or request's
// id.

// intakeFormat is the first byte of an encoded intake; another layout gets another number. The four
// bytes of the checksum come next.
const intakeFormat = 1

const intakeHeader = 1 + crc32.Size

// EncodeIntake writes how the request came in that became the event or request with this id.
func EncodeIntake(in *grapnel.Intake, of string) []byte {
	if in == nil {
		return nil
	}
	e := encoder{b: make([]byte, intakeHeader, 512)}
	e.text(in.Source)
	e.time(in.At)
	e.text(in.Method)
	e.text(in.Path)
	e.text(in.Remote)
	e.uint(uint64(len(in.Headers)))
	for _, h := range in.Headers {
		e.text(h.Name)
		e.text(h.Value)
	}
	e.uint(uint64(len(in.Checks)))
	for _, c := range in.Checks {
		passed := uint64(0)
		if c.Passed {
			passed = 1
		}
		e.uint(passed)
		e.text(c.Text)
	}
	encodeWord(&e, dedupeBys, in.By)
	e.text(in.Known)
	e.b[0] = intakeFormat
	end := len(e.b)
	e.b = append(e.b, of...) // for the checksum alone
	binary.BigEndian.PutUint32(e.b[1:], crc32.Checksum(e.b[intakeHeader:], crc32.MakeTable(crc32.Castagnoli)))
	return e.b[:end]
}

func intakeSum(encoded []byte, of string) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(encoded, table), table, []byte(of))
}

// DecodeIntake reads it.
func DecodeIntake(b []byte, of string) (*grapnel.Intake, error) {
	if len(b) < intakeHeader || b[0] != intakeFormat || binary.BigEndian.Uint32(b[1:]) != intakeSum(b[intakeHeader:], of) {
		return nil, ErrMangled
	}
	d := decoder{b: b[intakeHeader:]}
	in := &grapnel.Intake{Source: d.text(), At: d.time(), Method: d.text(), Path: d.text(), Remote: d.text()}
	for range d.uint() {
		if in.Headers = append(in.Headers, grapnel.Header{Name: d.text(), Value: d.text()}); d.bad {
			return nil, ErrMangled
		}
	}
	for range d.uint() {
		if in.Checks = append(in.Checks, grapnel.Check{Passed: d.uint() == 1, Text: d.text()}); d.bad {
			return nil, ErrMangled
		}
	}
	in.By, in.Known = decodeWord(&d, dedupeBys), d.text()
	if d.bad {
		return nil, ErrMangled
	}
	return in, nil
}

// SumAside is the checksum over a request that was set aside, except its intake, which has its own.
func SumAside(a *grapnel.Aside) int64 {
	table := crc32.MakeTable(crc32.Castagnoli)
	var e encoder
	e.text(a.ID)
	e.text(a.Tenant)
	e.text(string(a.Why))
	e.text(a.Event)
	e.text(a.ContentType)
	return int64(crc32.Update(crc32.Checksum(a.Body, table), table, e.b))
}
