package sqlite3

import (
	"errors"
	"fmt"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite/lib"
)

// SQLite writes a page to the write-ahead log with two system calls, for its frame's header and for
// the page. Twenty pages are a small transaction, and each call is work and a chance to lose the
// processor while others wait for the commit. So a connection's writes to its log are gathered here
// and written with few calls, which saves an eighth of the processor time of an incoming request.
//
// Readers never miss a frame: gathered bytes are written before this connection reads, syncs,
// measures or truncates the file, and with synchronous = FULL a commit is published to other
// connections only after its sync.
//
// Nothing is written late, over pages that another connection has committed meanwhile. A rollback
// drops the gathered bytes: SQLite never reads those frames again, and the next writer, this
// connection or another, writes at the same position. Outside of a transaction the buffer is
// therefore empty: a commit ends with a sync, and everything else ends with a rollback.
//
// Both depend on how SQLite uses the file, so GatherLog refuses a version of the library that was
// not checked.

// gatherMost is how much can be gathered. SQLite cannot write more than this at once: it takes the
// length modulo 128 KiB.
const gatherMost = 128<<10 - 1

// gatherVersion is the version of SQLite against which the comment above was checked. For another
// version check again: when wal.c writes, syncs and publishes frames, whether each rollback of a
// transaction ends in the rollback hook (main.c, sqlite3RollbackAll), and the mask of nBuf in
// os_unix.c.
const gatherVersion = "3.53.4"

// gathering replaces the table of methods of one of SQLite's files. It is in SQLite's memory.
type gathering struct {
	methods  sqlite3.Tsqlite3_io_methods // the file points here, so it comes first
	original *sqlite3.Tsqlite3_io_methods
	bytes    uintptr // the gathered bytes
	most     int32   // how much fits
	length   int32
	offset   int64 // where in the file it belongs
}

// gatherable says why nothing may be gathered with a version of SQLite and a setting of PRAGMA
// synchronous.
func gatherable(version string, synchronous int64) error {
	const full = 2
	switch {
	case version != gatherVersion:
		return fmt.Errorf("sqlite3: gathering writes to the log was checked with SQLite %s, and this is %s: "+
			"check it again as the comment of gatherVersion says", gatherVersion, version)
	case synchronous < full:
		return fmt.Errorf("sqlite3: gathering writes to the log needs synchronous = FULL (%d), and it is %d", full, synchronous)
	}
	return nil
}

// GatherLog makes the connection write to its write-ahead log with few calls, of at most `most`
// bytes. The log must be open. The connection uses its rollback hook.
func (c *Conn) GatherLog(most int) error {
	q, err := c.Prepare("PRAGMA synchronous")
	if err != nil {
		return err
	}
	found, err := q.Row()
	if !found {
		return errors.Join(errors.New("sqlite3: PRAGMA synchronous has no value"), err)
	}
	synchronous := q.Integer(0)
	q.Reset()
	if err := gatherable(Version, synchronous); err != nil {
		return err
	}
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
	most = min(most, gatherMost)
	*g = gathering{methods: *original, original: original, bytes: malloc(c.tls, most), most: int32(most)}
	g.methods.FxWrite, g.methods.FxRead, g.methods.FxSync = address(gatherWrite), address(gatherRead), address(gatherSync)
	g.methods.FxTruncate, g.methods.FxFileSize = address(gatherTruncate), address(gatherFileSize)
	file.FpMethods, c.gathered = here, g
	sqlite3.Xsqlite3_rollback_hook(c.tls, c.db, address(gatherForget), here)
	return nil
}

// gatherForget is the rollback hook.
func gatherForget(_ *libc.TLS, here uintptr) { (*gathering)(memory(here)).length = 0 }

// ForgetGathered drops the gathered bytes. It is for the beginning of a transaction, when the
// buffer should be empty.
func (c *Conn) ForgetGathered() {
	if c.gathered != nil {
		c.gathered.length = 0
	}
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

// memory is the memory at an address that SQLite has returned.
func memory(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

func fileAt(address uintptr) *sqlite3.Tsqlite3_file { return (*sqlite3.Tsqlite3_file)(memory(address)) }

func gatheringOf(file uintptr) *gathering { return (*gathering)(memory(fileAt(file).FpMethods)) }

// address is the value by which the translated library calls a function. It must be no closure;
// function is the reverse.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f})) }

func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&struct{ p uintptr }{address})) }

func gatherWrite(tls *libc.TLS, file, from uintptr, size int32, offset int64) int32 {
	g := gatheringOf(file)
	if offset != g.offset+int64(g.length) || size > g.most-g.length {
		if rc := g.flush(tls, file); rc != sqlite3.SQLITE_OK {
			return rc
		}
		g.offset = offset
	}
	if size > g.most {
		return function[moving](g.original.FxWrite)(tls, file, from, size, offset)
	}
	copy(libc.GoBytes(g.bytes+uintptr(g.length), int(size)), libc.GoBytes(from, int(size)))
	g.length += size
	return sqlite3.SQLITE_OK
}

// flush writes the gathered bytes. If that fails they are dropped: their transaction fails.
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
