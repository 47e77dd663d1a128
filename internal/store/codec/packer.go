package codec

import (
	"bytes"
	"context"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/grapnelhq/grapnel/internal/base/seal"
)

// The encodings of an event's data.
const (
	packedNot  = 0
	packedZstd = 1
	// packedApart is added if the data are in another file, and their Place is in the row.
	packedApart = 2
	// packedSealed is added if the packed data are sealed.
	packedSealed = 4
	// packedErased: the event was erased, and its data are the time.
	packedErased = 64
)

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

// Packer compresses, seals, and undoes both. Its methods may be called at the same time.
type Packer struct {
	zip   *zstd.Encoder
	unzip *zstd.Decoder
	spare sync.Pool // of *[]byte, to compress into

	sealer *seal.Sealer // nil: nothing is sealed
	seals  bool         // new payloads
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

// Guard lets the packer open what the sealer has sealed, and with seals also seal.
func (p *Packer) Guard(s *seal.Sealer, seals bool) { p.sealer, p.seals = s, seals && s != nil }

// shrink returns data, compressed if that pays, and its encoding.
func (p *Packer) shrink(data []byte) ([]byte, int64) {
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

// sealData replaces packed data by sealed ones. There is nothing to hide in no data.
func (p *Packer) sealData(ctx context.Context, at seal.At, data []byte, packed int64) ([]byte, int64, error) {
	if !p.seals || len(data) == 0 {
		return data, packed, nil
	}
	sealed, err := p.sealer.Seal(ctx, at, data)
	return sealed, packed + packedSealed, err
}

// open returns data as they were.
func (p *Packer) open(ctx context.Context, at seal.At, data []byte, packed int64) (_ []byte, err error) {
	if packed&packedSealed != 0 {
		if !seal.Is(data) {
			return nil, ErrMangled
		}
		if data, err = p.sealer.Open(ctx, at, data); err != nil {
			return nil, err
		}
	}
	switch packed &^ packedSealed {
	case packedNot:
		return data, nil
	case packedZstd:
		return p.unzip.DecodeAll(data, nil)
	}
	return nil, ErrMangled
}
