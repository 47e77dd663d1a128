package sqlite

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/decide"
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
	pendingColumns = columns[place]{
		number("seq", adds|reads, func(d *place) *int64 { return &d.Seq }),
		number("target", adds|reads, func(d *place) *int64 { return &d.target }),
		number("event", adds|reads, func(d *place) *int64 { return &d.Event }),
		number("tenant", adds|reads, func(d *place) *int64 { return &d.tenant }),
		truth("head", adds|reads|leads, func(d *place) *bool { return &d.Head }),
		truth("blocked", adds|reads|plans|leads, func(d *place) *bool { return &d.Blocked }),
		moment("due", adds|reads|plans|leads, func(d *place) *int64 { return &d.Due }),
		moment("anchor", adds|reads|plans|leads, func(d *place) *int64 { return &d.Anchor }),
		number("position", adds|reads, func(d *place) *int64 { return &d.Position }),
		number("attempts", adds|reads|plans|marks, func(d *place) *int { return &d.Attempts }),
		number("created", adds|reads, func(d *place) *int64 { return &d.Created }),
		number("replay_of", adds|reads, func(d *place) *int64 { return &d.ReplayOf }),
		word(`"trigger"`, adds|reads|plans|marks, codec.Triggers, func(d *place) *grapnel.Trigger { return &d.Trigger }),
		word("code", adds|plans|marks, reasonCodes, func(d *place) *grapnel.ReasonCode { return &d.Code }),
		textual("reason", plans|marks, func(d *place) *string { return &d.Reason }),
		label("lane", adds|reads, func(d *place) *string { return &d.Key }),
		moment("wide", reads|plans, func(d *place) *int64 { return &d.Wide }),
		number("outcome", reads|plans|marks, func(d *place) *int64 { return &d.outcome }),
		label("token", reads|plans, func(d *place) *string { return &d.Token }),
		label("consumer", reads, func(d *place) *string { return &d.consumer }),
		number("kind", adds|reads, func(d *place) *int64 { return &d.kind }),
	}
	finishedColumns = columns[ended]{
		number("seq", adds, func(f *ended) *int64 { return &f.Seq }),
		number("target", adds|reads, func(f *ended) *int64 { return &f.target }),
		number("event", adds|reads, func(f *ended) *int64 { return &f.Event }),
		number("tenant", adds, func(f *ended) *int64 { return &f.tenant }),
		word("status", adds|reads, statuses, func(f *ended) *grapnel.Status { return &f.status }),
		number("position", adds|reads, func(f *ended) *int64 { return &f.Position }),
		number("attempts", adds, func(f *ended) *int { return &f.Attempts }),
		number("created", adds|reads, func(f *ended) *int64 { return &f.Created }),
		number("finished", adds, func(f *ended) *int64 { return &f.at }),
		number("replay_of", adds|reads, func(f *ended) *int64 { return &f.ReplayOf }),
		word("code", adds, reasonCodes, func(f *ended) *grapnel.ReasonCode { return &f.Code }),
		textual("reason", adds, func(f *ended) *string { return &f.Reason }),
		{name: "last", uses: adds, bind: func(s *sqlite3.Stmt, f *ended) {
			if f.ending == 0 {
				s.Blob(f.last)
				return
			}
			s.Int(f.ending)
		}},
		number("outcome", adds, func(f *ended) *int64 { return &f.outcome }),
	}

	pendingAdded, pendingRead = pendingColumns.of(adds), pendingColumns.of(reads)
	planned, marked, led      = pendingColumns.of(plans), pendingColumns.of(marks), pendingColumns.of(leads)
	finishedAdded             = finishedColumns.of(adds)
	finishedRead              = finishedColumns.of(reads)
)
