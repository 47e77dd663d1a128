package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"reflect"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/wire"
)

// contactsModel is the list of contacts.
type contactsModel struct {
	pager
	Verdict verdict
	Rows    []contactRow
}

// contactRow is one contact in a list.
type contactRow struct {
	Name, Where, Why string
	Pill             pill
	Acts             []act
}

func contactList(v *visit) (contactsModel, error) {
	m := contactsModel{Verdict: verdict{Acts: v.formLinks("/contacts/", "new", "Add a contact", "sender", "Sender of messages")}}
	f := v.listed()
	found, err := v.client.Contacts(v.Context(), f)
	if err != nil || len(found.Data) == 0 && v.unfound(&m.Verdict, "contact") {
		return m, err
	}
	if len(found.Data) == 0 && f.Cursor == "" {
		m.Verdict.say("No contact is told when an endpoint fails.", "", "A contact is a mail address or a chat. It gets one message when an endpoint begins to "+
			"fail, when it has failed for a day, when it will soon be disabled, when it is disabled, and when it works again.")
		return m, nil
	}
	open := 0
	for i := range found.Data {
		c := &found.Data[i]
		if !c.Confirmed {
			open++
		}
		m.Rows = append(m.Rows, v.contactRow(c))
	}
	m.pager = v.pager("/contacts", f.Cursor, found.Next, "q", f.Search)
	here := m.here()
	m.Verdict.say(say.Many(len(found.Data), "contact"+here+" is", "contacts"+here+" are")+" told when endpoints fail.", "", "")
	if open > 0 {
		m.Verdict.say(say.Many(open, "contact"+here+" has", "contacts"+here+" have")+" not confirmed the address.", "",
			"They get messages once they have opened the link of the mail that asks them.")
	}
	return m, nil
}

func (v *visit) contactRow(c *client.Contact) contactRow {
	service := channels.Title(c.Service)
	r := contactRow{Name: cmp.Or(c.Description, c.Mail, service), Where: cmp.Or(c.Mail, service+" · "+c.URL),
		Pill: healthPill(c.Health.State), Why: words.Instants(c.Health.Reason)}
	id := url.PathEscape(c.ID)
	if !c.Confirmed {
		r.Pill = pill{toneHold, "unconfirmed"}
		if v.mayDo("/contacts/{id}/ask") {
			r.Acts = append(r.Acts, act{Label: "Ask again", Post: v.link("/contacts/" + id + "/ask")})
		}
	}
	if v.mayDo("/contacts/{id}/delete") {
		r.Acts = append(r.Acts, act{Label: "Delete", Post: v.link("/contacts/" + id + "/delete"), Sure: "It gets no more messages."})
	}
	return r
}

// The forms about contacts.
var (
	contactBlank = blank{of: reflect.TypeFor[wire.NewContact](), rows: []input{
		{at: "mail", label: "Mail address", sample: "ops@example.com", help: "it gets a mail with a link that confirms it; nothing else goes there before"},
		{at: "url", label: "Or URL of a chat", kind: kindSecret, sample: "https://hooks.slack.com/services/T…/B…/X…",
			help: "of a webhook of Slack, Microsoft Teams, Discord or another chat, as the chat shows it; it is not shown again"},
		{at: "description", label: "Description", sample: "the team on call"},
		{at: "tenant", label: "Tenant", when: "create", owner: true, sample: "default"},
		{at: "confirmed", label: "Confirmed", owner: true, help: "the address needs no confirmation; only you can say so"},
	}}
	senderBlank = blank{of: reflect.TypeFor[wire.SenderSettings](), rows: []input{
		{at: "url", label: "URL of the mail server", kind: kindSecret, sample: "smtp://user:password@mail.example.com:587/?fromaddress=hooks@example.com&fromname=Acme",
			help: "without recipients; not shown again; empty keeps it. Without one nothing is sent to contacts"},
		{at: "subject", label: "Subject", sample: "{subject}", help: "with {subject}, {endpoint}, {stage}, {cause}, {since}, {failed}, {waiting}, {dead}, {tenant}"},
		{at: "text", label: "Text", sample: "{text}", help: "with {text} and the same; a link follows"},
		{at: "per_day", label: "Messages a day", sample: "20", help: "to the contacts of one tenant, questions to confirm among them"},
		{at: "scopes", label: "Links may", help: "in the portal. None: read and replay. With endpoints:write a disabled endpoint can be enabled by the link"},
	}}
)

func newContact(v *visit) (formModel, error) {
	m := v.formPage("Add a contact", v.form(&contactBlank, nil, nil), "Add the contact")
	m.Verdict.say("Who is to be told when an endpoint fails?", "", "Give a mail address, or the URL of a chat.")
	return m, nil
}

var addContact = adds(&contactBlank, "/v1/contacts", func(c *client.Contact) (to, notice string) {
	if c.Confirmed {
		return "/contacts", "The contact is added."
	}
	return "/contacts", "The contact is added. It is told once it has opened the link of the mail that asks it."
})

func askContact(v *visit) (string, error) {
	_, err := v.client.AskContact(v.Context(), v.PathValue("id"))
	return "The mail that asks to confirm the address is on its way.", err
}

func deleteContact(v *visit) (string, error) {
	return "The contact is deleted.", v.client.DeleteContact(v.Context(), v.PathValue("id"), byDashboard)
}

func senderForm(v *visit) (formModel, error) {
	is, err := v.client.Sender(v.Context())
	if err != nil {
		return formModel{}, err
	}
	m := v.formPage("Sender of messages", v.form(&senderBlank, is.JSON(), nil), "Save")
	m.Verdict.say("How do messages reach contacts?", "", "The server now: "+cmp.Or(is.URL, "none, so nothing is sent to any contact")+".")
	return m, nil
}

func saveSender(v *visit) (string, error) {
	if _, err := v.client.Sender(v.Context()); err != nil { // a form without a change asks the API for nothing else
		return "", err
	}
	return v.save(&senderBlank, "/contacts", "The sender is saved.", func(changes map[string]any) error {
		_, err := v.client.UpdateSender(v.Context(), byDashboard, changes)
		return err
	})
}

// contactLinkModel is the page of the link that confirms an address.
type contactLinkModel struct {
	Verdict verdict
	Link    string // empty: there is nothing to press
}

// lookAtContactLink shows the button. Opening the link alone confirms nothing, because programs that
// preview links open them.
func (v *visit) lookAtContactLink() error {
	link := v.URL.Query().Get("link")
	if link == "" || len(link) > mostAlertLink {
		return refused(http.StatusNotFound, "This is no link of a contact.", "Open the link of the mail as it is.")
	}
	m := contactLinkModel{Link: link}
	m.Verdict.say("Messages about webhooks will come to your address.", "", "Confirm that you want them: when deliveries to an endpoint fail, and when they succeed again.")
	v.session = nil
	return v.drawAlone(http.StatusOK, "Confirm", "contact-link.html", m)
}

// followContactLink confirms the address.
func (v *visit) followContactLink() error {
	if v.readForm() != nil || !v.isOwn(v.cookie(formCookie)) {
		return notFromHere()
	}
	link := v.PostForm.Get("link")
	if link == "" || len(link) > mostAlertLink {
		return refused(http.StatusNotFound, "This is no link of a contact.", "Open the link of the mail as it is.")
	}
	caller, _ := v.web.caller("", "", v.Request)
	is, err := caller.FollowContactLink(v.Context(), link)
	if refusal, ok := errors.AsType[*client.Error](err); ok && refusal.Status < http.StatusInternalServerError {
		return refused(http.StatusNotFound, "The link has expired, or the address is no contact any more.", "Ask for another mail.")
	}
	if err != nil {
		return err
	}
	m := contactLinkModel{}
	m.Verdict.say(is.Mail+" is confirmed.", "", "You can close this page.")
	v.session = nil
	return v.drawAlone(http.StatusOK, "Confirmed", "contact-link.html", m)
}
