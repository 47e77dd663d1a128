package sqlite

import (
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/journal"
)

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	// Batch is the number of requests in one transaction: enough to share its cost among many, few
	// enough that the requests behind it do not wait long.
	Batch int `bound:"512"`
	// Events is the number of deliveries of new events after which no more events come into a batch.
	// While outcomes come in it is the number of their changes, but not less than Share.
	Events int `bound:"512"`
	Share  int `bound:"64"`
	// Enough requests begin a transaction at once: the sync and the log then cost each of them less
	// than its own rows. With fewer the writer lets other goroutines run first, for at most Yield,
	// as long as that brings more.
	Enough int           `bound:"16"`
	Yield  time.Duration `bound:"1ms"`
	// Operations are flushed into the tables when they are so many, have so many bytes or are so old.
	// More make each row cheaper and a start after a crash longer: some 20 µs for each operation.
	Unflushed      int           `bound:"16384"`
	UnflushedBytes int64         `bound:"8MiB" tiny:"8KiB"`
	FlushEvery     time.Duration `bound:"4s" tiny:"5ms"`
	// FlushPages is how many pages a flush writes, as far as that can be foreseen: everything waits
	// until they are written. Under a long backlog one operation changes several pages, then flushes
	// have few operations, but not less than FlushLeast.
	FlushPages int `bound:"8192" tiny:"1"`
	FlushLeast int `bound:"64" tiny:"1"`

	// Rows is how many rows one statement adds. Between two batches the writer writes the rows that
	// the tables lack if they are Deferred or have DeferredBytes of data.
	Rows          int `bound:"16"`
	Deferred      int `bound:"64"`
	DeferredBytes int `bound:"256KiB" tiny:"1KiB"`

	// Behind is how many deliveries may be created after one before it counts as ended late. The rows
	// of late ones come in any order and change a page each, so they are kept small.
	Behind int64 `bound:"16384" tiny:"1"`

	// Half is how many operations a half of the journal holds at most. After a loss of power those of
	// both halves may have to be applied again, which takes less than a second.
	Half    int `bound:"32768" tiny:"64"`
	Journal journal.Bounds

	// Data of new events that have LeastApart bytes or more go to a file of their own, if a batch has
	// Apart bytes of them. Below that the second sync costs more than is saved.
	// The file grows by ApartStep, and is written ApartWrite bytes at once.
	Apart      int   `bound:"16KiB" tiny:"1"`
	LeastApart int   `bound:"1536" tiny:"2"`
	ApartStep  int64 `bound:"4MiB" tiny:"4KiB"`
	ApartWrite int   `bound:"256KiB" tiny:"16"`
	// Beside is how many rows before and after a purged event are examined for the data next to its
	// own. If all of them have their data in themselves, up to two blocks of the file system stay.
	Beside int `bound:"1024" tiny:"2"`

	// Readers is the number of concurrent reads.
	Readers int `bound:"4"`
	// Retry is the pause before a full disk is checked again.
	Retry time.Duration `bound:"1s" tiny:"5ms"`
	// Probe is the free space at which a disk without a ballast counts as usable again.
	Probe int64 `bound:"1MiB" tiny:"4KiB"`

	// The memory that a connection keeps pages in. It takes about three times as much from the
	// system: a page with its header is a little more than the power of two that the allocator has
	// for it. More makes nothing faster: a page that is not here is in the memory of the operating
	// system. But while each operation changes other pages, as behind a backlog of many endpoints, the
	// writer has WideCache: with less SQLite writes changed pages early, and those that change again
	// several times.
	WriterCache     int64 `bound:"16MiB" tiny:"16KiB"`
	WideCache       int64 `bound:"48MiB" tiny:"32KiB"`
	ReaderCache     int64 `bound:"2MiB" tiny:"16KiB"`
	CheckpointCache int64 `bound:"64KiB" tiny:"16KiB"`

	// Rest is how long after the last batch unused connections give that memory back.
	Rest time.Duration `bound:"3s" tiny:"5ms"`

	// Checkpoint is the size of the log, in pages, that is worth a checkpoint and its two syncs: 32
	// MiB. The log is copied at most once in CopyEvery, unless CopyAtOnce times as many pages are
	// in it. The writer copies the rest at most once in RestEvery, unless the log is LogAtMost
	// times as long.
	Checkpoint int           `bound:"4096"`
	CopyEvery  time.Duration `bound:"500ms" tiny:"1ms"`
	CopyAtOnce int           `bound:"8"`
	RestEvery  time.Duration `bound:"10s" tiny:"1ms"`
	LogAtMost  int           `bound:"16"`
	// WriteBack is how much of the log, and of the database, a checkpoint writes to the device at once
	// before it syncs them.
	WriteBack int64 `bound:"512KiB" tiny:"4KiB"`
	// Spare is how many pages the log may have while the disk is full: half a MiB.
	Spare int `bound:"64"`
	// Tries is the number of times that emptying the log waits for a moment without reads. After that
	// new reads have to wait.
	Tries int `bound:"8"`
	// Pause is the longest time between two of them. The first is a millisecond.
	Pause time.Duration `bound:"100ms" tiny:"1ms"`

	// IDs is how many ids of events the writer remembers, and as many earlier ones.
	IDs int `bound:"2048"`
	// Ahead is how many ids above those of the server an open reads: half a second.
	Ahead int `bound:"262144"`
	// Names bounds each map of names that the writer caches, and the map of drained endpoints.
	// Publishers invent types, so their number is unbounded.
	Names int `bound:"16384"`
	// Accounts and TypeTotals are how many accounts and totals of event types the writer remembers:
	// about two and a half kilobytes each.
	Accounts   int `bound:"4096"`
	TypeTotals int `bound:"2048"`
	// Recent is how many deduplication keys are in memory before they go to the index: about 8 MB,
	// and as much again while they go there, Moved of them in each transaction.
	Recent int `bound:"131072"`
	Moved  int `bound:"256"`

	// The rows that one transaction removes or rewrites: few, because other requests wait for its
	// end.
	Purged    int `bound:"16"` // deliveries
	Scrubbed  int `bound:"32"` // pages
	Cleared   int `bound:"64"` // audit entries, documents and rows of replays
	Unlearned int `bound:"64"` // deduplication keys and requests that were set aside
	Merged    int `bound:"64"` // rows of totals that become part of a day
	// Noted is how many rows of source_block, and of delivered_outcome, one call of Purge looks at.
	Noted int `bound:"2048"`
	// Slack is how far a clock may have been set back without delaying a purge: a block of events
	// is read when it is this much younger than necessary.
	Slack time.Duration `bound:"1h"`

	// Chunk is how many numbers a list reads from an index at once. Most lists show fifty.
	Chunk int `bound:"64"`
	// Wanted is the number of values that are looked up in a block one by one. For more the block
	// is read as a whole.
	Wanted int `bound:"100"`
	// Span is how many blocks one statement looks into for a value.
	Span int `bound:"32" tiny:"2"`
	// Targets is the number of endpoints up to which a list reads endpoint by endpoint. With more it
	// reads all deliveries.
	Targets int `bound:"4096"`
	// MadeDue is how many heads one operation of MakeDue examines.
	MadeDue int `bound:"1000"`
	// Gathered is how many pending deliveries of an endpoint are gathered and sorted.
	Gathered int `bound:"5000"`
	// FewHeads is how many heads of an endpoint are read one by one to count them by due time. As
	// many take as long as counting 36 ranges.
	FewHeads int `bound:"512" tiny:"3"`
	// FirstLook is the number of deliveries that a list examines in one way before it tries another.
	FirstLook int `bound:"500"`
	// Looked is the number of deliveries that Candidates examines in one call: some tens of
	// milliseconds.
	Looked int `bound:"2000"`
	// Keys is the number of keys up to which Candidates looks keys up one by one. With more it
	// examines each delivery.
	Keys int `bound:"20"`

	// A search examines at most Searched deliveries and SearchedBytes of data. It stops after
	// SearchFor, as on a busy machine, but not before it has examined LeastSearched deliveries.
	Searched      int           `bound:"10000"`
	SearchedBytes int64         `bound:"16MiB" tiny:"1KiB"`
	LeastSearched int           `bound:"100"`
	SearchFor     time.Duration `bound:"10ms" tiny:"1ms"`
	LeastBlocks   int           `bound:"8" tiny:"2"` // looked into in any case

	Documents store.DocumentBounds
}
