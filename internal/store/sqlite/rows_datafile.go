package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/journal"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// dataFile is the file beside the database that has the data of events above a size which are
// accepted under load. Their rows say where they are. So data are written once, and not to the
// journal, to SQLite's log and to the database.
//
// The data of a batch are synced before its frame is written: a valid frame, and so a row, refers
// to data that are on the disk. The file only grows, and rows refer to rising places. A purge makes
// holes in it (keep_holes.go). Data without a row (of a repeated event, or of a batch that a crash
// cut off) become a part of these.
//
// Each write ends with a mark: the key of the database and where it ends. The tables and each frame
// say where the last write ends, so a start notices a file that is too short or of another moment.
//
// The writer calls all methods but thaw and punch, which any goroutine may call.
type dataFile struct {
	path   string
	copied bool // the file belongs to the database of which this one is a copy: it is only read
	bounds *Bounds

	file  atomic.Pointer[os.File] // nil: none is used
	used  bool                    // what the next commit notes: rows may refer to it
	noted bool                    // what the tables say, also after a loss of power
	never bool                    // it cannot be used here
	key   uint64                  // of the database
	at    atomic.Int64            // where the next data go
	until int64                   // where the last write ends that rows may refer to; 0: unknown
	grown int64                   // the file has blocks up to here
	last  int64                   // the highest place that a row refers to, as far as this process knows
	found []*codec.Frozen
	out   []byte
}

const (
	dataMagic  = "grapnel data v1\n"
	dataHeader = 4096
)

// open opens the file of a database that refers to it. Beside another one, such as a backup in the
// place of its database, there must be none with data: create would overwrite it.
func (d *dataFile) open(p position) error {
	if err := d.close(); err != nil { // of an earlier try
		return err
	}
	if d.used, d.noted, d.key, d.until = p.data, p.data, p.key, 0; !p.data {
		if info, err := os.Stat(d.path); !d.copied && err == nil && info.Size() > 2*dataHeader {
			return fmt.Errorf("%s has data of events of another database: move that file away, or put its database back", d.path)
		}
		return nil
	}
	mode := os.O_RDWR
	if d.copied {
		mode = os.O_RDONLY
	}
	file, err := os.OpenFile(d.path, mode, 0)
	if d.copied && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return d.missing(err)
	}
	d.file.Store(file)
	var head [dataHeader]byte
	info, err := file.Stat()
	if err == nil {
		_, err = file.ReadAt(head[:], 0)
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case err != nil || string(head[:]) != string(newHead(p.key)):
		return d.missing(errors.New("the file belongs to another database"))
	case p.until > 0 && !p.needed && info.Size() > p.until:
		return fmt.Errorf("%s is newer than the database: it has data up to %d, and the database refers to %d; %s",
			d.path, info.Size(), p.until, wayOut)
	}
	d.until = p.until
	if err := d.marked(); err != nil {
		return err
	}
	// Behind the last row's data may be some of a batch that was not answered.
	d.begin(max(info.Size(), d.until))
	return nil
}

// begin lets the next data go behind a place.
func (d *dataFile) begin(behind int64) {
	d.grown = (behind + dataHeader - 1) &^ (dataHeader - 1)
	d.at.Store(d.grown)
}

// reaches notes that a frame was written when the file's last write ended there.
func (d *dataFile) reaches(until int64) { d.until = max(d.until, until) }

// marked fails unless the file has the last write that the tables and the frames know of.
func (d *dataFile) marked() error {
	file := d.file.Load()
	if file == nil || d.copied || d.until <= dataHeader {
		return nil
	}
	there := make([]byte, markSize)
	switch _, err := file.ReadAt(there, d.until-markSize); {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case err != nil || string(there) != string(d.mark(nil, d.until)):
		return d.missing(fmt.Errorf("the file is older or was cut off: the database refers to data up to %d, which are not there", d.until))
	}
	return nil
}

const markSize = 16

// mark appends what the last bytes of a write are that ends at a place.
func (d *dataFile) mark(b []byte, until int64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, d.key), uint64(until))
}

// settle ends the file behind the last write, before the tables say that they need no journal. So a
// file that is longer then is of a later moment.
func (d *dataFile) settle() error {
	file := d.file.Load()
	if file == nil || d.copied || !d.used || d.until == 0 {
		return nil
	}
	if err := d.marked(); err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(d.until), file.Sync()); err != nil {
		return err
	}
	d.begin(d.until)
	return nil
}

func (d *dataFile) missing(err error) error {
	return fmt.Errorf("events of the database have their data in %s. Put that file back; for a copy that was made without it, "+
		"see `grapnel backup`: %w", d.path, err)
}

func newHead(key uint64) []byte {
	head := make([]byte, dataHeader)
	binary.LittleEndian.PutUint64(head[copy(head, dataMagic):], key)
	return head
}

// whole returns data and their encoding, from the file if they are there.
func (d *dataFile) whole(data []byte, packed int64) ([]byte, int64, error) {
	place, packed, apart := codec.Apart(data, packed)
	if !apart {
		return data, packed, nil
	}
	file := d.file.Load()
	if file == nil || place.Until > d.at.Load() {
		return nil, 0, codec.ErrMangled
	}
	there := make([]byte, place.Until-place.At)
	switch _, err := file.ReadAt(there, place.At); {
	case errors.Is(err, io.EOF):
		return nil, 0, codec.ErrMangled
	case err != nil:
		return nil, 0, fmt.Errorf("%w: %w", journal.ErrFailed, err)
	}
	return there, packed, nil
}

// rises notes that a new row refers to its data. They are behind those of earlier rows, or a purge
// would remove them together with those (keep_holes.go).
func (d *dataFile) rises(f *codec.Frozen) error {
	place, _, apart := codec.Apart(f.Data, f.Packed)
	if apart && place.At < d.last {
		return fmt.Errorf("sqlite: %w: data at %d come after those up to %d", errNotRising, place.At, d.last)
	}
	d.last = max(d.last, place.Until)
	return nil
}

// same says whether an event's data in a row are those of another event with its id. It needs no
// context, because the sealer has all keys in memory. It has none while a copy's journal is applied
// for a backup: a repeated publish of sealed data is no duplicate then, and the copy counts one
// duplicate less.
func (d *dataFile) same(p *codec.Packer, e *incoming, data []byte, packed int64) (bool, error) {
	var here codec.Frozen
	var err error
	if here.Data, here.Packed, err = d.whole(e.frozen.Data, e.frozen.Packed); err != nil {
		return false, err
	}
	if data, packed, err = d.whole(data, packed); err != nil {
		return false, err
	}
	return p.Same(context.Background(), &e.Event, &here, data, packed)
}

// close closes the file.
func (d *dataFile) close() error {
	if file := d.file.Swap(nil); file != nil {
		return file.Close()
	}
	return nil
}

// position is the row of the table journal.
type position struct {
	key        uint64
	number     uint64 // of the last batch in the tables
	needed     bool   // the journal may have later ones
	generation uint64 // of the journal
	frame      uint64 // of the last batch in the tables that the journal had
	alone      uint64 // the file of the tables has the batches up to here without SQLite's log
	data       bool   // rows may refer to the file of data
	until      int64  // where in the file of data its last write ends
}

const journalQuery = "SELECT key, number, needed, data, generation, frame, alone, until FROM journal"

// widened is added to the numbers in the row, which keeps its size so; see the table journal.
const widened = 1 << 62

func narrowed(n int64) uint64 { return uint64(n &^ widened) }

func readPosition(conn *sqlite3.Conn) (p position, err error) {
	q := conn.Query(journalQuery)
	err = rows.Single(q, func() {
		p = position{key: uint64(q.Integer(0)), number: narrowed(q.Integer(1)), needed: q.Integer(2) == 1, data: q.Integer(3) == 1,
			generation: uint64(q.Integer(4)), frame: narrowed(q.Integer(5)), alone: narrowed(q.Integer(6)), until: int64(narrowed(q.Integer(7)))}
	})
	return p, err
}

const wayOut = "put the files of one moment back, or restore a backup"
