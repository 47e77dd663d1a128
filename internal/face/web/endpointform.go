package web

import (
	"encoding/json"
	"net/url"
	"reflect"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/wire"
)

// endpointBlank is the form of an endpoint. Every row is a member of wire.NewEndpoint, which has
// the kinds, limits and words of those that say none.
var endpointBlank = blank{of: reflect.TypeFor[wire.NewEndpoint](), rows: []input{
	{group: "Where events go", at: "url", label: "URL", sample: "https://example.com/hooks", help: "gets each event as a signed request"},
	{at: "target/kind", label: "Or a broker", kind: kindChoice, help: "gets each event as a message, in the place of the URL"},
	{at: "target/address", label: "Broker's address", sample: "kafka+ssl://b1.example.com:9093,b2.example.com:9093",
		help: "redis:// or rediss://, nats:// or tls://, amqp:// or amqps://, kafka:// or kafka+ssl://, http:// or https:// for the others; the second form uses TLS"},
	{at: "target/name", label: "Topic, subject, stream or exchange", sample: "invoices"},
	{at: "target/username", label: "User of the broker"},
	{at: "target/password", label: "Its password", kind: kindSecret, help: "Empty: it stays as it is"},
	{at: "target/options", label: "Options of the broker", sample: "routing_key: invoices"},
	{at: "description", label: "Name", sample: "acme production", help: "for people; the lists show it"},
	{group: "Which events", at: "event_types", label: "Event types", sample: "invoice.*",
		help: "one on each line; * stands for a whole segment. Empty: every type"},
	{at: "filter", label: "Filter", sample: "event.data.amount > 100", help: "a CEL expression over event (type, key, data, metadata). Empty: no filter"},
	{at: "source", label: "Source", kind: kindChoice, help: "only events that this source received"},
	{group: "Order, pace and retries", at: "policy", label: "Policy", kind: kindChoice,
		help: "Answers that say the event is unfit (400, 413, 415, 422): three attempts in ten minutes (default), or retried for days like everything else (standard)"},
	{at: "ordering", label: "Order", help: "key: events of one key go out one after the other. none: they do not wait for each other"},
	{at: "rate_limit/per_second", label: "Requests per second", sample: "no limit", help: "empty: no limit"},
	{at: "rate_limit/burst", label: "In one burst", help: "one second's worth if not given"},
	{at: "max_concurrency", label: "Requests at once", sample: "32", help: "32 if not given"},
	{group: "The request", at: "method", label: "Method", help: "of the requests"},
	{at: "format", label: "Format", help: "form of the body"},
	{at: "headers", label: "Headers", sample: "Authorization: Bearer …",
		help: "one on each line, sent with every delivery. {event.id}, {event.type}, {event.key} and {attempt} stand for their values"},
	{at: "transform", label: "Transform", sample: "{text: .data.title}", help: "a jq expression over the standard body that gives the one to send. Empty: none"},
	{at: "signature_headers", label: "Signature headers", help: "svix: also svix-id, svix-timestamp and svix-signature"},
	{at: "trace", label: "Send the trace", help: "requests have the header traceparent, so that the receiver continues the publisher's trace"},
	{at: "secret", label: "Secret", kind: kindSecret, when: "create", sample: "whsec_…", help: "to keep one that the receiver knows already. Empty: a new one is created"},
	{group: "The way to the receiver", at: "oauth2/token_url", label: "Token server", sample: "https://login.example.com/oauth2/token",
		help: "requests carry a bearer token that it gives (client credentials). Empty: none"},
	{at: "oauth2/client_id", label: "Client id"},
	{at: "oauth2/client_secret", label: "Client secret", kind: kindSecret, help: "Empty: it stays as it is"},
	{at: "oauth2/scopes", label: "Scopes", help: "one on each line"},
	{at: "oauth2/audience", label: "Audience", help: "if the token server asks for one"},
	{at: "tls/client_cert", label: "Client certificate", sample: "-----BEGIN CERTIFICATE-----", help: "in PEM, with those between it and its authority"},
	{at: "tls/client_key", label: "Its private key", sample: "-----BEGIN PRIVATE KEY-----", help: "in PEM, not encrypted. It is never shown again"},
	{at: "tls/ca", label: "Trusted authorities", sample: "-----BEGIN CERTIFICATE-----", help: "in PEM. Empty: those of the server's system"},
	{at: "proxy", label: "Forward proxy", sample: "https://user:password@proxy.example.com:3128", help: "connections go through it. Empty: none but the server's own"},
	{group: "Marks", at: "labels", label: "Labels", sample: "team: billing", help: "one on each line. Lists can be filtered by them; no delivery depends on them"},
	{at: "tenant", label: "Tenant", when: "create", owner: true, sample: "default"},
}}

// customerRows are the rows that a customer may set of its own endpoint: they concern its receiver,
// and not how the operator's server works.
var customerRows = []string{"url", "description", "event_types", "headers", "rate_limit/per_second", "rate_limit/burst"}

// only is the blank with some of its rows.
func (b *blank) only(names []string) *blank {
	out := &blank{of: b.of}
	for _, name := range names {
		for _, in := range b.rows {
			if in.at == name {
				in.group = ""
				out.rows = append(out.rows, in)
			}
		}
	}
	return out
}

// foldedGroups are those that most endpoints do not need.
var foldedGroups = []string{"The request", "The way to the receiver", "Marks"}

// endpointForm makes the form of an endpoint; is is nil for a new one. Choices are asked for only if
// the session may set a row that needs them.
func (v *visit) endpointForm(is *client.Endpoint) (form, error) {
	b, err := v.own()
	if err != nil {
		return form{}, err
	}
	choices := map[string][]option{}
	for _, in := range b.rows {
		var err error
		switch in.at {
		case "policy":
			choices[in.at], err = v.policyOptions(policy.DefaultPreset)
			usual, _ := policy.Preset(policy.DefaultPreset)
			choices[in.at] = append(choices[in.at], option{Value: words.FinalPolicy(&usual), Word: "default; 400, 404, 422 are final"})
		case "ordering":
			choices[in.at] = []option{{Word: "as the preset says, else key"}, {Value: "key", Word: "key"}, {Value: "none", Word: "none"}}
		case "format":
			choices[in.at] = []option{{Word: "as the preset says, else standard"}, {Value: "standard", Word: "standard"},
				{Value: "raw", Word: "raw"}, {Value: "cloudevents", Word: "cloudevents"},
				{Value: "batch", Word: "batch: several events"}}
		case "source":
			choices[in.at], err = v.sourceOptions()
		case "event_types":
			if in.kind == kindTicks {
				choices[in.at], _, err = v.typeOptions()
			}
		}
		if err != nil {
			return form{}, err
		}
	}
	var doc json.RawMessage
	if is != nil {
		doc = ownSettings(is)
		if own := words.Policy(is.Policy, is.PolicyChanges); textOf(kindChoice, is.Policy) == itsOwn && choices["policy"] != nil {
			choices["policy"] = append(choices["policy"], option{Value: itsOwn, Word: own})
		}
	}
	return v.form(b, doc, choices, foldedGroups...), nil
}

// ownSettings is an endpoint as its answer shows it, without what its policy's preset says.
func ownSettings(is *client.Endpoint) json.RawMessage {
	var fields map[string]json.RawMessage
	if p := is.PresetShape; p == nil || json.Unmarshal(is.JSON(), &fields) != nil {
		return is.JSON()
	} else {
		for name, says := range map[string]string{"ordering": p.Ordering, "format": p.Format} {
			if says != "" {
				delete(fields, name)
			}
		}
	}
	doc, err := json.Marshal(fields)
	if err != nil {
		return is.JSON()
	}
	return doc
}

// mostOptions bounds the policies and sources that a choice offers.
const mostOptions = 200

// policyOptions are the policies that an endpoint can name.
func (v *visit) policyOptions(usual string) ([]option, error) {
	found, err := v.client.Policies(v.Context(), client.ListFilter{Limit: mostOptions})
	if err != nil {
		return nil, err
	}
	all := []option{{Value: "", Word: usual + " (the default)"}}
	for i := range found.Data {
		all = append(all, option{Value: found.Data[i].Name, Word: found.Data[i].Name})
	}
	return all, nil
}

// typeOptions are the event types that are registered; more: there are too many to tick.
func (v *visit) typeOptions() (all []option, more bool, err error) {
	found, err := v.client.EventTypes(v.Context(), client.ListFilter{Limit: mostOptions})
	if err != nil {
		return nil, false, err
	}
	for i := range found.Data {
		t := &found.Data[i]
		all = append(all, option{Value: t.Name, Word: t.Name, Says: t.Description, Href: v.link("/event-types/" + url.PathEscape(t.ID))})
	}
	return all, found.Next != "", nil
}

func (v *visit) sourceOptions() ([]option, error) {
	found, err := v.client.Sources(v.Context(), client.SourceFilter{Limit: mostOptions})
	if err != nil {
		return nil, err
	}
	all := []option{{Value: "", Word: "events of any origin"}}
	for i := range found.Data {
		all = append(all, option{Value: found.Data[i].ID, Word: found.Data[i].Name})
	}
	return all, nil
}

// newEndpoint is the page that adds an endpoint, with its three choices.
func newEndpoint(v *visit) (formModel, error) {
	f, err := v.endpointForm(nil)
	if err != nil {
		return formModel{}, err
	}
	to := v.URL.Query().Get("to")
	m := v.formPage("Add an endpoint", f, "Add the endpoint")
	m.Views = []savedView{{"My URL", v.link("/endpoints/new"), to != "demo"}}
	m.Verdict.say("Where should events go?", "",
		"To a URL of your own: give it, and name the event types it gets. The secret that signs the requests is shown once, after this.")
	if demo := v.web.Dev.Receiver; demo != "" {
		m.Views = append(m.Views, savedView{"The demo receiver", v.link("/endpoints/new?to=demo"), to == "demo"})
		if to == "demo" {
			m.Verdict.Next = "To the demo receiver of this program: it accepts every request, and verifies no signature."
			if !v.again() {
				m.Form.set("url", demo)
				m.Form.set("description", "Demo receiver, open")
			}
		}
	}
	m.Views = append(m.Views, savedView{"A queue, without a URL", v.link("/queues/new"), false})
	if v.session.portal {
		m.Views = nil
	}
	return m, nil
}

// set gives an input a value.
func (f *form) set(name, value string) {
	if at := f.find("/" + name); at != nil {
		at.set(value)
	}
}

func (at *field) set(value string) {
	at.Value = value
	for i := range at.Options {
		at.Options[i].Chosen = at.Options[i].Value == value
	}
}

func addEndpoint(v *visit) (string, error) {
	b, err := v.own()
	if err != nil {
		return "", err
	}
	in, own := v.creation(b)
	return "", joined(own, v.makeEndpoint(in))
}

// makeEndpoint creates an endpoint and has the answer show its secret.
func (v *visit) makeEndpoint(in map[string]any) error {
	var made client.Endpoint
	if err := v.postOnce("/v1/endpoints", in, &made); err != nil {
		return err
	}
	at := "/endpoints/" + url.PathEscape(made.ID)
	v.secret = &secretModel{Label: "Secret of the endpoint", Secret: made.Secret, Back: at}
	v.secret.Verdict.say(endpointName(&made)+" gets events from now on.", "",
		"Give this secret to the receiver, which verifies the signature of every request with it.")
	v.secret.Verdict.Acts = []act{{Label: "To the endpoint", Href: v.link(at), Main: true}, {Label: "Send a test event", Post: v.link(at + "/test")}}
	return nil
}

func editEndpoint(v *visit, e *client.Endpoint) (formModel, error) {
	f, err := v.endpointForm(e)
	if err != nil {
		return formModel{}, err
	}
	m := v.formPage("Change "+endpointName(e), f, "Save", v.below("/endpoints", endpointName(e), e.ID, "Change")...)
	m.Verdict.say("Change "+endpointName(e)+".", "",
		"New settings apply to the next attempt, also of deliveries that are pending. Only what you change here is sent.")
	return m, nil
}

func saveEndpoint(v *visit) (string, error) {
	said := ""
	b, err := v.own()
	if err != nil {
		return "", err
	}
	notice, err := v.save(b, "/endpoints/{id}", "Saved", func(changes map[string]any) error {
		said = ": " + say.Many(len(changes), "setting", "settings") + "."
		return v.patch("/v1/endpoints/{id}", changes)
	})
	return notice + said, err
}

// own is the part of the form of an endpoint that the session may set. Customers tick event types
// if any are registered, and write patterns if none are, or too many.
func (v *visit) own() (*blank, error) {
	if !v.session.portal {
		return &endpointBlank, nil
	}
	b := endpointBlank.only(customerRows)
	types, more, err := v.typeOptions()
	for i := range b.rows {
		switch in := &b.rows[i]; {
		case in.at == "headers":
			in.when = "create" // the API does not show their values, which a form would send back
		case in.at == "event_types" && len(types) > 0 && !more:
			in.kind, in.help = kindTicks, "none ticked: every type, also those that are added later"
		}
	}
	return b, err
}
