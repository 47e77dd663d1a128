package codec

import (
	"bytes"
	"hash/crc32"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/grapnelhq/grapnel"
)

// The encodings of an event's data.
const (
	packedNot  = 0
	packedZstd = 1
	// packedApart is added if the data are in another file, and their Place is in the row.
	packedApart = 2
	// packedErased: the event was erased, and its data are the time.
	packedErased = 64
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
	if packed < packedApart || IsErased(packed) {
		return Place{}, packed, false
	}
	d := decoder{b: data}
	p = Place{d.int(), d.int()}
	if d.bad || len(d.b) > 0 || p.At < 0 || p.Until < p.At {
		p = Place{}
	}
	return p, packed - packedApart, true
}

// Data above packFrom bytes is compressed, and stored compressed if that saves at least an eighth:
// less is not worth decompressing for.
const packFrom = 1 << 10

// Frozen is an event's data as it is stored. It is computed on the caller's goroutine, because the
// writer is the bottleneck.
type Frozen struct {
	Data     []byte
	Packed   int64
	Metadata []byte
	Intake   []byte
	Sum      int64 // over everything but the intake, which has its own
}

// Packer compresses and decompresses. Its methods may be called at the same time.
type Packer struct {
	zip   *zstd.Encoder
	unzip *zstd.Decoder
	spare sync.Pool // of *[]byte, to compress into
}

// NewPacker creates a Packer; Close frees its memory.
func NewPacker() (*Packer, error) {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2),
		zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		return nil, err
	}
	return &Packer{zip: zip, unzip: unzip, spare: sync.Pool{New: func() any { return new([]byte) }}}, nil
}

// Close ends it.
func (p *Packer) Close() {
	_ = p.zip.Close()
	p.unzip.Close()
}

// Freeze prepares an event for the writer. Data that is not compressed is the event's own slice and
// no copy: a caller that gives up before the writer has taken its operation withdraws it, and one
// that gives up later waits for the end.
func (p *Packer) Freeze(e *grapnel.Event) Frozen {
	f := Frozen{Sum: Sum(e), Intake: EncodeIntake(e.Intake, e.ID)}
	if len(e.Metadata) > 0 {
		var enc encoder
		enc.texts(e.Metadata)
		f.Metadata = enc.b
	}
	f.Data, f.Packed = p.Shrink(e.Data)
	return f
}

// Shrink returns data, compressed if that pays, and its encoding.
func (p *Packer) Shrink(data []byte) ([]byte, int64) {
	if len(data) > packFrom {
		if packed := p.pack(data); packed != nil {
			return packed, packedZstd
		}
	}
	return data, packedNot
}

// pack returns data compressed, or nil if that does not pay.
func (p *Packer) pack(data []byte) []byte {
	spare := p.spare.Get().(*[]byte)
	*spare = p.zip.EncodeAll(data, (*spare)[:0])
	var packed []byte
	if len(*spare) <= len(data)-len(data)/8 {
		packed = bytes.Clone(*spare)
	}
	if cap(*spare) <= 1<<20 {
		p.spare.Put(spare)
	}
	return packed
}

// Thaw returns data as it was published.
func (p *Packer) Thaw(data []byte, packed int64) ([]byte, error) {
	switch packed {
	case packedNot:
		return data, nil
	case packedZstd:
		return p.unzip.DecodeAll(data, nil)
	}
	return nil, ErrMangled
}

// Same says whether an event's packed data are those of another event. The same data may be packed
// differently by another version of the packer.
func (p *Packer) Same(f *Frozen, data []byte, packed int64) (bool, error) {
	if packed == f.Packed && bytes.Equal(data, f.Data) {
		return true, nil
	}
	there, err := p.Thaw(data, packed)
	if err != nil {
		return false, err
	}
	here, err := p.Thaw(f.Data, f.Packed)
	return err == nil && bytes.Equal(there, here), err
}

// DecodeMetadata decodes the metadata written by Freeze.
func DecodeMetadata(b []byte) (map[string]string, error) {
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
