package sqlite

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// place is a row of pending: the state of an unfinished delivery. Its code and reason are only
// written. Of its lease it has the fields needed to end the lease.
type place struct {
	decide.Pending
	target, tenant int64
	kind           int64  // of its event
	outcome        int64  // of the last attempt
	consumer       string // of its lease
	changed        bool   // by an attempt, and it has no row yet
}

// ended is a row of finished.
type ended struct {
	place
	status grapnel.Status
	at     int64
	last   []byte // its last attempt
	ending int64  // where that is in the table ending; 0: it is in the row
}

var (
	pendingColumns = rows.Columns[place]{
		rows.Number("seq", rows.Adds|rows.Reads, func(d *place) *int64 { return &d.Seq }),
		rows.Number("target", rows.Adds|rows.Reads, func(d *place) *int64 { return &d.target }),
		rows.Number("event", rows.Adds|rows.Reads, func(d *place) *int64 { return &d.Event }),
		rows.Number("tenant", rows.Adds|rows.Reads, func(d *place) *int64 { return &d.tenant }),
		rows.Truth("head", rows.Adds|rows.Reads|rows.Leads, func(d *place) *bool { return &d.Head }),
		rows.Truth("blocked", rows.Adds|rows.Reads|rows.Plans|rows.Leads, func(d *place) *bool { return &d.Blocked }),
		rows.Moment("due", rows.Adds|rows.Reads|rows.Plans|rows.Leads, func(d *place) *int64 { return &d.Due }),
		rows.Moment("anchor", rows.Adds|rows.Reads|rows.Plans|rows.Leads, func(d *place) *int64 { return &d.Anchor }),
		rows.Number("position", rows.Adds|rows.Reads, func(d *place) *int64 { return &d.Position }),
		rows.Number("attempts", rows.Adds|rows.Reads|rows.Plans|rows.Marks, func(d *place) *int { return &d.Attempts }),
		rows.Number("created", rows.Adds|rows.Reads, func(d *place) *int64 { return &d.Created }),
		rows.Number("replay_of", rows.Adds|rows.Reads, func(d *place) *int64 { return &d.ReplayOf }),
		rows.Word(`"trigger"`, rows.Adds|rows.Reads|rows.Plans|rows.Marks, codec.Triggers, func(d *place) *grapnel.Trigger { return &d.Trigger }),
		rows.Word("code", rows.Adds|rows.Plans|rows.Marks, rows.ReasonCodes, func(d *place) *grapnel.ReasonCode { return &d.Code }),
		rows.Textual("reason", rows.Plans|rows.Marks, func(d *place) *string { return &d.Reason }),
		rows.Label("lane", rows.Adds|rows.Reads, func(d *place) *string { return &d.Key }),
		rows.Moment("wide", rows.Reads|rows.Plans, func(d *place) *int64 { return &d.Wide }),
		rows.Number("outcome", rows.Reads|rows.Plans|rows.Marks, func(d *place) *int64 { return &d.outcome }),
		rows.Label("token", rows.Reads|rows.Plans, func(d *place) *string { return &d.Token }),
		rows.Label("consumer", rows.Reads, func(d *place) *string { return &d.consumer }),
		rows.Number("kind", rows.Adds|rows.Reads, func(d *place) *int64 { return &d.kind }),
	}
	finishedColumns = rows.Columns[ended]{
		rows.Number("seq", rows.Adds, func(f *ended) *int64 { return &f.Seq }),
		rows.Number("target", rows.Adds|rows.Reads, func(f *ended) *int64 { return &f.target }),
		rows.Number("event", rows.Adds|rows.Reads, func(f *ended) *int64 { return &f.Event }),
		rows.Number("tenant", rows.Adds, func(f *ended) *int64 { return &f.tenant }),
		rows.Word("status", rows.Adds|rows.Reads, rows.Statuses, func(f *ended) *grapnel.Status { return &f.status }),
		rows.Number("position", rows.Adds|rows.Reads, func(f *ended) *int64 { return &f.Position }),
		rows.Number("attempts", rows.Adds, func(f *ended) *int { return &f.Attempts }),
		rows.Number("created", rows.Adds|rows.Reads, func(f *ended) *int64 { return &f.Created }),
		rows.Number("finished", rows.Adds, func(f *ended) *int64 { return &f.at }),
		rows.Number("replay_of", rows.Adds|rows.Reads, func(f *ended) *int64 { return &f.ReplayOf }),
		rows.Word("code", rows.Adds, rows.ReasonCodes, func(f *ended) *grapnel.ReasonCode { return &f.Code }),
		rows.Textual("reason", rows.Adds, func(f *ended) *string { return &f.Reason }),
		{Name: "last", Uses: rows.Adds, Bind: func(s *sqlite3.Stmt, f *ended) {
			if f.ending == 0 {
				s.Blob(f.last)
				return
			}
			s.Int(f.ending)
		}},
		rows.Number("outcome", rows.Adds, func(f *ended) *int64 { return &f.outcome }),
	}

	pendingAdded, pendingRead = pendingColumns.Of(rows.Adds), pendingColumns.Of(rows.Reads)
	planned, marked, led      = pendingColumns.Of(rows.Plans), pendingColumns.Of(rows.Marks), pendingColumns.Of(rows.Leads)
	finishedAdded             = finishedColumns.Of(rows.Adds)
	finishedRead              = finishedColumns.Of(rows.Reads)
)

// An outcome packs a delivery's result into one number: the status code of its last attempt, 5 bits
// for the class, 3 for the reason code. Lists that ask for one of them read from an index which
// outcomes occur, and read only the deliveries of those that match.
const (
	otherClass  = 31 // a class or a reason code outside its list: the row names it
	otherReason = 7
)

func outcomeOf(last grapnel.Last) int64 {
	class, known := codec.Classes.Place(last.Class)
	if !known {
		class = otherClass
	}
	return int64(last.StatusCode)<<8 | class<<3
}

// withReason is the outcome of a finished delivery.
func withReason(outcome int64, reason grapnel.ReasonCode) int64 {
	code, known := rows.ReasonCodes.Place(reason)
	if !known {
		code = otherReason
	}
	return outcome&^7 | code
}

// tried sets the outcome of an attempt.
func (d *place) tried(attempt []byte) error {
	last, err := codec.DecodeLast(attempt)
	d.outcome = outcomeOf(last)
	return err
}
