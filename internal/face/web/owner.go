package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/send/channels"
)

// A delivery is to an endpoint, a queue or a channel, and its id says to which of these. The names
// here are of all three.

func isQueue(id string) bool { return strings.HasPrefix(id, grapnel.QueuePrefix+"_") }

func isChannel(id string) bool { return strings.HasPrefix(id, grapnel.ChannelPrefix+"_") }

// ownerLink is where the page of an endpoint, a queue or a channel is; empty: the portal has none.
func (v *visit) ownerLink(id string) string {
	path := "/endpoints/" + url.PathEscape(id)
	switch {
	case isQueue(id):
		path = "/queues/" + url.PathEscape(id)
	case isChannel(id):
		path = "/channels"
	}
	if !v.leads(path) {
		return ""
	}
	return v.link(path)
}

// nameOf is the name of one of them by its id; the id, if it is deleted.
func (v *visit) nameOf(id string) (string, error) {
	is, err := v.client.Meant(v.Context(), id, "")
	if err != nil {
		return "", err
	}
	return cmp.Or(is.Name, id), nil
}

// sourceLink is where the page of a source is; empty: there is none, or none here.
func (v *visit) sourceLink(id string) string {
	if id == "" || v.session.portal {
		return ""
	}
	return v.link("/sources/" + url.PathEscape(id))
}

// endpointsOf are the endpoints with these ids, each once; one that is deleted is left out.
func (v *visit) endpointsOf(ids []string) ([]client.Endpoint, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return isQueue(id) || isChannel(id) })
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return nil, nil
	}
	ids = ids[:min(len(ids), v.web.Bounds.Endpoints)]
	all, err := v.client.Endpoints(v.Context(), client.EndpointFilter{IDs: ids, Limit: len(ids)})
	if err != nil {
		return nil, err
	}
	return all.Data, nil
}

// channelName is the description of a channel, else its service.
func channelName(c *client.Channel) string {
	return cmp.Or(c.Description, channels.Title(c.Service))
}

// whose has a name only where rows of several tenants can stand together, and not for the tenant of
// those that name none.
func (v *visit) whose(tenant string) whose {
	if v.session.Tenant != "" || v.tenant != "" || tenant == grapnel.DefaultTenant || !grapnel.BindsTenant(tenant) {
		return whose{}
	}
	return whose{tenant, v.link("/customers/" + url.PathEscape(tenant))}
}

// audited is an entry of the audit. The actor is the name of the API key, as on the audit's page;
// that of a person, or for a session that may not read names, is an id.
func (v *visit) audited(a *client.AuditEntry) auditLine {
	return auditLine{v.at(a.At), strings.ReplaceAll(string(a.Verb), "_", " "), cmp.Or(a.ActorName, a.Actor), a.Reason}
}
