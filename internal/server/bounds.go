package server

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/plain"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/face/api"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
	"github.com/grapnelhq/grapnel/internal/face/web"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/inbound/queue"
	"github.com/grapnelhq/grapnel/internal/inbound/relay"
	"github.com/grapnelhq/grapnel/internal/nodes/ownership"
	"github.com/grapnelhq/grapnel/internal/nodes/peer"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/send/replay"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/internal/tell/alerting"
	"github.com/grapnelhq/grapnel/internal/tell/minutes"
)

// Bounds are the sizes and time limits inside every package; zero: their defaults.
type Bounds struct {
	SQLite    sqlite.Bounds
	Postgres  postgres.Bounds
	Core      core.Bounds
	Engine    engine.Bounds
	Ownership ownership.Bounds
	Queue     queue.Bounds
	Replay    replay.Bounds
	Relay     relay.Bounds
	Alerting  alerting.Bounds
	Minutes   minutes.Bounds
	Peer      peer.Bounds
	Ingress   ingress.Bounds
	Egress    egress.Bounds
	API       api.Bounds
	Plain     plain.Bounds
	Web       web.Bounds
	OIDC      oidc.Bounds
	Trace     trace.Bounds
	Backlog   BacklogBounds
	Promises  PromiseBounds
}

// ParseBounds reads the value of --bounds.
func ParseBounds(text string) (b Bounds, err error) {
	if err := bounds.Parse(text, &b); err != nil {
		return Bounds{}, grapnel.Errorf(grapnel.CodeInvalid, "--bounds: %v", err)
	}
	return b, nil
}
