package main

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/tell/contacts"
)

var customerContacts = resource[client.Contact]{
	path: "/v1/contacts", plural: "contacts", id: "CONTACT", audited: true,
	filters:  cli.OnlyTenant,
	settings: cli.ContactSettings,
	needed:   []string{"mail|url"},
	head:     []string{"NAME", "CONTACT", "CONFIRMED", "HEALTH", "SERVICE", "TENANT"},
	row: func(_ reader, c *client.Contact) []string {
		return []string{cmp.Or(c.Description, c.Mail, c.URL), c.ID, yesNo(c.Confirmed), string(c.Health.State), c.Service, c.Tenant}
	},
	view: contactView,
	verbs: []verb{
		{"create", "Add a contact, who is told when endpoints of its tenant fail",
			"grapnel contacts create --tenant acme --mail ops@acme.example"},
		{"list", "List contacts, and whether they have confirmed their addresses", ""},
		{"get", "Show a contact", ""},
		{"delete", "Delete contacts; links in their messages open the portal no longer", ""},
	},
}

func contactView(r reader, c *client.Contact) cli.View {
	return object(c.ID, c.JSON(), [][]string{{"contact", c.ID}, {"tenant", c.Tenant}, {"mail", c.Mail}, {"service", c.Service}, {"url", c.URL},
		{"description", c.Description}, {"confirmed", yesNo(c.Confirmed)}, {"since", r.Time(c.ConfirmedAt)},
		{"health", string(c.Health.State)}, {"why", c.Health.Reason}, {"created", r.Time(&c.CreatedAt)}})
}

func (s *session) contactsCommand() *cobra.Command {
	all := customerContacts.commands(s)
	for _, c := range all {
		if c.Name() == "create" {
			c.Aliases = []string{"add"}
		}
	}
	return group("contacts", "Say whom of a customer to tell when its endpoints fail", append(all, contactsAsk.command(s),
		contactsSender.command(s), contactsSetSender.command(s))...)
}

var contactsAsk = call[client.Contact]{
	use: "ask CONTACT", short: "Send the mail that confirms an address again",
	method: http.MethodPost, path: "/v1/contacts/*/ask", view: contactView,
}

var contactsSender = call[client.Sender]{
	use: "sender", short: "Show how messages reach contacts", path: "/v1/contact-sender", view: senderView,
}

var contactsSetSender = call[client.Sender]{
	use: "set-sender", short: "Change how messages reach contacts; without a URL nothing is sent to them",
	example: "grapnel contacts set-sender --url 'smtp://hooks:PASSWORD@mail.example.com:587/?fromaddress=hooks@example.com&fromname=Acme'",
	method:  http.MethodPatch, path: "/v1/contact-sender", settings: cli.SenderSettings, asks: cli.Reason, view: senderView,
}

func senderView(r reader, s *client.Sender) cli.View {
	perDay, scopes := cmp.Or(int(s.PerDay), bounds.Fill(contacts.Bounds{}).PerDay), s.Scopes
	if len(scopes) == 0 {
		scopes = contacts.Scopes
	}
	return object("sender", s.JSON(), [][]string{{"url", cmp.Or(s.URL, "none: nothing is sent to contacts")},
		{"subject", cmp.Or(s.Subject, contacts.DefaultSubject)}, {"text", cmp.Or(s.Text, contacts.DefaultText)},
		{"per day", strconv.Itoa(perDay)}, {"scopes", scopesOf(scopes)}, {"changed", r.Time(s.UpdatedAt)}})
}
