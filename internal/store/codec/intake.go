package codec

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
)

// An intake describes how a request came in, and is stored encoded. It is read only with its single
// event or request, so it has a checksum of its own, which also covers that event's or request's
// id.

// The first byte of an encoded intake; another layout gets another number. The four bytes of the
// checksum come next. In intakeSealed the request comes last, and is sealed.
const (
	intakeFormat = 1
	intakeSealed = 2
)

const intakeHeader = 1 + crc32.Size

// EncodeIntake writes how the request of a tenant came in that became the event or request with
// this id.
func (p *Packer) EncodeIntake(ctx context.Context, in *grapnel.Intake, tenant, of string) ([]byte, error) {
	if in == nil {
		return nil, nil
	}
	e := encoder{b: make([]byte, intakeHeader, 512)}
	e.b[0] = intakeFormat
	e.text(in.Source)
	e.time(in.At)
	if p.seals {
		var plain encoder
		encodeSent(&plain, in)
		sealed, err := p.sealer.Seal(ctx, seal.At{Tenant: tenant, Kind: sealedIntake, ID: of}, plain.b)
		if err != nil {
			return nil, err
		}
		e.b[0] = intakeSealed
		encodeFound(&e, in)
		e.b = append(e.b, sealed...)
	} else {
		encodeSent(&e, in)
		encodeFound(&e, in)
	}
	end := len(e.b)
	e.b = append(e.b, of...) // for the checksum alone
	binary.BigEndian.PutUint32(e.b[1:], crc32.Checksum(e.b[intakeHeader:], crc32.MakeTable(crc32.Castagnoli)))
	return e.b[:end], nil
}

// encodeSent writes the request, and the results of its checks.
func encodeSent(e *encoder, in *grapnel.Intake) {
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
}

// encodeFound writes whether the request is known already.
func encodeFound(e *encoder, in *grapnel.Intake) {
	encodeWord(e, dedupeBys, in.By)
	e.text(in.Known)
}

func intakeSum(encoded []byte, of string) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(encoded, table), table, []byte(of))
}

// DecodeIntake reads it. An intake whose request cannot be opened any more has none.
func (p *Packer) DecodeIntake(ctx context.Context, b []byte, tenant, of string) (*grapnel.Intake, error) {
	if len(b) < intakeHeader || binary.BigEndian.Uint32(b[1:]) != intakeSum(b[intakeHeader:], of) {
		return nil, ErrMangled
	}
	d := decoder{b: b[intakeHeader:]}
	in := &grapnel.Intake{Source: d.text(), At: d.time()}
	switch b[0] {
	case intakeFormat:
		decodeSent(&d, in)
		in.By, in.Known = decodeWord(&d, dedupeBys), d.text()
	case intakeSealed:
		in.By, in.Known = decodeWord(&d, dedupeBys), d.text()
		if d.bad || !seal.Is(d.b) {
			return nil, ErrMangled
		}
		plain, err := p.sealer.Open(ctx, seal.At{Tenant: tenant, Kind: sealedIntake, ID: of}, d.b)
		if errors.Is(err, seal.ErrNoKey) {
			return in, nil
		}
		if err != nil {
			return nil, err
		}
		d = decoder{b: plain}
		decodeSent(&d, in)
	default:
		return nil, ErrMangled
	}
	if d.bad {
		return nil, ErrMangled
	}
	return in, nil
}

func decodeSent(d *decoder, in *grapnel.Intake) {
	in.Method, in.Path, in.Remote = d.text(), d.text(), d.text()
	for range d.uint() {
		if in.Headers = append(in.Headers, grapnel.Header{Name: d.text(), Value: d.text()}); d.bad {
			return
		}
	}
	for range d.uint() {
		if in.Checks = append(in.Checks, grapnel.Check{Passed: d.uint() == 1, Text: d.text()}); d.bad {
			return
		}
	}
}

// FreezeAside encodes the body and the intake of a request that is set aside.
func (p *Packer) FreezeAside(ctx context.Context, a *grapnel.Aside) (f Frozen, err error) {
	if f, err = p.DescribeAside(ctx, a); err != nil {
		return f, err
	}
	f.Data, f.Packed = p.shrink(a.Body)
	f.Data, f.Packed, err = p.sealData(ctx, bodyAt(a), f.Data, f.Packed)
	return f, err
}

// DescribeAside encodes all but the body, which does not change once it is stored.
func (p *Packer) DescribeAside(ctx context.Context, a *grapnel.Aside) (f Frozen, err error) {
	f.Sum = sumAside(a)
	f.Intake, err = p.EncodeIntake(ctx, &a.Intake, a.Tenant, a.ID)
	return f, err
}

func bodyAt(a *grapnel.Aside) seal.At { return seal.At{Tenant: a.Tenant, Kind: sealedBody, ID: a.ID} }

// ThawAside sets the body of a request that has its other fields, unless it is Erased.
func (p *Packer) ThawAside(ctx context.Context, a *grapnel.Aside, f *Frozen) (err error) {
	a.Body, err = p.open(ctx, bodyAt(a), f.Data, f.Packed)
	if errors.Is(err, seal.ErrNoKey) {
		a.Erased = true
		return nil
	}
	if err != nil || sumAside(a) != f.Sum {
		return ErrMangled
	}
	return nil
}

// sumAside is the checksum over a request that was set aside, except its intake, which has its own.
func sumAside(a *grapnel.Aside) int64 {
	table := crc32.MakeTable(crc32.Castagnoli)
	var e encoder
	e.text(a.ID)
	e.text(a.Tenant)
	e.text(string(a.Why))
	e.text(a.Event)
	e.text(a.ContentType)
	return int64(crc32.Update(crc32.Checksum(a.Body, table), table, e.b))
}
