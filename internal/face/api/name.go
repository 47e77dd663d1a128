package api

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

// title is what people call an endpoint, a queue or a channel. No part of a channel's URL is in it:
// all of it may be a credential.
func title(ep *grapnel.Endpoint) string {
	switch {
	case ep.Queue != nil:
		return ep.Queue.Name
	case ep.Channel != nil && ep.Channel.Contact != nil:
		return cmp.Or(ep.Description, ep.Channel.Contact.Mail, channels.Title(ep.Channel.Service))
	case ep.Channel != nil:
		return cmp.Or(ep.Description, channels.Title(ep.Channel.Service))
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

// nameMark begins the reason of a deletion that has the name of the deleted thing. The reasons of
// actors do not begin with it, because their form has no control characters.
const nameMark = "\x1f"

// named is such a reason. The name is quoted: its end is certain whatever it and the actor's own
// words contain.
func named(name, reason string) string { return nameMark + strconv.Quote(name) + reason }

// splitReason returns the name that an entry has in its reason, if any, and the actor's own words.
func splitReason(e *grapnel.AuditEntry) (name, reason string) {
	rest, marked := strings.CutPrefix(e.Reason, nameMark)
	if quoted, err := strconv.QuotedPrefix(rest); marked && err == nil && e.Verb == grapnel.VerbDelete {
		name, _ = strconv.Unquote(quoted)
		return name, rest[len(quoted):]
	}
	return "", e.Reason
}

// names knows the names that audit entries have. A deleted thing has the name in the entry of its
// deletion.
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

// add adds the names to an entry, except that of a deleted thing to entries other than that of its
// deletion; see addFormer.
func (n *names) add(v wire.Audit) wire.Audit {
	v.ActorName = n.keys[v.Actor]
	switch prefix, _, _ := strings.Cut(v.EndpointID, "_"); prefix {
	case grapnel.SourcePrefix:
		v.Name = cmp.Or(n.a.sourceName(n.c, v.EndpointID), v.Name)
	case grapnel.PolicyPrefix, grapnel.TypePrefix:
		v.Name = v.Reason
	case grapnel.KeyPrefix:
		end := max(strings.LastIndex(v.Reason, ": "), 0) // scopes have no colon with a space; the name may
		v.Name = cmp.Or(n.keys[v.EndpointID], v.Reason[:end], v.Reason)
	default:
		v.Name = cmp.Or(n.a.endpointName(n.c, v.EndpointID), v.Name)
	}
	return v
}

// addFormer adds the names of deleted things to the entries of a page. It reads the newest entries
// of each thing once, in the caller's scope. The name stays unknown if the deletion is not among
// the newest Bounds.NameScan entries.
func (n *names) addFormer(page []wire.Audit) error {
	known := map[string]string{}
	for i := range page {
		v := &page[i]
		prefix, _, _ := strings.Cut(v.EndpointID, "_")
		former, read := known[v.EndpointID]
		switch {
		case v.Name != "":
			known[v.EndpointID] = v.Name
			continue
		case read:
		case prefix == grapnel.EndpointPrefix, prefix == grapnel.QueuePrefix, prefix == grapnel.ChannelPrefix,
			prefix == grapnel.SourcePrefix && !n.c.scope.HidesAlerts():
			found, err := n.a.History.AuditList(n.c.Context(), n.c.scope, store.AuditQuery{Endpoint: v.EndpointID, Limit: n.a.Bounds.NameScan})
			if err != nil {
				return err
			}
			for i := range found {
				name, _ := splitReason(&found[i])
				former = cmp.Or(former, name)
			}
			known[v.EndpointID] = former
		}
		v.Name = former
	}
	return nil
}
