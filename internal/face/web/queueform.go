package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/wire"
)

var queueBlank = blank{of: reflect.TypeFor[wire.NewQueue](), rows: []input{
	{group: "The queue", at: "name", label: "Name", sample: "orders", help: "for consumers: letters, digits, _ and -"},
	{at: "description", label: "Description"},
	{group: "Which events", at: "event_types", label: "Event types", sample: "order.*", help: "one on each line; * stands for a whole segment. Empty: every type"},
	{at: "filter", label: "Filter", sample: "event.data.amount > 100", help: "a CEL expression over event (type, key, data, metadata). Empty: no filter"},
	{at: "source", label: "Source", kind: kindChoice, help: "only events that this source received"},
	{group: "Leases and retries", at: "policy", label: "Policy", kind: kindChoice, help: "says when a message that was not acknowledged comes again"},
	{at: "ordering", label: "Order", help: "key: messages of one key are leased one after the other"},
	{at: "lease", label: "Lease", sample: "30s", help: "how long a consumer has for a message, 1s to 12h"},
	{at: "max_leased", label: "Leases of one consumer", sample: "1000", help: "at once"},
	{at: "quiet", label: "Only consumers notice it", help: "no operational events, statistics or dead letters"},
	{at: "tenant", label: "Tenant", when: "create", owner: true, sample: "default"},
}}

func (v *visit) queueForm(is *client.Queue) (form, error) {
	policies, err := v.policyOptions("queue")
	if err != nil {
		return form{}, err
	}
	sources, err := v.sourceOptions()
	if err != nil {
		return form{}, err
	}
	var doc json.RawMessage
	if is != nil {
		doc = is.JSON()
	}
	return v.form(&queueBlank, doc, map[string][]option{"policy": policies, "source": sources}), nil
}

func newQueue(v *visit) (formModel, error) {
	f, err := v.queueForm(nil)
	m := v.formPage("Add a queue", f, "Add the queue")
	m.Verdict.say("Which events should wait for consumers?", "", "A queue needs no URL: programs fetch its messages, and acknowledge each.")
	return m, err
}

var addQueue = adds(&queueBlank, "/v1/queues", func(made *client.Queue) (to, notice string) {
	return "/queues/" + url.PathEscape(made.ID), "The queue is added. It gets every matching event from now on."
})

func editQueue(v *visit, q *client.Queue) (formModel, error) {
	f, err := v.queueForm(q)
	m := v.formPage("Change "+q.Name, f, "Save", v.below("/queues", q.Name, q.ID, "Change")...)
	m.Verdict.say("Change "+q.Name+".", "", "Consumers that use the name need the new one, if you change it.")
	return m, err
}

// queueQuestion is the page of a form that ends all messages of a queue.
func (v *visit) queueQuestion(q *client.Queue, verb, help string) formModel {
	return v.formPage(verb+" "+q.Name, v.consentForm(q.Name, help), verb+" the queue", v.below("/queues", q.Name, q.ID, verb)...)
}

// messagesIn is how many messages a queue has.
func messagesIn(q *client.Queue) int64 {
	c := countsOf(q)
	return c.Ready + c.Leased + c.Delayed + c.Waiting + c.Blocked
}

func purgeQueueForm(v *visit, q *client.Queue) (formModel, error) {
	m := v.queueQuestion(q, "Purge", "")
	m.Verdict.say("Discard all "+say.Many(messagesIn(q), "message", "messages")+" of "+q.Name+"?", "",
		"Leased ones too: what their consumers answer has no effect then. Dead letters stay.")
	return m, nil
}

func purgeQueue(v *visit) (string, error) {
	in, err := v.creation(consentBlank("", ""))
	if err != nil {
		return "", err
	}
	name, _ := in["confirm"].(string)
	reason, _ := in["reason"].(string)
	done, err := v.client.PurgeQueue(v.Context(), v.PathValue("id"), name, reason) // which refuses another name
	if err != nil {
		return "", err
	}
	v.goTo("/queues/" + url.PathEscape(v.PathValue("id")))
	return fmt.Sprintf("%s discarded.", say.Many(done.Discarded, "message was", "messages were")), nil
}

func deleteQueueForm(v *visit, q *client.Queue) (formModel, error) {
	m := v.queueQuestion(q, "Delete", "To stop leasing for a time, pause the queue instead.")
	m.Verdict.say("Delete the queue "+q.Name+"?", "",
		say.Many(messagesIn(q), "message ends", "messages end")+" as dropped. Its consumers get 404. Its history stays until retention deletes it.")
	return m, nil
}

func deleteQueue(v *visit, q *client.Queue) (string, error) {
	reason, err := v.consented(q.Name)
	if err != nil {
		return "", err
	}
	v.goTo("/queues")
	return "The queue is deleted.", v.client.DeleteQueue(v.Context(), q.ID, reason)
}
