package trace

import "encoding/binary"

// message writes fields of a protobuf message. The numbers are those of opentelemetry-proto's
// trace.proto, resource.proto and common.proto, version 1.
type message struct{ b []byte }

// The wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

func (m *message) tag(field, wire int) { m.b = binary.AppendUvarint(m.b, uint64(field<<3|wire)) }

func (m *message) varint(field int, v uint64) {
	m.tag(field, wireVarint)
	m.b = binary.AppendUvarint(m.b, v)
}

func (m *message) fixed64(field int, v uint64) {
	m.tag(field, wireFixed64)
	m.b = binary.LittleEndian.AppendUint64(m.b, v)
}

func (m *message) fixed32(field int, v uint32) {
	m.tag(field, wireFixed32)
	m.b = binary.LittleEndian.AppendUint32(m.b, v)
}

func (m *message) bytes(field int, v []byte) {
	m.tag(field, wireBytes)
	m.b = append(binary.AppendUvarint(m.b, uint64(len(v))), v...)
}

func (m *message) text(field int, v string) {
	if v != "" {
		m.bytes(field, []byte(v))
	}
}

// in writes a message inside the message.
func (m *message) in(field int, fill func(*message)) {
	var inner message
	fill(&inner)
	m.bytes(field, inner.b)
}

func (m *message) attributes(field int, all []Attribute) {
	for i := range all {
		a := &all[i]
		m.in(field, func(m *message) { // KeyValue
			m.text(1, a.Key)
			m.in(2, func(m *message) { // AnyValue; its members are a oneof, so an empty text is written too
				if a.numeric {
					m.varint(3, uint64(a.number)) // int64 is written as its two's complement
				} else {
					m.bytes(1, []byte(a.text))
				}
			})
		})
	}
}

// encodeProto is the body of an export as protobuf: an ExportTraceServiceRequest.
func encodeProto(r *resource, spans []Span) ([]byte, error) {
	var m message
	m.in(1, func(m *message) { // ResourceSpans
		m.in(1, func(m *message) { m.attributes(1, r.attributes) }) // Resource
		m.in(2, func(m *message) {                                  // ScopeSpans
			m.in(1, func(m *message) { m.text(1, scope); m.text(2, r.version) }) // InstrumentationScope
			for i := range spans {
				m.in(2, spans[i].write)
			}
		})
	})
	return m.b, nil
}

// write writes a Span.
func (s *Span) write(m *message) {
	m.bytes(1, s.Trace[:])
	m.bytes(2, s.Context.Span[:])
	if s.Parent != [8]byte{} {
		m.bytes(4, s.Parent[:])
	}
	m.text(5, s.Name)
	m.varint(6, uint64(s.Kind))              // an enum
	m.fixed64(7, uint64(s.Start.UnixNano())) // after 1970
	m.fixed64(8, uint64(s.End.UnixNano()))   // after 1970
	m.attributes(9, s.Attributes)
	if s.Link.Valid() {
		m.in(13, func(m *message) { // Link
			m.bytes(1, s.Link.Trace[:])
			m.bytes(2, s.Link.Span[:])
			m.fixed32(6, uint32(s.Link.Flags))
		})
	}
	if s.Failed != "" {
		m.in(15, func(m *message) { // Status
			m.text(2, s.Failed)
			m.varint(3, statusError)
		})
	}
	m.fixed32(16, uint32(s.Flags))
}
