package web

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/wire"
)

// outboxScheme stands for a source that reads a producer's outbox instead of taking requests.
const outboxScheme = "outbox"

// brokerScheme stands for a source that reads the messages of a broker.
const brokerScheme = "broker"

// brokerRows are the settings of such a source.
var brokerRows = []input{
	{at: "broker/kind", label: "Kind of the broker", kind: kindChoice},
	{at: "broker/address", label: "Broker's address", sample: "tls://nats.example.com:4222",
		help: "redis:// or rediss://, nats:// or tls://, amqp:// or amqps://, kafka:// or kafka+ssl://, http:// or https:// for sqs and pubsub; the second form uses TLS"},
	{at: "broker/name", label: "Stream, queue, topic or subscription", sample: "ORDERS"},
	{at: "broker/username", label: "User of the broker"},
	{at: "broker/password", label: "Its password", kind: kindSecret, help: "Empty: it stays as it is"},
	{at: "broker/options", label: "Options of the broker", sample: "group: billing"},
	{group: "Events", at: "type", label: "Event type", sample: `"order.changed"`, help: "a CEL expression over headers, data, type, key. Empty: the broker's own field"},
	{at: "key", label: "Ordering key", help: "a CEL expression. Empty: the broker's own key, routing key or subject"},
	{at: "event_id", label: "Event id", help: "a CEL expression. Empty: the header webhook-id, else the message's own id or place"},
	{group: "TLS", at: "tls/ca", label: "Trusted authorities", sample: "-----BEGIN CERTIFICATE-----", help: "in PEM. Empty: those of the server's system"},
	{at: "tls/client_cert", label: "Client certificate", sample: "-----BEGIN CERTIFICATE-----", help: "in PEM, with those between it and its authority"},
	{at: "tls/client_key", label: "Its private key", sample: "-----BEGIN PRIVATE KEY-----", help: "in PEM, not encrypted. It is never shown again"},
	{at: "tenant", label: "Tenant", when: "create", owner: true, sample: "default"},
}

// verifyRows are the settings of verification. A provider's form has those that its scheme reads.
var verifyRows = []input{
	{at: "verify/header", label: "Header of the signature or key"}, {at: "verify/algorithm", label: "Algorithm"}, {at: "verify/encoding", label: "Encoding"},
	{at: "verify/prefix", label: "Prefix", sample: "sha256="}, {at: "verify/signed", label: "Signed text", sample: "{timestamp}.{body}"},
	{at: "verify/timestamp_header", label: "Header of the timestamp"}, {at: "verify/id_header", label: "Header of the id"},
	{at: "verify/type_header", label: "Header of the type"}, {at: "verify/username", label: "User name"}, {at: "verify/tolerance", label: "Tolerance", sample: "5m"},
}

// sourceBlank is the form of a source with a scheme: the table of schemes says which settings it
// has.
func sourceBlank(name string, s *scheme.Scheme) *blank {
	b := &blank{of: reflect.TypeFor[wire.NewSource](), rows: []input{
		{group: "The source", at: "name", label: "Name", sample: name, help: "for operators, unique within the tenant"},
		{at: "description", label: "Description"},
	}}
	if name == outboxScheme {
		b.rows = append(b.rows, input{at: "outbox/dsn", label: "Database of the producer", kind: kindSecret, sample: "postgres://user:password@host:5432/database",
			help: "PostgreSQL, mysql://user:password@host:3306/database, or sqlite:/path of a file of --outbox-file"},
			input{at: "tenant", label: "Tenant", when: "create", owner: true, sample: "default"})
		return b
	}
	if name == brokerScheme {
		b.rows = append(b.rows, brokerRows...)
		return b
	}
	if s.Needs != "" {
		help := s.Needs
		if s.MayWait {
			help += ". Empty: the provider shows it after it knows the address"
		}
		b.rows = append(b.rows, input{at: "verify/secret", label: "Secret", kind: kindSecret, when: "create", help: help})
	}
	for _, row := range verifyRows {
		if name := strings.TrimPrefix(row.at, "verify/"); slices.Contains(s.Settings, name) {
			b.rows = append(b.rows, row)
		}
	}
	b.rows = append(b.rows, input{at: "on_unverified", label: "Requests that cannot be verified", help: "reject: 401, and nothing is stored. quarantine: stored for people to see, and never delivered"},
		input{group: "Events", at: "type", label: "Event type", help: "a CEL expression. Empty: the provider's own field"},
		input{at: "key", label: "Ordering key", help: "a CEL expression. Empty: the provider's own field, if it has one"},
		input{group: "Duplicates and limits", at: "event_id", label: "Event id", sample: "event.data.id",
			help: "a CEL expression over the body. Empty: the provider's own field, if it has one"},
		input{at: "dedupe/by", label: "Duplicates are recognised by", help: "the first of these that a request has counts"},
		input{at: "dedupe/window", label: "Remembered for", sample: "192h"},
		input{at: "dedupe/ignore", label: "Left out of the content", sample: "$.sent_at"},
		input{at: "rate_limit/per_second", label: "Requests per second", sample: "no limit", help: "more get 429. Empty: no limit"},
		input{at: "rate_limit/burst", label: "In one burst"},
		input{at: "max_body", label: "Largest body, bytes", sample: "the server's limit"},
		input{at: "public_url", label: "URL that the provider calls", help: "for signatures that cover it. Empty: below the server's own"},
		input{at: "tenant", label: "Tenant", when: "create", owner: true, sample: "default"})
	return b
}

var foldedOfSources = []string{"Events", "Duplicates and limits"}

// schemeAsked is the scheme in the address of the form.
func (v *visit) schemeAsked() (string, scheme.Scheme, bool) {
	name := v.URL.Query().Get("scheme")
	s, known := scheme.Of(name)
	return name, s, known || name == outboxScheme || name == brokerScheme
}

func newSource(v *visit) (formModel, error) {
	name, s, known := v.schemeAsked()
	v.title = "Add a source"
	var m formModel
	for _, one := range scheme.All() {
		if one.Name == "none" {
			one.Title = "Not verified"
		}
		m.Picks = append(m.Picks, savedView{one.Title, v.link("/sources/new" + withQuery("scheme", one.Name)), one.Name == name})
	}
	m.Picks = append(m.Picks, savedView{"A producer's outbox", v.link("/sources/new?scheme=" + outboxScheme), name == outboxScheme},
		savedView{"A broker's messages", v.link("/sources/new?scheme=" + brokerScheme), name == brokerScheme})
	if !known {
		m.Verdict.say("Whose webhooks should come in?", "",
			"Choose the provider: Grapnel knows its signature, its ids and how long it retries. HMAC is for a provider that is not in the list.")
		return m, nil
	}
	m.Verdict.say("Receive the webhooks of "+s.Title+".", "", strings.TrimSpace(sentence(s.Signature)+" "+sentence(s.Retries)))
	if name == outboxScheme {
		m.Verdict.say("Read events from the outbox of a producer.", "",
			"A producer writes events into a table of its own database, in its own transaction. Grapnel reads them from there.")
	}
	if name == brokerScheme {
		m.Verdict.say("Read events from a broker.", "",
			"Each message of a stream, queue, topic or subscription becomes an event. It is acknowledged when the event is stored.")
	}
	m.Picks = nil
	v.steps = []crumb{{"Add a source", v.link("/sources/new")}, {name, ""}}
	m.Form = v.form(sourceBlank(name, &s), nil, nil, foldedOfSources...)
	m.Form.Button, m.Form.Cancel = "Add the source", v.link("/sources")
	return m, nil
}

func addSource(v *visit) (string, error) {
	name, s, known := v.schemeAsked()
	if !known {
		return "", wrong("verify/scheme", "choose the provider first")
	}
	in, own := v.creation(sourceBlank(name, &s))
	if name != outboxScheme && name != brokerScheme {
		verify, _ := in["verify"].(map[string]any)
		if verify == nil {
			verify = map[string]any{}
		}
		verify["scheme"] = name
		in["verify"] = verify
	}
	var made client.Source
	if err := joined(own, v.postOnce("/v1/sources", in, &made)); err != nil {
		return "", err
	}
	v.goTo("/sources/" + url.PathEscape(made.ID))
	if name == outboxScheme {
		return "The source is added. It connects to the producer's database now.", nil
	}
	if name == brokerScheme {
		return "The source is added. It connects to the broker now.", nil
	}
	if made.Waits {
		return "The source is added. Give its address to the provider, and set the secret that the provider shows then.", nil
	}
	return "The source is added. Give its address to the provider.", nil
}

// blankOf is the form of a source that exists.
func blankOf(s *client.Source) *blank {
	if s.Outbox != nil {
		return sourceBlank(outboxScheme, nil)
	}
	if s.Broker != nil {
		return sourceBlank(brokerScheme, nil)
	}
	named, _ := scheme.Of(s.Verify.Scheme)
	b := sourceBlank(s.Verify.Scheme, &named)
	for i := range b.rows {
		if s.Waits && b.rows[i].at == "verify/secret" {
			b.rows[i].when = "" // it is asked for here too
		}
	}
	return b
}

func editSource(v *visit, s *client.Source) (formModel, error) {
	f := v.form(blankOf(s), s.JSON(), nil, foldedOfSources...)
	m := v.formPage("Change "+s.Name, f, "Save", v.below("/sources", s.Name, s.ID, "Change")...)
	m.Verdict.say("Change "+s.Name+".", "", "New settings apply to the next request. Only what you change here is sent.")
	return m, nil
}

func saveSource(v *visit, s *client.Source) (string, error) {
	released := ""
	notice, err := v.save(blankOf(s), "/sources/{id}", "Saved.", func(changes map[string]any) error {
		s, err := v.client.UpdateSource(v.Context(), v.PathValue("id"), changes)
		if err == nil && s.Released != nil {
			n := s.Released
			released = fmt.Sprintf(" Of the requests that waited, %s: %s.", say.Many(n.Events, "became an event", "became events"),
				say.List([]string{say.Many(n.Duplicates, "duplicate", "duplicates"), say.Many(n.Conflicts, "conflict", "conflicts"),
					say.Many(n.Quarantined, "stays in quarantine", "stay in quarantine")}),
			)
		}
		return err
	})
	return notice + released, err
}

func rotateSourceForm(v *visit, s *client.Source) (formModel, error) {
	m := v.formPage("Rotate the secret", v.form(&sourceRotation, nil, overlaps), "Rotate the secret",
		v.below("/sources", s.Name, s.ID, "Rotate the secret")...)
	m.Verdict.say("Give "+s.Name+" a new secret.", "",
		"Make the new secret at "+s.Provider.Title+" first. Requests that either secret verifies are accepted until the old one ends.")
	return m, nil
}

func rotateSource(v *visit) (string, error) {
	var s client.Source
	at := v.ofThis("/sources/{id}")
	if err := v.rotate(&sourceRotation, "/v1"+at+"/rotate-secret", &s); err != nil {
		return "", err
	}
	v.goTo(at)
	said := "Requests are verified with the new secret now."
	if all := s.Verify.Secrets; len(all) > 1 && all[1].ExpiresAt != nil {
		said += " The old one ends " + v.at(*all[1].ExpiresAt).Relative() + "."
	}
	return said, nil
}

func deleteSourceForm(v *visit, s *client.Source) (formModel, error) {
	f := v.consentForm(deleteWord, "To stop requests for a time, pause the source instead.")
	m := v.formPage("Delete "+s.Name, f, "Delete the source", v.below("/sources", s.Name, s.ID, "Delete")...)
	m.Verdict.say("Delete the source "+s.Name+"?", "",
		"Its address answers 404 from then on, so remove it at the provider first. Events that came in stay.")
	return m, nil
}
