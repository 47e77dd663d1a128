package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/contacts"
	"github.com/grapnelhq/grapnel/wire"
)

const contactTag = "Contacts"

func contactRoutes() []route {
	write := grapnel.ScopeEndpointsWrite
	return []route{
		{method: "POST", path: "/v1/contacts", scope: grapnel.ScopeManage, portal: write, whole: true, handle: asTenant(createContact),
			name: "create-contact", tag: contactTag, summary: "Add a contact",
			about: "A contact is told when endpoints of its tenant fail, once for each stage: first failing, for a day, soon disabled, disabled, " +
				"recovered. An address gets a mail with a link that confirms it, if the operator has set a sender; until then nothing else goes there.",
			body: jsonBody, takes: wire.NewContact{}, gives: map[int]any{201: wire.Contact{}}},
		{method: "GET", path: "/v1/contacts", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, whole: true, handle: asTenant(listContacts),
			name: "list-contacts", tag: contactTag, summary: "List contacts",
			query: pageOf(tenantParam, searchParam), gives: map[int]any{200: list[wire.Contact]{}}},
		{method: "GET", path: "/v1/contacts/{id}", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, whole: true,
			handle: asTenant(getting((*api).contact, showContact)),
			name:   "get-contact", tag: contactTag, summary: "Get a contact", gives: map[int]any{200: wire.Contact{}}},
		{method: "DELETE", path: "/v1/contacts/{id}", scope: grapnel.ScopeManage, portal: write, whole: true, handle: asTenant(deleteContact),
			name: "delete-contact", tag: contactTag, summary: "Delete a contact",
			about: "Its pending messages end as dropped. Links in its messages open the portal no longer.",
			query: []param{reasonParam}, gives: map[int]any{204: nil}},
		{method: "POST", path: "/v1/contacts/{id}/ask", scope: grapnel.ScopeManage, portal: write, whole: true, handle: asTenant(askContact),
			name: "ask-contact", tag: contactTag, summary: "Send the mail that confirms an address again",
			about: "It counts among the messages of the day: 429 if there is none left. 409 if the operator has set no sender. A confirmed contact " +
				"gets no mail.",
			gives: map[int]any{200: wire.Contact{}}},
		{method: "POST", path: "/v1/contact-links/{link}", open: anybody, handle: followContactLink,
			name: "follow-contact-link", tag: contactTag, summary: "Confirm the address of a contact",
			about: "The link's own page does this. The link is the credential; a repetition changes nothing.",
			gives: map[int]any{200: wire.ContactLink{}}},
		{method: "GET", path: "/v1/contact-sender", scope: grapnel.ScopeRead, bound: errSender, handle: getSender,
			name: "get-contact-sender", tag: contactTag, summary: "Get how messages reach contacts",
			about: "Needs a key that is bound to no tenant.", gives: map[int]any{200: wire.Sender{}}},
		{method: "PATCH", path: "/v1/contact-sender", scope: grapnel.ScopeAdmin, bound: errSender, handle: patchSender,
			name: "update-contact-sender", tag: contactTag, summary: "Change how messages reach contacts",
			about: "A JSON merge patch: null sets a field back. Without a URL nothing is sent to any contact. Needs a key that is bound to no tenant.",
			query: []param{reasonParam}, body: patchBody, takes: wire.SenderSettings{}, gives: map[int]any{200: wire.Sender{}}},
	}
}

// errSender refuses callers that are bound to a tenant.
var errSender = grapnel.Errorf(codeForbidden, "The sender of messages is the operator's business; the API key is bound to one tenant.")

// asTenant lets the portal of a customer see the contacts of its tenant, which are channels: the
// scope of a customer hides these.
func asTenant(do handler) handler {
	return func(a *api, c *call) (answer, error) {
		if c.pass != nil && c.pass.Portal {
			c.scope = store.Of(c.bound)
		}
		return do(a, c)
	}
}

// chats are the services that a contact can have: those where people read, with room for a link.
var chats = []string{"discord", "googlechat", "matrix", "mattermost", "rocketchat", "slack", "teams", "telegram", "zulip"}

// contact is the one that the path names.
func (a *api) contact(c *call) (grapnel.Endpoint, error) {
	ep, ok := a.Engine.Endpoint(c.scope, c.PathValue("id"))
	if !ok || ep.Channel == nil || ep.Channel.Contact == nil {
		return ep, store.ErrNotFound("contact")
	}
	return ep, nil
}

func createContact(a *api, c *call) (answer, error) {
	var f strict.Faults
	in := decode[wire.NewContact](c.body, &f)
	ep := a.newEndpoint(c, grapnel.ChannelPrefix, in.Tenant, &f)
	ch := &grapnel.Channel{Contact: &grapnel.Contact{Mail: in.Mail}}
	switch {
	case !f.Free("/mail") || !f.Free("/url"):
	case in.Mail == "" && in.URL == "":
		f.Add("/mail", "must be given, or url instead of it")
	case in.Mail != "" && in.URL != "":
		f.Add("/url", "must not be given together with mail")
	case in.Mail != "":
		ch.Service, ep.URL = "smtp", "mailto:"+in.Mail
		if !channels.IsMailbox(in.Mail) {
			f.Add("/mail", "must be the address of one mailbox, such as name@example.com")
		}
	default:
		a.setChat(c, &ep, ch, in.URL, &f)
	}
	switch {
	case !in.Confirmed:
	case c.bound != "":
		f.Add("/confirmed", "can be true only from a key without a tenant: others confirm the address by the link of a mail")
	default:
		ch.Contact.ConfirmedAt = c.now
	}
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	has := 0
	a.Engine.EachEndpoint(store.Of(ep.Tenant), func(other *grapnel.Endpoint) bool {
		if other.Channel != nil && other.Channel.Contact != nil {
			has++
		}
		return has < a.Bounds.Contacts
	})
	if has >= a.Bounds.Contacts {
		return answer{}, grapnel.Errorf(grapnel.CodeConflict, "Tenant %s has %d contacts, which is the most. Delete one.", ep.Tenant, has)
	}
	ep.Description, ep.Status = in.Description, grapnel.EndpointEnabled
	ep.EventTypes = []string{grapnel.EventAlertContact}
	asChannel(&ep, ch)
	made, err := a.create(c, ep, func(ep *grapnel.Endpoint) any { return viewContact(ep, viewHealth(stateOf(ep), 0, c.now)) })
	if err == nil && !ch.Contact.Confirmed() && a.Contacts != nil {
		if err := a.Contacts.Ask(c.Context(), &ep); err != nil { // ask-contact says why, and repeats it
			a.Log.Warn("contact not asked to confirm its address", "contact", ep.ID, "tenant", ep.Tenant, "err", err)
		}
	}
	return made, err
}

// setChat puts the URL of a chat on a contact, or adds its fault.
func (a *api) setChat(c *call, ep *grapnel.Endpoint, ch *grapnel.Channel, url string, f *strict.Faults) {
	target, err := channels.Read(url)
	if err == nil {
		err = a.CheckChannel(target)
	}
	switch {
	case err != nil:
		f.Add("/url", "%s", err)
	case !slices.Contains(chats, target.Service):
		f.Add("/url", "is a URL of %s; contacts are chats (%s), or a mail address", target.Service, strings.Join(chats, ", "))
	default:
		ch.Service, ch.URL, ep.URL = target.Service, grapnel.Secret{Text: url, CreatedAt: c.now}, target.Masked
	}
}

func listContacts(a *api, c *call) (answer, error) {
	return listOf(a, c, func(ep *grapnel.Endpoint) bool { return ep.Channel != nil && ep.Channel.Contact != nil }, withHealth(a, c, viewContact))
}

func showContact(a *api, c *call, ep grapnel.Endpoint) (answer, error) {
	health, err := a.health(c, a.Bounds.HeldMost, ep)
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, viewContact(&ep, health[0])), nil
}

func viewContact(ep *grapnel.Endpoint, h wire.Health) wire.Contact {
	is := ep.Channel.Contact
	v := wire.Contact{ID: ep.ID, Tenant: ep.Tenant, Service: ep.Channel.Service, Mail: is.Mail, Description: ep.Description,
		Confirmed: is.Confirmed(), ConfirmedAt: timeOf(is.ConfirmedAt), Health: h, CreatedAt: ep.CreatedAt}
	if is.Mail == "" {
		v.URL = ep.URL
	}
	return v
}

// deleteContact deletes it, and ends the portal links of its messages, which carry its id.
func deleteContact(a *api, c *call) (answer, error) {
	ep, err := a.contact(c)
	if err != nil {
		return answer{}, err
	}
	// A person's address does not stay in the audit.
	by := c.by(named(cmp.Or(ep.Description, channels.Title(ep.Channel.Service)), c.reason()))
	if err := a.Engine.DeleteEndpoint(c.Context(), c.scope, ep.ID, by); err != nil {
		return answer{}, err
	}
	return a.endSessions(c, ep.Tenant, ep.ID)
}

func askContact(a *api, c *call) (answer, error) {
	ep, err := a.contact(c)
	if err != nil {
		return answer{}, err
	}
	if !ep.Channel.Contact.Confirmed() {
		if a.Contacts == nil {
			return answer{}, grapnel.Errorf(grapnel.CodeUnavailable, "This server tells no contacts.")
		}
		if err := a.Contacts.Ask(c.Context(), &ep); err != nil {
			return answer{}, err
		}
	}
	return showContact(a, c, ep)
}

// byContact is the actor of a confirmation.
const byContact = "contact-link"

// followContactLink confirms the address, if the contact still has it.
func followContactLink(a *api, c *call) (answer, error) {
	none := grapnel.Errorf(grapnel.CodeNotFound, "The link has expired, or is none.")
	if a.Contacts == nil {
		return answer{}, none
	}
	is, valid := a.Contacts.Follow(c.PathValue("link"))
	if !valid {
		return answer{}, none
	}
	scope := store.Of(is.Tenant)
	for {
		ep, there := a.Engine.Endpoint(scope, is.Contact)
		if !there || !ep.Channel.Mailed() || ep.Channel.Contact.Mail != is.Mail {
			return answer{}, grapnel.Errorf(grapnel.CodeNotFound, "The address is no contact any more.")
		}
		if !ep.Channel.Contact.Confirmed() {
			ch := *ep.Channel
			ch.Contact = &grapnel.Contact{Mail: is.Mail, ConfirmedAt: c.now}
			ep.Channel, ep.UpdatedAt = &ch, c.now
			entry := c.entry(grapnel.VerbChange, &ep, "the address was confirmed")
			entry.Actor = byContact
			_, err := a.Engine.PutEndpoint(c.Context(), scope, ep, store.With{Audit: entry})
			if grapnel.CodeOf(err) == grapnel.CodeConflict {
				continue // it was changed at the same moment
			}
			if err != nil {
				return answer{}, err
			}
		}
		return jsonAnswer(http.StatusOK, wire.ContactLink{Mail: is.Mail}), nil
	}
}

func viewSender(is *grapnel.Sender) wire.Sender {
	v := wire.Sender{SenderSettings: wire.SenderSettings{Subject: is.Subject, Text: is.Text, PerDay: int64(is.PerDay), Scopes: is.Scopes},
		UpdatedAt: timeOf(is.UpdatedAt)}
	if is.URL.Text != "" {
		v.URL = "smtp://…"
		if t, err := channels.To(is.URL.Text, anyAddress); err == nil {
			v.URL = t.Masked
		}
	}
	return v
}

// anyAddress stands for that of a contact.
const anyAddress = "customer@example.com"

func getSender(a *api, _ *call) (answer, error) {
	is := a.Engine.Sender()
	return jsonAnswer(http.StatusOK, viewSender(&is)), nil
}

// patchSender merges a patch into the settings as they are when they are stored.
func patchSender(a *api, c *call) (answer, error) {
	is, err := a.Engine.ChangeSender(c.Context(), func(is *grapnel.Sender) (*grapnel.AuditEntry, error) {
		var f strict.Faults
		shown := viewSender(is).SenderSettings
		in := patched(c, shown, &f)
		if in.URL != shown.URL { // else it is as it was, with its password
			is.URL = grapnel.Secret{}
			if in.URL != "" {
				t, err := channels.To(in.URL, anyAddress)
				if err == nil {
					err = a.CheckChannel(t)
				}
				if err != nil {
					f.Add("/url", "%s", err)
				}
				is.URL = grapnel.Secret{Text: in.URL, CreatedAt: c.now}
			}
		}
		for at, text := range map[string]string{"/subject": in.Subject, "/text": in.Text} {
			if err := contacts.CheckTemplate(text); err != nil {
				f.Add(at, "%s", err)
			}
		}
		is.Subject, is.Text, is.PerDay, is.Scopes, is.UpdatedAt = in.Subject, in.Text, int(in.PerDay), in.Scopes, c.now
		return c.entryOf(grapnel.VerbChange, "", "contact-sender", c.reason()), f.Err()
	})
	return shown(is, err, func(is *grapnel.Sender) wire.Sender { return viewSender(is) })
}
