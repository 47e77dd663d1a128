package postgres

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// pendingFields are the columns of pending, and of the tables joined with them.
var pendingFields = fields[*place]{
	stored("seq", "bigint", func(p *place) *int64 { return &p.Seq }),
	stored("target", "integer", func(p *place) *int32 { return &p.target }),
	stored("event", "bigint", func(p *place) *int64 { return &p.Event }),
	stored("kind", "integer", func(p *place) *int32 { return &p.kind }),
	stored("lane", "bigint", func(p *place) *int64 { return &p.inLane }),
	stored("position", "bigint", func(p *place) *int64 { return &p.Position }),
	stored("created", "bigint", func(p *place) *int64 { return &p.Created }),
	stored("replay_of", "bigint", func(p *place) *int64 { return &p.ReplayOf }),
	moment("due", func(p *place) *int64 { return &p.Due }).changes(),
	moment("anchor", func(p *place) *int64 { return &p.Anchor }).changes(),
	moment("wide", func(p *place) *int64 { return &p.Wide }).from("NULL"),
	count("attempts", func(p *place) *int { return &p.Attempts }).from("0"),
	stored("head", "boolean", func(p *place) *bool { return &p.Head }).changes(),
	stored("blocked", "boolean", func(p *place) *bool { return &p.Blocked }).from("false"),
	textual("trigger", func(p *place) *grapnel.Trigger { return &p.Trigger }).changes(),
	textual("code", func(p *place) *grapnel.ReasonCode { return &p.Code }).
		from("CASE u.trigger WHEN 'test' THEN 'test' ELSE '' END"),
	textual("reason", func(p *place) *string { return &p.Reason }).from("''"),
	stored("status_code", "integer", func(p *place) *int32 { return &p.statusCode }).from("0"),
	textual("class", func(p *place) *policy.Class { return &p.class }).from("''"),
	stored("took", "bigint", func(p *place) *int64 { return &p.took }).from("0"),

	joined("t.endpoint", func(p *place) *string { return &p.Endpoint }),
	joined("k.tenant", func(p *place) *string { return &p.tenant }),
	joined("k.type", func(p *place) *string { return &p.eventType }),
	joined("coalesce(l.key, '')", func(p *place) *string { return &p.Key }),
	joined("coalesce(s.token, '')", func(p *place) *string { return &p.Token }),
	joined("coalesce(s.consumer, '')", func(p *place) *string { return &p.lease.Consumer }),
	joined("coalesce(s.scheduled, 0)", func(p *place) *int64 { return &p.lease.Scheduled }),
	joined("coalesce(s.granted, 0)", func(p *place) *int64 { return &p.lease.Granted }),
}

// finishedFields are the columns of finished.
var finishedFields = fields[finished]{
	value("seq", "bigint", func(f finished) int64 { return f.Seq }),
	value("target", "integer", func(f finished) int32 { return f.target }),
	value("event", "bigint", func(f finished) int64 { return f.Event }),
	value("kind", "integer", func(f finished) int32 { return f.kind }),
	value("lane", "bigint", func(f finished) int64 { return f.inLane }),
	value("position", "bigint", func(f finished) int64 { return f.Position }),
	value("created", "bigint", func(f finished) int64 { return f.Created }),
	value("finished", "bigint", func(f finished) int64 { return f.at }),
	value("replay_of", "bigint", func(f finished) int64 { return f.ReplayOf }),
	value("took", "bigint", func(f finished) int64 { return f.took }),
	value("attempts", "integer", func(f finished) int32 { return int32(f.Attempts) }),
	value("status_code", "integer", func(f finished) int32 { return f.statusCode }),
	readable("status", func(f finished) grapnel.Status { return f.status }),
	readable("class", func(f finished) policy.Class { return f.class }),
	readable("code", func(f finished) grapnel.ReasonCode { return f.Code }),
	readable("reason", func(f finished) string { return f.Reason }),
	value("body", "bytea", func(f finished) []byte { return f.body }),
}

func numberOf(p *place) int64 { return p.Seq }

const dropLeases = "DELETE FROM lease WHERE delivery = ANY($1)"

// leaseFields are the columns of lease.
var leaseFields = fields[*place]{
	value("delivery", "bigint", numberOf),
	value("token", "text", func(p *place) string { return p.Token }),
	value("target", "integer", func(p *place) int32 { return p.target }),
	value("consumer", "text", func(p *place) string { return p.lease.Consumer }),
	value("scheduled", "bigint", func(p *place) int64 { return p.lease.Scheduled }),
	value("granted", "bigint", func(p *place) int64 { return p.lease.Granted }),
}

var addLeases = leaseFields.insert("lease", "")

var (
	placeColumns  = pendingFields.selected()
	addPending    = pendingFields.insert("pending", "")
	changePending = pendingFields.update("pending")
	addFinished   = finishedFields.insert("finished", "")
)

const placeJoins = ` JOIN target t ON t.number = p.target JOIN kind k ON k.number = p.kind LEFT JOIN lane l ON l.number = p.lane
	LEFT JOIN lease s ON s.delivery = p.seq`

// readPlaces calls take with a copy of each row.
func readPlaces(rows asked, take func(*place)) error {
	var r place
	return rows.each(pendingFields.into(&r), func() {
		p := r
		take(&p)
	})
}

var placesQuery = "SELECT " + placeColumns + " FROM pending p" + placeJoins + " WHERE p.seq = ANY($1)"
