package words

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/wire"
)

// Endpoints says how the endpoints of a tenant are: the worst of their states, and how many are in
// each that is not healthy.
func Endpoints(s *wire.EndpointStates) (worst Pill, counts string) {
	if s.All == 0 {
		return Pill{None, "no endpoint"}, "no endpoint"
	}
	var parts []string
	for _, state := range wire.Troubles() {
		if n := *s.State(state); n > 0 {
			parts = append(parts, say.Count(n)+" "+Health(state).Word)
			if len(parts) == 1 {
				worst = Health(state)
			}
		}
	}
	if len(parts) == 0 {
		return Health(grapnel.HealthHealthy), say.Many(s.All, "endpoint, healthy", "endpoints, all healthy")
	}
	return worst, say.List(parts) + " of " + say.Many(s.All, "endpoint", "endpoints")
}
