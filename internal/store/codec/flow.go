package codec

import "time"

// Flow writes the fields of a value to bytes, or reads them from bytes. One function that names
// each field once does both, so that a field cannot be read in another place than it was written:
//
//	func (p *person) flow(f *codec.Flow) {
//		codec.Text(f, &p.name)
//		codec.Number(f, &p.age)
//	}
//
// A field is added at the end, and only in bytes of a new format. Writing changes no field: a value
// may be written by several goroutines.
type Flow struct {
	to      encoder
	from    decoder
	reading bool
}

// Into is a flow that appends to bytes.
func Into(b []byte) *Flow { return &Flow{to: encoder{b}} }

// From is a flow that reads bytes. Blobs that it reads are parts of them.
func From(b []byte) *Flow { return &Flow{from: decoder{b: b}, reading: true} }

// Bytes are those given to Into, followed by the written fields.
func (f *Flow) Bytes() []byte { return f.to.b }

// Reads says whether it reads.
func (f *Flow) Reads() bool { return f.reading }

// More says whether bytes are left to read.
func (f *Flow) More() bool { return len(f.from.b) > 0 }

// Bad says whether something could not be read.
func (f *Flow) Bad() bool { return f.from.bad }

// End is ErrMangled if a field could not be read, or if bytes are left.
func (f *Flow) End() error {
	if f.from.bad || len(f.from.b) > 0 {
		return ErrMangled
	}
	return nil
}

// Number is an integer.
func Number[N ~int | ~int64](f *Flow, n *N) {
	if f.reading {
		*n = N(f.from.int())
		return
	}
	f.to.int(int64(*n))
}

// Text is a text.
func Text[T ~string](f *Flow, s *T) {
	if f.reading {
		*s = T(f.from.text())
		return
	}
	f.to.text(string(*s))
}

// Truth is true or false.
func Truth(f *Flow, b *bool) {
	n := 0
	if *b {
		n = 1
	}
	if Number(f, &n); f.reading {
		*b = n == 1
	}
}

// Time is a moment, exact to the nanosecond. It is read in UTC.
func Time(f *Flow, t *time.Time) {
	seconds, rest := t.Unix(), t.Nanosecond()
	Number(f, &seconds)
	Number(f, &rest)
	if f.reading {
		*t = time.Unix(seconds, int64(rest)).UTC()
	}
}

// Blob is bytes; none and empty differ.
func Blob(f *Flow, b *[]byte) {
	if !f.reading {
		if *b == nil {
			f.to.uint(0)
			return
		}
		f.to.uint(uint64(len(*b)) + 1)
		f.to.b = append(f.to.b, *b...)
		return
	}
	if n := f.from.uint(); n == 0 {
		*b = nil
	} else if *b = f.from.take(n - 1); *b == nil && !f.from.bad {
		*b = []byte{}
	}
}

// Fixed is a fixed number of bytes.
func Fixed(f *Flow, b []byte) {
	if f.reading {
		copy(b, f.from.take(uint64(len(b))))
		return
	}
	f.to.b = append(f.to.b, b...)
}

// Many are values of one kind.
func Many[T any](f *Flow, all *[]T, each func(*T, *Flow)) {
	n := len(*all)
	if Number(f, &n); f.reading {
		if *all = nil; n < 0 || n > len(f.from.b) { // each takes a byte at least
			f.from.b, f.from.bad = nil, true
			return
		}
		if n > 0 {
			*all = make([]T, n)
		}
	}
	for i := range *all {
		each(&(*all)[i], f)
	}
}

// Maybe is a value that may be absent.
func Maybe[T any](f *Flow, v **T, fields func(*T, *Flow)) {
	there := *v != nil
	if Truth(f, &there); f.reading {
		if *v = nil; there {
			*v = new(T)
		}
	}
	if there {
		fields(*v, f)
	}
}
