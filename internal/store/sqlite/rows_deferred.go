package sqlite

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// deferredRows has rows that operations have made and the tables do not have yet: those of event,
// known and finished. The writer writes them when the operations have been answered, several rows
// with one statement, which takes a quarter less time than one by one.
//
// Append and Record call flush before they read one of these rows. All other operations, and the
// commit, write them first (tx.store).
type deferredRows struct {
	bounds   *Bounds
	events   []eventRow
	known    []knownRow
	finished []ended
	data     []byte // the events' data: a caller may change its own when it has its answer
}

// eventRow is a row of event.
type eventRow struct {
	*incoming
	seq, kind, hash, at, occurred, first, made int64
	data                                       []byte
}

// knownRow is a row of known.
type knownRow struct {
	*known
	seq, at, made int64
	event         string
}

var (
	eventAdded = rows.Columns[eventRow]{
		rows.Number("seq", rows.Adds, func(e *eventRow) *int64 { return &e.seq }),
		rows.Textual("id", rows.Adds, func(e *eventRow) *string { return &e.ID }),
		rows.Number("kind", rows.Adds, func(e *eventRow) *int64 { return &e.kind }),
		rows.Textual("key", rows.Adds, func(e *eventRow) *string { return &e.Key }),
		rows.Number("hash", rows.Adds, func(e *eventRow) *int64 { return &e.hash }),
		rows.Number("accepted", rows.Adds, func(e *eventRow) *int64 { return &e.at }),
		rows.Number("occurred", rows.Adds, func(e *eventRow) *int64 { return &e.occurred }),
		rows.Number("first", rows.Adds, func(e *eventRow) *int64 { return &e.first }),
		rows.Number("made", rows.Adds, func(e *eventRow) *int64 { return &e.made }),
		{Name: "content_type", Uses: rows.Adds, Bind: func(s *sqlite3.Stmt, e *eventRow) {
			if e.ContentType == grapnel.JSONType {
				s.Null()
				return
			}
			s.Text(e.ContentType)
		}},
		rows.Blob("metadata", rows.Adds, func(e *eventRow) []byte { return e.frozen.Metadata }),
		rows.Number("packed", rows.Adds, func(e *eventRow) *int64 { return &e.frozen.Packed }),
		rows.Number("sum", rows.Adds, func(e *eventRow) *int64 { return &e.frozen.Sum }),
		rows.Blob("data", rows.Adds, func(e *eventRow) []byte { return e.data }),
		rows.Blob("intake", rows.Adds, func(e *eventRow) []byte { return e.frozen.Intake }),
	}
	knownAdded = rows.Columns[knownRow]{
		rows.Number("seq", rows.Adds, func(k *knownRow) *int64 { return &k.seq }),
		rows.Blob("key", rows.Adds, func(k *knownRow) []byte { return k.key[:] }),
		rows.Blob("sum", rows.Adds, func(k *knownRow) []byte { return k.sum[:] }),
		rows.Number("until", rows.Adds, func(k *knownRow) *int64 { return &k.until }),
		rows.Number("accepted", rows.Adds, func(k *knownRow) *int64 { return &k.at }),
		rows.Number("made", rows.Adds, func(k *knownRow) *int64 { return &k.made }),
		rows.Textual("event", rows.Adds, func(k *knownRow) *string { return &k.event }),
	}
)

// forget drops all rows, and the memory that an unusually large operation took.
func (o *deferredRows) forget() {
	most := 16 * o.bounds.Deferred
	o.events, o.known, o.finished = emptied(o.events, most), emptied(o.known, most), emptied(o.finished, most)
	o.data = emptied(o.data, 2*o.bounds.DeferredBytes)
}

func emptied[R any](rows []R, most int) []R {
	if cap(rows) > most || rows == nil {
		return []R{}
	}
	clear(rows)
	return rows[:0]
}

// rows is their number.
func (o *deferredRows) rows() int { return len(o.events) + len(o.known) + len(o.finished) }

// event says whether the row of an event with this id is deferred.
func (o *deferredRows) event(id string) bool {
	for i := range o.events {
		if o.events[i].ID == id {
			return true
		}
	}
	return false
}

// enough says whether they are written before the next batch.
func (o *deferredRows) enough() bool {
	return o.rows() >= o.bounds.Deferred || len(o.data) >= o.bounds.DeferredBytes
}

// add adds the row of an event.
func (o *deferredRows) add(e *incoming, seq, kind, first int64) {
	row := eventRow{incoming: e, seq: seq, kind: kind, hash: keyHash(e.Key), first: first, made: int64(len(e.targets)),
		at: codec.Micros(e.AcceptedAt), occurred: codec.Micros(e.OccurredAt)}
	if e.frozen.Data != nil {
		begin := len(o.data)
		o.data = append(o.data, e.frozen.Data...)
		row.data = o.data[begin:len(o.data):len(o.data)]
	}
	o.events = append(o.events, row)
}
