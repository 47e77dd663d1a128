package sqlite3

import (
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite/lib"
)

// SQLite writes a page to the write-ahead log in two calls of the system, its frame's header and then itself. Twenty pages are a small
// transaction, and each of those calls is work and a chance to lose the processor while others wait for the commit. So what a connection writes
// to its log is gathered here and written in few calls, which took an eighth of the processor time off a request that comes in.
//
// Nothing is held back from anybody who may look. What is gathered is written before this connection reads, syncs, measures or truncates the
// file; others read of the log only what was committed, which is after the sync. Frames of a transaction that was rolled back may be written late:
// they are where the next one's go, or behind the end, as they would be without this.

// gatherMost is how much is gathered. SQLite cannot write more than this at once: it takes the length modulo 128 KiB.
const gatherMost = 128<<10 - 1

// gathering is what a file of SQLite's has in place of its table of methods. It lies in SQLite's memory.
type gathering struct {
	methods  sqlite3.Tsqlite3_io_methods // the file points here, so it comes first
	original *sqlite3.Tsqlite3_io_methods
	bytes    uintptr // what is gathered
	length   int32
	offset   int64 // where in the file it belongs
}

// GatherLog makes the connection write to its write-ahead log in few calls. The log must be open.
func (c *Conn) GatherLog() error {
	name := c.texts.text("main\x00")
	rc := sqlite3.Xsqlite3_file_control(c.tls, c.db, name, sqlite3.SQLITE_FCNTL_JOURNAL_POINTER, c.out)
	c.texts.reset()
	if rc != sqlite3.SQLITE_OK {
		return c.failure(rc)
	}
	file := fileAt(pointer(c.out))
	here := malloc(c.tls, int(unsafe.Sizeof(gathering{})))
	g := (*gathering)(memory(here))
	original := (*sqlite3.Tsqlite3_io_methods)(memory(file.FpMethods))
	*g = gathering{methods: *original, original: original, bytes: malloc(c.tls, gatherMost)}
	g.methods.FxWrite, g.methods.FxRead, g.methods.FxSync = address(gatherWrite), address(gatherRead), address(gatherSync)
	g.methods.FxTruncate, g.methods.FxFileSize = address(gatherTruncate), address(gatherFileSize)
	file.FpMethods, c.gathered = here, g
	return nil
}

func (g *gathering) free(tls *libc.TLS) {
	libc.Xfree(tls, g.bytes)
	libc.Xfree(tls, uintptr(unsafe.Pointer(g)))
}

// The methods of a file, as the translated library calls them.
type (
	moving     = func(tls *libc.TLS, file, memory uintptr, size int32, offset int64) int32 // reading or writing
	syncing    = func(tls *libc.TLS, file uintptr, flags int32) int32
	truncating = func(tls *libc.TLS, file uintptr, size int64) int32
	measuring  = func(tls *libc.TLS, file, into uintptr) int32
)

// memory is what is at an address that SQLite has given.
func memory(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

func fileAt(address uintptr) *sqlite3.Tsqlite3_file { return (*sqlite3.Tsqlite3_file)(memory(address)) }

func gatheringOf(file uintptr) *gathering { return (*gathering)(memory(fileAt(file).FpMethods)) }

// address is where the translated library finds a function, which must be no closure; function is the function that is there.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&struct{ p uintptr }{address})) }

func gatherWrite(tls *libc.TLS, file, from uintptr, size int32, offset int64) int32 {
	g := gatheringOf(file)
	if offset != g.offset+int64(g.length) || size > gatherMost-g.length {
		if rc := g.flush(tls, file); rc != sqlite3.SQLITE_OK {
			return rc
		}
		g.offset = offset
	}
	if size > gatherMost {
		return function[moving](g.original.FxWrite)(tls, file, from, size, offset)
	}
	copy(libc.GoBytes(g.bytes+uintptr(g.length), int(size)), libc.GoBytes(from, int(size)))
	g.length += size
	return sqlite3.SQLITE_OK
}

// flush writes what is gathered. If that fails it is forgotten: the transaction that it is of fails.
func (g *gathering) flush(tls *libc.TLS, file uintptr) int32 {
	size := g.length
	if size == 0 {
		return sqlite3.SQLITE_OK
	}
	g.length = 0
	return function[moving](g.original.FxWrite)(tls, file, g.bytes, size, g.offset)
}

func gatherRead(tls *libc.TLS, file, into uintptr, size int32, offset int64) int32 {
	g := gatheringOf(file)
	if rc := g.flush(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[moving](g.original.FxRead)(tls, file, into, size, offset)
}

func gatherSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	g := gatheringOf(file)
	if rc := g.flush(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[syncing](g.original.FxSync)(tls, file, flags)
}

func gatherTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	g := gatheringOf(file)
	if rc := g.flush(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[truncating](g.original.FxTruncate)(tls, file, size)
}

func gatherFileSize(tls *libc.TLS, file, into uintptr) int32 {
	g := gatheringOf(file)
	if rc := g.flush(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return function[measuring](g.original.FxFileSize)(tls, file, into)
}
