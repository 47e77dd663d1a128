package sqlite3

import (
	"errors"
	"slices"
	"syscall"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SyncInParts makes each sync of the database file call flush before, for every part of this size
// that the connection has written. flush writes it to the device, and waits. It gets SQLite's own
// file descriptor, which must stay open: closing any descriptor of the file would release SQLite's
// locks. An error of the device is reported once for each descriptor, so the sync would not report
// an error that flush has seen: if flush fails, the sync fails.
func (c *Conn) SyncInParts(size int64, flush func(fd int, at, size int64) error) error {
	name := c.texts.text("main\x00")
	rc := sqlite3.Xsqlite3_file_control(c.tls, c.db, name, sqlite3.SQLITE_FCNTL_FILE_POINTER, c.out)
	c.texts.reset()
	if rc != sqlite3.SQLITE_OK {
		return c.failure(rc)
	}
	file := at[sqlite3.TunixFile](pointer(c.out))
	p := &parts{size: size, flush: flush, methods: malloc(c.tls, int(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})))}
	methods := at[sqlite3.Tsqlite3_io_methods](p.methods)
	*methods = *at[sqlite3.Tsqlite3_io_methods](file.FpMethod)
	p.before.write, p.before.sync = *as[xWrite](&methods.FxWrite), *as[xSync](&methods.FxSync)
	p.instead.write, p.instead.sync = p.write, p.sync
	methods.FxWrite, methods.FxSync = *as[uintptr](&p.instead.write), *as[uintptr](&p.instead.sync)
	c.parts, file.FpMethod = p, p.methods
	return nil
}

func (p *parts) write(tls *libc.TLS, file, data uintptr, size int32, at int64) int32 {
	for part := at / p.size; part*p.size < at+int64(size); part++ {
		if i, there := slices.BinarySearch(p.dirty, part); !there {
			p.dirty = slices.Insert(p.dirty, i, part)
		}
	}
	return p.before.write(tls, file, data, size, at)
}

func (p *parts) sync(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := at[sqlite3.TunixFile](file)
	for _, part := range p.dirty {
		if err := p.flush(int(f.Fh), part*p.size, p.size); err != nil {
			var number syscall.Errno
			errors.As(err, &number)
			*at[int32](libc.X__errno_location(tls)) = int32(number)
			return sqlite3.SQLITE_IOERR_FSYNC
		}
	}
	p.dirty = p.dirty[:0]
	return p.before.sync(tls, file, flags)
}

// free gives the table back after the connection was closed.
func (p *parts) free(tls *libc.TLS) { libc.Xfree(tls, p.methods) }

// at returns the variable at an address of SQLite's memory.
func at[T any](address uintptr) *T { return *as[*T](&address) }

// as reads a variable as another type. SQLite has for a function the same pointer that a
// Go variable with that function holds.
func as[T, V any](v *V) *T { return (*T)(unsafe.Pointer(v)) }
