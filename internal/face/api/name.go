package api

import (
	"cmp"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/wire"
)

// title is what people call an endpoint, a queue or a channel.
func title(ep *grapnel.Endpoint) string {
	if ep.Queue != nil {
		return ep.Queue.Name
	}
	return cmp.Or(ep.Description, words.Where(withoutQuery(ep.URL)))
}

// endpointName is the name of an endpoint, queue or channel that the caller can see; empty: none,
// or it is deleted.
func (a *api) endpointName(c *call, id string) string {
	ep, ok := a.Engine.Endpoint(c.scope, id)
	if !ok {
		return ""
	}
	return title(&ep)
}

// sourceName is the name of a source; customers do not see sources.
func (a *api) sourceName(c *call, id string) string {
	if id == "" || c.scope.HidesAlerts() {
		return ""
	}
	s, _ := a.Engine.Source(c.scope, id)
	return s.Name
}

// names knows the names that audit entries have. A thing that is deleted has the name that its
// entry tells.
type names struct {
	a    *api
	c    *call
	keys map[string]string // by id; none for callers who may not see keys
}

func (a *api) names(c *call) *names {
	n := &names{a, c, map[string]string{}}
	if c.key.May(grapnel.ScopeAdmin) {
		for _, k := range a.Engine.Keys(c.scope) {
			n.keys[k.ID] = k.Name
		}
	}
	return n
}

// add adds the names to an entry.
func (n *names) add(v wire.Audit) wire.Audit {
	v.ActorName = n.keys[v.Actor]
	switch prefix, _, _ := strings.Cut(v.EndpointID, "_"); prefix {
	case grapnel.SourcePrefix:
		v.Name = n.a.sourceName(n.c, v.EndpointID)
	case grapnel.PolicyPrefix, grapnel.TypePrefix:
		v.Name = v.Reason
	case grapnel.KeyPrefix:
		told, _, _ := strings.Cut(v.Reason, ": ")
		v.Name = cmp.Or(n.keys[v.EndpointID], told)
	default:
		v.Name = n.a.endpointName(n.c, v.EndpointID)
	}
	return v
}
