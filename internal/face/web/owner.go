package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
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

// namesOf are the names of endpoints, queues and channels; one that is deleted has none. It asks
// for no other endpoints: one that a page does not show would cost as much as one that it shows.
func (v *visit) namesOf(ids []string) (map[string]string, error) {
	all, err := v.endpointsOf(ids)
	names := map[string]string{}
	for i := range all {
		names[all[i].ID] = endpointName(&all[i])
	}
	if err == nil && slices.ContainsFunc(ids, isQueue) {
		err = v.queueNames(names)
	}
	if err == nil && slices.ContainsFunc(ids, isChannel) {
		err = v.channelNames(names)
	}
	return names, err
}

// nameOf is the name of one of them; its id, if it is deleted.
func (v *visit) nameOf(id string) (string, error) {
	names, err := v.namesOf([]string{id})
	return cmp.Or(names[id], id), err
}

// queueNames adds the names of queues. A session that is limited to endpoints has none.
func (v *visit) queueNames(names map[string]string) error {
	if v.session.limited {
		return nil
	}
	queues, err := v.client.Queues(v.Context(), client.QueueFilter{Limit: v.web.Bounds.Page})
	if err != nil {
		return err
	}
	for i := range queues.Data {
		names[queues.Data[i].ID] = queues.Data[i].Name
	}
	return nil
}

// sourceNames are the names of sources, if there are ids to name. A portal has none.
func (v *visit) sourceNames(ids ...string) (map[string]string, error) {
	names := map[string]string{}
	if v.session.portal || !slices.ContainsFunc(ids, func(id string) bool { return id != "" }) {
		return names, nil
	}
	found, err := v.client.Sources(v.Context(), client.SourceFilter{Limit: mostSources})
	if err != nil {
		return nil, err
	}
	for i := range found.Data {
		names[found.Data[i].ID] = found.Data[i].Name
	}
	return names, nil
}

// mostSources bounds the sources that a page names; others are shown by their ids.
const mostSources = 100

// sourceLink is where the page of a source is; empty: there is none, or none here.
func (v *visit) sourceLink(id string) string {
	if id == "" || v.session.portal {
		return ""
	}
	return v.link("/sources/" + url.PathEscape(id))
}

// channelNames adds the names of channels. A portal has none.
func (v *visit) channelNames(names map[string]string) error {
	if v.session.portal {
		return nil
	}
	channels, err := v.client.Channels(v.Context(), client.ChannelFilter{Limit: v.web.Bounds.Page})
	if err != nil {
		return err
	}
	for i := range channels.Data {
		names[channels.Data[i].ID] = channelName(&channels.Data[i])
	}
	return nil
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
	return cmp.Or(c.Description, titleOf(c.Service))
}
