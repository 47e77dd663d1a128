package sqlite

import (
	"bytes"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/grapnelhq/grapnel"
)

// How an event's data is kept.
const (
	packedNot  = 0
	packedZstd = 1
)

// Data above packFrom bytes is compressed, and kept compressed if that saves at least an eighth: less is not worth
// decompressing for.
const packFrom = 1 << 10

// frozen is an event's data as it is stored. It is made on the goroutine of the caller: the writer has no time for it.
type frozen struct {
	data     []byte
	packed   int64
	metadata []byte
	intake   []byte
	sum      int64
}

// packer compresses and decompresses. Its methods may be called at the same time.
type packer struct {
	zip   *zstd.Encoder
	unzip *zstd.Decoder
	spare sync.Pool // of *[]byte, to compress into
}

func newPacker() (*packer, error) {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2),
		zstd.WithWindowSize(1<<20), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		return nil, err
	}
	return &packer{zip: zip, unzip: unzip, spare: sync.Pool{New: func() any { return new([]byte) }}}, nil
}

func (p *packer) close() {
	_ = p.zip.Close()
	p.unzip.Close()
}

// freeze copies data: a caller that gives up waiting may use its buffer for something else while the writer still needs it.
func (p *packer) freeze(e *grapnel.Event) frozen {
	f := frozen{sum: sum(e), intake: encodeIntake(e.Intake, e.ID)}
	if len(e.Metadata) > 0 {
		var enc encoder
		enc.texts(e.Metadata)
		f.metadata = enc.b
	}
	f.data, f.packed = p.shrink(e.Data)
	return f
}

// shrink returns a copy of data, compressed if that pays, and how it is kept.
func (p *packer) shrink(data []byte) ([]byte, int64) {
	if len(data) > packFrom {
		if packed := p.pack(data); packed != nil {
			return packed, packedZstd
		}
	}
	return bytes.Clone(data), packedNot
}

// pack returns data compressed, or nil if that does not pay.
func (p *packer) pack(data []byte) []byte {
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

// thaw returns data as it was published.
func (p *packer) thaw(data []byte, packed int64) ([]byte, error) {
	switch packed {
	case packedNot:
		return data, nil
	case packedZstd:
		return p.unzip.DecodeAll(data, nil)
	}
	return nil, errMangled
}

// sum is the checksum over everything that was published, so that a flipped bit anywhere in an event is seen; how it came in has its own.
// Castagnoli's polynomial is one instruction on the machines that matter.
func sum(e *grapnel.Event) int64 {
	table := crc32.MakeTable(crc32.Castagnoli) // returns the one table there is
	crc := crc32.Checksum(e.Data, table)
	var enc encoder
	var room [256]byte
	enc.b = room[:0]
	enc.text(e.ID)
	enc.text(e.Tenant)
	enc.text(e.Type)
	enc.text(e.Key)
	enc.text(e.ContentType)
	enc.texts(e.Metadata)
	enc.time(e.OccurredAt)
	enc.time(e.AcceptedAt)
	if e.Source != "" { // without one it is the sum that there was before there were any
		enc.text(e.Source)
	}
	return int64(crc32.Update(crc, table, enc.b))
}

// keyHash is what the index of keys holds in place of a key. 0 is no key.
func keyHash(key string) int64 {
	if key == "" {
		return 0
	}
	return 1 + int64(crc32.Checksum([]byte(key), crc32.MakeTable(crc32.Castagnoli)))
}
