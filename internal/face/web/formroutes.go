package web

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// formPages are the pages that are mainly a form, and the pages that lead to them.
func formPages() []page {
	return []page{
		fillIn("Endpoints", "/endpoints/new", "Add an endpoint", newEndpoint, addEndpoint, createCommand),
		fillIn("Endpoints", "/endpoints/{id}/edit", "Change an endpoint", byID((*client.Client).Endpoint, editEndpoint), saveEndpoint,
			"grapnel endpoints update --rate 20"),
		fillIn("Endpoints", "/endpoints/{id}/rotate", "Rotate a secret", byID((*client.Client).Endpoint, rotateForm), rotateSecret,
			"grapnel endpoints rotate-secret --overlap 24h"),
		fillIn("Endpoints", "/endpoints/{id}/delete", "Delete an endpoint", byID((*client.Client).Endpoint, deleteEndpointForm),
			deletes((*client.Client).DeleteEndpoint, "/endpoints", "The endpoint is deleted."), "grapnel endpoints delete"),
		fillIn("Event types", "/event-types/new", "Register an event type", newType, addType, createTypeCommand),
		fillIn("Event types", "/event-types/{id}/edit", "Change an event type", byID((*client.Client).EventType, editType),
			saves(&typeBlank, "/v1/event-types/{id}", "/event-types/{id}", "Saved."), "grapnel types update --check refuse"),
		fillIn("Event types", "/event-types/{id}/version", "Add a version", byID((*client.Client).EventType, newVersion), addVersion, "").
			as(one("/v1/event-types/{id}"), func(v *visit) string {
				return "grapnel types push " + shellQuote(v.PathValue("id")) + " @schema.json"
			}),
		fillIn("Event types", "/event-types/{id}/delete", "Delete an event type", byID((*client.Client).EventType, deleteTypeForm),
			deletes(unaudited((*client.Client).DeleteEventType), "/event-types", "The event type is deleted."), "grapnel types delete"),
		fillIn("API keys", "/keys/new", "Create an API key", newKey, addKey, createKeyCommand).needs(grapnel.ScopeAdmin),
		fillIn("Sources", "/sources/new", "Add a source", newSource, addSource, createSourceCommand),
		fillIn("Sources", "/sources/{id}/edit", "Change a source", byID((*client.Client).Source, editSource),
			byID((*client.Client).Source, saveSource), "grapnel sources update --on-unverified reject"),
		fillIn("Sources", "/sources/{id}/rotate", "Rotate a secret", byID((*client.Client).Source, rotateSourceForm), rotateSource,
			"grapnel sources rotate-secret --overlap 24h"),
		fillIn("Sources", "/sources/{id}/delete", "Delete a source", byID((*client.Client).Source, deleteSourceForm),
			deletes((*client.Client).DeleteSource, "/sources", "The source is deleted."), "grapnel sources delete"),
		fillIn("Channels", "/channels/new", "Add a channel", newChannel, addChannel, createChannelCommand),
		fillIn("Channels", "/channels/{id}/edit", "Change a channel", byID((*client.Client).Channel, editChannel),
			saves(&channelBlank, "/v1/channels/{id}", "/channels", "Saved."), "grapnel channels update --severity page"),
		fillIn("Channels", "/channels/{id}/delete", "Delete a channel", byID((*client.Client).Channel, deleteChannelForm),
			byID((*client.Client).Channel, deleteChannel), "grapnel channels delete"),
		row("Customers", "/contacts", "Contacts", "contacts.html", contactList, "grapnel contacts list").byName(),
		fillIn("Customers", "/contacts/new", "Add a contact", newContact, addContact, createContactCommand),
		fillIn("Customers", "/contacts/sender", "Sender of messages", senderForm, saveSender, "grapnel contacts sender").
			as(alone("/v1/contact-sender"), nil).needs(grapnel.ScopeAdmin),
		fillIn("Queues", "/queues/new", "Add a queue", newQueue, addQueue, createQueueCommand),
		fillIn("Queues", "/queues/{id}/edit", "Change a queue", byID((*client.Client).Queue, editQueue),
			saves(&queueBlank, "/v1/queues/{id}", "/queues/{id}", "Saved."), "grapnel queues update --lease 1m"),
		fillIn("Queues", "/queues/{id}/purge", "Purge a queue", byID((*client.Client).Queue, purgeQueueForm), purgeQueue, "grapnel queues purge"),
		fillIn("Queues", "/queues/{id}/delete", "Delete a queue", byID((*client.Client).Queue, deleteQueueForm),
			byID((*client.Client).Queue, deleteQueue), "grapnel queues delete"),
		row("Rules", "/alert-rules", "Alert rules", "alert-rules.html", alertRules, "grapnel alerts rules").as(alone("/v1/alert-rules"), nil),
		fillIn("Rules", "/alert-rules/{id}/edit", "Alert rule", editRule, saveRule, "grapnel alerts backtest"),
		fillIn("Playground", "/playground", "Playground", playground, tryOut, "grapnel send invoice.paid -d '{\"amount\":100}' --dry-run").
			as(alone("/v1/event-types"), nil).drawnBy("playground.html"),
		fillIn("Policies", "/policies/new", "Add a policy", newPolicy, addPolicy, "grapnel policies create @policy.json").drawnBy("policy-form.html"),
		fillIn("Policies", "/policies/{id}/edit", "Change a policy", byID((*client.Client).Policy, editPolicy), savePolicy,
			"grapnel policies get").drawnBy("policy-form.html"),
		fillIn("Policies", "/policies/{id}/delete", "Delete a policy", byID((*client.Client).Policy, deletePolicyForm),
			deletes(unaudited((*client.Client).DeletePolicy), "/policies", "The policy is deleted."), "grapnel policies delete"),
		fillIn("Customers", "/customers/{id}/portal", "Open the portal", linkForm, makeLink, "grapnel tenants portal-link").as(one("/v1/tenants/{id}/portal"), nil),
		fillIn("Customers", "/customers/{id}/brand", "Look of the portal", byID((*client.Client).Portal, lookForm),
			saves(&lookBlank, "/v1/tenants/{id}/portal", "/customers/{id}", "The look is saved."), "grapnel tenants get").
			as(one("/v1/tenants/{id}/portal"), nil),
		fillIn("Customers", "/customers/{id}/limits", "Limits", byID((*client.Client).Terms, termsForm), saveTerms,
			"grapnel tenants update --max-pending 100000").
			as(one("/v1/tenants/{id}"), nil).needs(grapnel.ScopeAdmin),
		row("Settings", "/settings", "Settings", "settings.html", serverSettings, "grapnel cluster settings").
			as(alone("/v1/settings"), nil).needs(grapnel.ScopeAdmin),
		row("Event types", "/event-types", "Event types", "event-types.html", eventTypes, "grapnel types list").byName(),
		row("Ordering keys", "/ordering-keys", "Ordering keys", "ordering-keys.html", stuckKeys, "").as(stuckTwin, stuckCommand),
		row("Ordering keys", "/ordering-keys/{id}", "Ordering key", "ordering-key.html", stuckKey, "grapnel endpoints lanes").
			as(one("/v1/endpoints/{id}/lanes"), nil),
		row("Event types", "/event-types/{id}", "Event type", "event-type.html", byID((*client.Client).EventType, eventType), "grapnel types get"),
	}
}
