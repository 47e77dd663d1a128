package rows

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// arrayCodec encodes the arrays that statements bind, and leaves all else to pgx. For each element
// pgx calls a plan through interfaces, and enlarges its buffer step by step; this plan knows the
// type, and computes the size of the array first.
type arrayCodec struct {
	pgtype.Codec
	plan arrayEncoder
}

type arrayEncoder interface {
	pgtype.EncodePlan
	fits(value any) bool
}

func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode && c.plan.fits(value) {
		return c.plan
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// arrayPlan encodes a slice as an array.
type arrayPlan[T any] struct {
	element uint32      // its type
	size    func(T) int // in bytes; negative: NULL
	add     func([]byte, T) []byte
}

func (arrayPlan[T]) fits(value any) bool {
	_, is := value.([]T)
	return is
}

func (p arrayPlan[T]) Encode(value any, b []byte) ([]byte, error) {
	list := value.([]T)
	sizes, null := 0, uint32(0)
	for _, v := range list {
		n := p.size(v)
		if n < 0 {
			null = 1
		}
		sizes += max(n, 0)
	}
	const dimensions, lowest = 1, 1
	b = slices.Grow(b, 4*(5+len(list))+sizes)
	for _, field := range [...]uint32{dimensions, null, p.element, uint32(len(list)), lowest} {
		b = binary.BigEndian.AppendUint32(b, field)
	}
	for _, v := range list {
		n := p.size(v)
		if b = binary.BigEndian.AppendUint32(b, uint32(int32(n))); n >= 0 {
			b = p.add(b, v)
		}
	}
	return b, nil
}

var arrayPlans = map[string]arrayEncoder{
	"_int2": arrayPlan[int16]{pgtype.Int2OID, func(int16) int { return 2 },
		func(b []byte, n int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(n)) }},
	"_int4": arrayPlan[int32]{pgtype.Int4OID, func(int32) int { return 4 },
		func(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }},
	"_int8": arrayPlan[int64]{pgtype.Int8OID, func(int64) int { return 8 },
		func(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }},
	"_text": arrayPlan[string]{pgtype.TextOID, func(s string) int { return len(s) },
		func(b []byte, s string) []byte { return append(b, s...) }},
	"_bytea": arrayPlan[[]byte]{pgtype.ByteaOID, func(data []byte) int {
		if data == nil {
			return -1
		}
		return len(data)
	}, func(b, data []byte) []byte { return append(b, data...) }},
}

// PlanArrays has a connection's arrays encoded with arrayPlans.
func PlanArrays(types *pgtype.Map) {
	for name, plan := range arrayPlans {
		if t, known := types.TypeForName(name); known {
			types.RegisterType(&pgtype.Type{Name: name, OID: t.OID, Codec: arrayCodec{t.Codec, plan}})
		}
	}
}
