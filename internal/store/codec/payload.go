package codec

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"sync"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/seal"
)

// Erasing returns the data of an event that is erased at a time, and their encoding.
func Erasing(at time.Time) (data []byte, packed int64) {
	var enc encoder
	enc.time(at)
	return enc.b, packedErased
}

// IsErased says whether data of this encoding were erased.
func IsErased(packed int64) bool { return packed == packedErased }

// ErasedAt is when data of this encoding were erased; false: they were not.
func ErasedAt(data []byte, packed int64) (at time.Time, erased bool) {
	if !IsErased(packed) {
		return time.Time{}, false
	}
	d := decoder{b: data}
	return d.time(), true
}

// Place is a part of a file.
type Place struct{ At, Until int64 }

// PutApart replaces the data by their place in another file.
func (f *Frozen) PutApart(p Place) {
	var enc encoder
	enc.int(p.At)
	enc.int(p.Until)
	f.Data, f.Packed = enc.b, f.Packed+packedApart
}

// Apart is the place of data that are in another file, and their encoding there; false: they are in
// the row.
func Apart(data []byte, packed int64) (p Place, there int64, apart bool) {
	if packed&packedApart == 0 {
		return Place{}, packed, false
	}
	d := decoder{b: data}
	p = Place{d.int(), d.int()}
	if d.bad || len(d.b) > 0 || p.At < 0 || p.Until < p.At {
		p = Place{}
	}
	return p, packed - packedApart, true
}

// Freeze prepares an event for the writer. Data that is neither compressed nor sealed is the
// event's own slice and no copy: a caller that gives up before the writer has taken its operation
// withdraws it, and one that gives up later waits for the end.
func (p *Packer) Freeze(ctx context.Context, e *grapnel.Event) (f Frozen, err error) {
	f.Sum = Sum(e)
	if f.Intake, err = p.EncodeIntake(ctx, e.Intake, e.Tenant, e.ID); err != nil {
		return f, err
	}
	if len(e.Metadata) > 0 {
		var enc encoder
		enc.texts(e.Metadata)
		if f.Metadata = enc.b; p.seals {
			if f.Metadata, err = p.sealer.Seal(ctx, seal.At{Tenant: e.Tenant, Kind: sealedMetadata, ID: e.ID}, enc.b); err != nil {
				return f, err
			}
		}
	}
	f.Data, f.Packed = p.shrink(e.Data)
	f.Data, f.Packed, err = p.sealData(ctx, dataAt(e), f.Data, f.Packed)
	return f, err
}

func dataAt(e *grapnel.Event) seal.At { return seal.At{Tenant: e.Tenant, Kind: sealedData, ID: e.ID} }

// Thaw sets the data and the metadata of an event that has its other fields. They are as they were
// published, or the event is Erased, or the error is that they are corrupt.
func (p *Packer) Thaw(ctx context.Context, e *grapnel.Event, f *Frozen) (err error) {
	if e.Data, err = p.open(ctx, dataAt(e), f.Data, f.Packed); err == nil {
		e.Metadata, err = p.metadata(ctx, e, f.Metadata)
	}
	if err == nil && Sum(e) != f.Sum {
		err = ErrMangled
	}
	if err != nil {
		e.Data, e.Metadata = nil, nil
	}
	if errors.Is(err, seal.ErrNoKey) {
		e.Erased, err = true, nil
	}
	return err
}

// Same says whether an event's packed data are those of another event with its tenant and id. The
// same data may be packed differently by another version of the packer, and are sealed differently
// each time.
func (p *Packer) Same(ctx context.Context, e *grapnel.Event, f *Frozen, data []byte, packed int64) (bool, error) {
	if packed == f.Packed && bytes.Equal(data, f.Data) {
		return true, nil
	}
	there, err := p.open(ctx, dataAt(e), data, packed)
	if err != nil {
		return false, err
	}
	here, err := p.open(ctx, dataAt(e), f.Data, f.Packed)
	return err == nil && bytes.Equal(there, here), err
}

// metadata decodes the metadata written by Freeze. Unsealed ones begin with their number, which is
// below seal's mark.
func (p *Packer) metadata(ctx context.Context, e *grapnel.Event, b []byte) (_ map[string]string, err error) {
	if seal.Is(b) {
		if b, err = p.sealer.Open(ctx, seal.At{Tenant: e.Tenant, Kind: sealedMetadata, ID: e.ID}, b); err != nil {
			return nil, err
		}
	}
	if len(b) == 0 {
		return nil, nil
	}
	d := decoder{b: b}
	metadata := d.texts()
	if d.bad {
		return nil, ErrMangled
	}
	return metadata, nil
}

// sums are encoders for Sum, each with at most keptSum bytes: a checksum's bytes would be allocated
// anew for each event, because they leave Go for the processor's instruction.
var sums = sync.Pool{New: func() any { return new(encoder) }}

const keptSum = 4 << 10

// Sum is the checksum over the published fields, so that a flipped bit anywhere in an event is
// detected; the intake has its own. Castagnoli's polynomial is one instruction on common
// processors.
func Sum(e *grapnel.Event) int64 {
	table := crc32.MakeTable(crc32.Castagnoli) // returns one shared table
	crc := crc32.Checksum(e.Data, table)
	enc := sums.Get().(*encoder)
	enc.b = enc.b[:0]
	enc.text(e.ID)
	enc.text(e.Tenant)
	enc.text(e.Type)
	enc.text(e.Key)
	enc.text(e.ContentType)
	enc.texts(e.Metadata)
	enc.time(e.OccurredAt)
	enc.time(e.AcceptedAt)
	enc.text(e.Source)
	crc = crc32.Update(crc, table, enc.b)
	if cap(enc.b) <= keptSum {
		sums.Put(enc)
	}
	return int64(crc)
}
