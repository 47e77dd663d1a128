package sqlite3

import (
	"encoding/binary"
	"math/bits"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
)

// An arena's first chunk, and the most that it keeps for the next execution of its statement.
const (
	smallChunk = 1 << 10
	largeChunk = 64 << 10
)

func (a *arena) room(size int) uintptr {
	if size > a.left {
		a.grow(max(smallChunk, size))
	}
	p := a.next
	a.next += uintptr(size)
	a.left -= size
	return p
}

func (a *arena) grow(size int) {
	p := malloc(a.tls, size)
	a.chunks = append(a.chunks, p)
	a.size += size
	a.next, a.left = p, size
}

// bytes and text copy a value. The address is never null, which would stand for NULL.
func (a *arena) bytes(b []byte) uintptr {
	p := a.room(len(b) + 1)
	copy(libc.GoBytes(p, len(b)), b)
	return p
}

func (a *arena) text(s string) uintptr {
	p := a.room(len(s) + 1)
	copy(libc.GoBytes(p, len(s)), s)
	return p
}

// reset drops the values. A statement that needed several chunks gets one of their total size,
// unless that is too large to retain.
func (a *arena) reset() {
	switch {
	case len(a.chunks) == 1 && a.size <= largeChunk:
		a.next, a.left = a.chunks[0], a.size
	case len(a.chunks) > 0:
		size := a.size
		a.free()
		if size <= largeChunk {
			a.grow(size)
		}
	}
}

func (a *arena) free() {
	for _, p := range a.chunks {
		libc.Xfree(a.tls, p)
	}
	a.chunks, a.size, a.left = nil, 0, 0
}

// pointer and int32At read the value that a call stored at an address.
func pointer(at uintptr) uintptr {
	if bits.UintSize == 32 {
		return uintptr(binary.NativeEndian.Uint32(libc.GoBytes(at, 4)))
	}
	return uintptr(binary.NativeEndian.Uint64(libc.GoBytes(at, 8)))
}

func int32At(at uintptr) int32 { return int32(binary.NativeEndian.Uint32(libc.GoBytes(at, 4))) }

func malloc(tls *libc.TLS, size int) uintptr {
	p := libc.Xmalloc(tls, types.Size_t(size))
	if p == 0 {
		panic("sqlite3: out of memory")
	}
	return p
}
