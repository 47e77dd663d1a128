package postgres

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
	"github.com/grapnelhq/grapnel/policy"
)

// pendingFields are the columns of pending, and of the tables joined with them.
var pendingFields = rows.Fields[*place]{
	rows.Stored("seq", "bigint", func(p *place) *int64 { return &p.Seq }),
	rows.Stored("target", "integer", func(p *place) *int32 { return &p.target }),
	rows.Stored("event", "bigint", func(p *place) *int64 { return &p.Event }),
	rows.Stored("kind", "integer", func(p *place) *int32 { return &p.kind }),
	rows.Stored("lane", "bigint", func(p *place) *int64 { return &p.inLane }),
	rows.Stored("position", "bigint", func(p *place) *int64 { return &p.Position }),
	rows.Stored("created", "bigint", func(p *place) *int64 { return &p.Created }),
	rows.Stored("replay_of", "bigint", func(p *place) *int64 { return &p.ReplayOf }),
	rows.Moment("due", func(p *place) *int64 { return &p.Due }).Changes(),
	rows.Moment("anchor", func(p *place) *int64 { return &p.Anchor }).Changes(),
	rows.Moment("wide", func(p *place) *int64 { return &p.Wide }).From("NULL"),
	rows.Count("attempts", func(p *place) *int { return &p.Attempts }).From("0"),
	rows.Stored("head", "boolean", func(p *place) *bool { return &p.Head }).Changes(),
	rows.Stored("blocked", "boolean", func(p *place) *bool { return &p.Blocked }).From("false"),
	rows.Textual("trigger", func(p *place) *grapnel.Trigger { return &p.Trigger }).Changes(),
	rows.Textual("code", func(p *place) *grapnel.ReasonCode { return &p.Code }).Changes(),
	rows.Textual("reason", func(p *place) *string { return &p.Reason }).From("''"),
	rows.Stored("status_code", "integer", func(p *place) *int32 { return &p.statusCode }).From("0"),
	rows.Textual("class", func(p *place) *policy.Class { return &p.class }).From("''"),
	rows.Stored("took", "bigint", func(p *place) *int64 { return &p.took }).From("0"),

	rows.Joined("t.endpoint", func(p *place) *string { return &p.Endpoint }),
	rows.Joined("k.tenant", func(p *place) *string { return &p.tenant }),
	rows.Joined("k.type", func(p *place) *string { return &p.eventType }),
	rows.Joined("coalesce(l.key, '')", func(p *place) *string { return &p.Key }),
	rows.Joined("coalesce(s.token, '')", func(p *place) *string { return &p.Token }),
	rows.Joined("coalesce(s.consumer, '')", func(p *place) *string { return &p.lease.Consumer }),
	rows.Joined("coalesce(s.scheduled, 0)", func(p *place) *int64 { return &p.lease.Scheduled }),
	rows.Joined("coalesce(s.granted, 0)", func(p *place) *int64 { return &p.lease.Granted }),
}

// finishedFields are the columns of finished.
var finishedFields = rows.Fields[finished]{
	rows.Value("seq", "bigint", func(f finished) int64 { return f.Seq }),
	rows.Value("target", "integer", func(f finished) int32 { return f.target }),
	rows.Value("event", "bigint", func(f finished) int64 { return f.Event }),
	rows.Value("kind", "integer", func(f finished) int32 { return f.kind }),
	rows.Value("lane", "bigint", func(f finished) int64 { return f.inLane }),
	rows.Value("position", "bigint", func(f finished) int64 { return f.Position }),
	rows.Value("created", "bigint", func(f finished) int64 { return f.Created }),
	rows.Value("finished", "bigint", func(f finished) int64 { return f.at }),
	rows.Value("replay_of", "bigint", func(f finished) int64 { return f.ReplayOf }),
	rows.Value("took", "bigint", func(f finished) int64 { return f.took }),
	rows.Value("attempts", "integer", func(f finished) int32 { return int32(f.Attempts) }),
	rows.Value("status_code", "integer", func(f finished) int32 { return f.statusCode }),
	rows.Readable("status", func(f finished) grapnel.Status { return f.status }),
	rows.Readable("class", func(f finished) policy.Class { return f.class }),
	rows.Readable("code", func(f finished) grapnel.ReasonCode { return f.Code }),
	rows.Readable("reason", func(f finished) string { return f.Reason }),
	rows.Value("body", "bytea", func(f finished) []byte { return f.body }),
}

func numberOf(p *place) int64 { return p.Seq }

const dropLeases = "DELETE FROM lease WHERE delivery = ANY($1)"

// leaseFields are the columns of lease.
var leaseFields = rows.Fields[*place]{
	rows.Value("delivery", "bigint", numberOf),
	rows.Value("token", "text", func(p *place) string { return p.Token }),
	rows.Value("target", "integer", func(p *place) int32 { return p.target }),
	rows.Value("consumer", "text", func(p *place) string { return p.lease.Consumer }),
	rows.Value("scheduled", "bigint", func(p *place) int64 { return p.lease.Scheduled }),
	rows.Value("granted", "bigint", func(p *place) int64 { return p.lease.Granted }),
}

var addLeases = leaseFields.Insert("lease", "")

var (
	placeColumns  = pendingFields.Selected()
	addPending    = pendingFields.Insert("pending", "")
	changePending = pendingFields.Update("pending")
	addFinished   = finishedFields.Insert("finished", "")
)

const placeJoins = ` JOIN target t ON t.number = p.target JOIN kind k ON k.number = p.kind LEFT JOIN lane l ON l.number = p.lane
	LEFT JOIN lease s ON s.delivery = p.seq`

// readPlaces calls take with a copy of each row.
func readPlaces(rows rows.Asked, take func(*place)) error {
	var r place
	return rows.Each(pendingFields.Into(&r), func() {
		p := r
		take(&p)
	})
}

var placesQuery = "SELECT " + placeColumns + " FROM pending p" + placeJoins + " WHERE p.seq = ANY($1)"
