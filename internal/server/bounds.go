package server

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/alerting"
	"github.com/grapnelhq/grapnel/internal/api"
	"github.com/grapnelhq/grapnel/internal/bounds"
	"github.com/grapnelhq/grapnel/internal/core"
	"github.com/grapnelhq/grapnel/internal/egress"
	"github.com/grapnelhq/grapnel/internal/engine"
	"github.com/grapnelhq/grapnel/internal/ingress"
	"github.com/grapnelhq/grapnel/internal/minutes"
	"github.com/grapnelhq/grapnel/internal/oidc"
	"github.com/grapnelhq/grapnel/internal/ownership"
	"github.com/grapnelhq/grapnel/internal/peer"
	"github.com/grapnelhq/grapnel/internal/plain"
	"github.com/grapnelhq/grapnel/internal/queue"
	"github.com/grapnelhq/grapnel/internal/relay"
	"github.com/grapnelhq/grapnel/internal/replay"
	"github.com/grapnelhq/grapnel/internal/store/postgres"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/internal/trace"
	"github.com/grapnelhq/grapnel/internal/web"
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
