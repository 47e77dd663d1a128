package web

import (
	"net/url"

	"github.com/grapnelhq/grapnel"
)

// formPages are the pages that are mainly a form, each with an action of the same path
// (formActions), and the pages that lead to them.
func formPages() []page {
	of := func(nav, path, title string, b func(*visit) (formModel, error)) page {
		return page{path: path, title: title, nav: nav, scope: grapnel.ScopeManage, build: build(b), template: "form.html", still: true}
	}
	all := []page{
		of("Endpoints", "/endpoints/new", "Add an endpoint", newEndpoint).as(cursored("/v1/endpoints"), says(createCommand)),
		of("Endpoints", "/endpoints/{id}/edit", "Change an endpoint", editEndpoint).
			as(one("/v1/endpoints/"), naming("grapnel endpoints update --rate 20")),
		of("Endpoints", "/endpoints/{id}/rotate", "Rotate a secret", rotateForm).
			as(one("/v1/endpoints/"), naming("grapnel endpoints rotate-secret --overlap 24h")),
		of("Endpoints", "/endpoints/{id}/delete", "Delete an endpoint", deleteEndpointForm).
			as(one("/v1/endpoints/"), naming("grapnel endpoints delete")),
		of("Event types", "/event-types/new", "Register an event type", newType).as(cursored("/v1/event-types"), says(createTypeCommand)),
		of("Event types", "/event-types/{id}/edit", "Change an event type", editType).
			as(one("/v1/event-types/"), naming("grapnel types update --check refuse")),
		of("Event types", "/event-types/{id}/version", "Add a version", newVersion).
			as(one("/v1/event-types/"), func(v *visit) string { return "grapnel types push " + shellQuote(v.PathValue("id")) + " @schema.json" }),
		of("Event types", "/event-types/{id}/delete", "Delete an event type", deleteTypeForm).
			as(one("/v1/event-types/"), naming("grapnel types delete")),
	}
	keyForm := of("API keys", "/keys/new", "Create an API key", newKey).as(cursored("/v1/keys"), says(createKeyCommand))
	keyForm.scope = grapnel.ScopeAdmin
	all = append(all, keyForm,
		of("Sources", "/sources/new", "Add a source", newSource).as(cursored("/v1/sources"), says(createSourceCommand)),
		of("Sources", "/sources/{id}/edit", "Change a source", editSource).as(one("/v1/sources/"), naming("grapnel sources update --on-unverified reject")),
		of("Sources", "/sources/{id}/delete", "Delete a source", deleteSourceForm).as(one("/v1/sources/"), naming("grapnel sources delete")),
		of("Channels", "/channels/new", "Add a channel", newChannel).as(cursored("/v1/channels"), says(createChannelCommand)),
		of("Channels", "/channels/{id}/edit", "Change a channel", editChannel).as(one("/v1/channels/"), naming("grapnel channels update --severity page")),
		of("Channels", "/channels/{id}/delete", "Delete a channel", deleteChannelForm).
			as(one("/v1/channels/"), naming("grapnel channels delete")),
		of("Queues", "/queues/new", "Add a queue", newQueue).as(cursored("/v1/queues"), says(createQueueCommand)),
		of("Queues", "/queues/{id}/edit", "Change a queue", editQueue).as(one("/v1/queues/"), naming("grapnel queues update --lease 1m")),
		of("Queues", "/queues/{id}/purge", "Purge a queue", purgeQueueForm).as(one("/v1/queues/"), naming("grapnel queues purge")),
		of("Queues", "/queues/{id}/delete", "Delete a queue", deleteQueueForm).as(one("/v1/queues/"), naming("grapnel queues delete")),
	)
	all = append(all, of("Alerts", "/alert-rules/{id}/edit", "Alert rule", editRule).
		as(one("/v1/alert-rules/"), naming("grapnel alerts backtest")))
	play := of("Playground", "/playground", "Playground", nil).as(func(*visit) (string, url.Values) { return "/v1/event-types", nil },
		says("grapnel send invoice.paid -d '{\"amount\":100}' --dry-run"))
	play.build, play.template = build(playground), "playground.html"
	all = append(all, play)
	newRules := of("Policies", "/policies/new", "Add a policy", nil).as(cursored("/v1/policies"), says("grapnel policies create @policy.json"))
	newRules.build, newRules.template = build(newPolicy), "policy-form.html"
	rules := of("Policies", "/policies/{id}/edit", "Change a policy", nil).as(one("/v1/policies/"), naming("grapnel policies get"))
	rules.build, rules.template = build(editPolicy), "policy-form.html"
	all = append(all, newRules, rules,
		of("Policies", "/policies/{id}/delete", "Delete a policy", deletePolicyForm).as(one("/v1/policies/"), naming("grapnel policies delete")))
	read := func(nav, path, title string, b func(*visit) (any, error), template string) page {
		return page{path: path, title: title, nav: nav, scope: grapnel.ScopeRead, build: b, template: template}
	}
	server := read("Settings", "/settings", "Settings", build(serverSettings), "settings.html").
		as(func(*visit) (string, url.Values) { return "/v1/settings", nil }, says("grapnel cluster settings"))
	server.scope = grapnel.ScopeAdmin
	return append(all, server,
		read("Event types", "/event-types", "Event types", build(eventTypes), "event-types.html").as(cursored("/v1/event-types"), says("grapnel types list")),
		read("Ordering keys", "/ordering-keys", "Ordering keys", build(stuckKeys), "ordering-keys.html").as(stuckTwin, stuckCommand),
		read("Ordering keys", "/ordering-keys/{id}", "Ordering key", build(stuckKey), "ordering-key.html").
			as(func(v *visit) (string, url.Values) {
				return "/v1/endpoints/" + url.PathEscape(v.PathValue("id")) + "/lanes", nil
			},
				naming("grapnel endpoints lanes")),
		read("Event types", "/event-types/{id}", "Event type", build(eventType), "event-type.html").
			as(one("/v1/event-types/"), naming("grapnel types get")),
	)
}

// as completes a row with its twin and its command.
func (p page) as(twin func(*visit) (string, url.Values), command func(*visit) string) page {
	p.twin, p.command = twin, command
	return p
}

// formActions are the actions of these pages.
func formActions() []action {
	return []action{
		{path: "/endpoints/new", scope: grapnel.ScopeManage, do: addEndpoint},
		{path: "/endpoints/{id}/edit", scope: grapnel.ScopeManage, do: saveEndpoint},
		{path: "/endpoints/{id}/rotate", scope: grapnel.ScopeManage, do: rotateSecret},
		{path: "/endpoints/{id}/delete", scope: grapnel.ScopeManage, do: deleteEndpoint},
		{path: "/keys/new", scope: grapnel.ScopeAdmin, do: addKey},
		{path: "/sources/new", scope: grapnel.ScopeManage, do: addSource},
		{path: "/sources/{id}/edit", scope: grapnel.ScopeManage, do: saveSource},
		{path: "/sources/{id}/delete", scope: grapnel.ScopeManage, do: deleteSource},
		{path: "/channels/new", scope: grapnel.ScopeManage, do: addChannel},
		{path: "/channels/{id}/edit", scope: grapnel.ScopeManage, do: saveChannel},
		{path: "/channels/{id}/delete", scope: grapnel.ScopeManage, do: deleteChannel},
		{path: "/queues/new", scope: grapnel.ScopeManage, do: addQueue},
		{path: "/queues/{id}/edit", scope: grapnel.ScopeManage, do: saveQueue},
		{path: "/queues/{id}/purge", scope: grapnel.ScopeManage, do: purgeQueue},
		{path: "/queues/{id}/delete", scope: grapnel.ScopeManage, do: deleteQueue},
		{path: "/alert-rules/{id}/edit", scope: grapnel.ScopeManage, do: saveRule},
		{path: "/playground", scope: grapnel.ScopeManage, do: tryOut},
		{path: "/policies/new", scope: grapnel.ScopeManage, do: addPolicy},
		{path: "/policies/{id}/edit", scope: grapnel.ScopeManage, do: savePolicy},
		{path: "/policies/{id}/delete", scope: grapnel.ScopeManage, do: deletePolicy},
		{path: "/event-types/new", scope: grapnel.ScopeManage, do: addType},
		{path: "/event-types/{id}/edit", scope: grapnel.ScopeManage, do: saveType},
		{path: "/event-types/{id}/version", scope: grapnel.ScopeManage, do: addVersion},
		{path: "/event-types/{id}/delete", scope: grapnel.ScopeManage, do: deleteType},
		{path: "/event-types/{id}/deprecate", scope: grapnel.ScopeManage, do: deprecate},
		{path: "/event-types/{id}/send", scope: grapnel.ScopePublish, do: sendExample},
	}
}
