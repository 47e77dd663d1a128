package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/contacts"
)

// asker stands for package contacts: a link is confirm: with the id, the tenant and the address of the
// contact.
type asker struct {
	w     *world
	asked []string
	fails error
}

func (a *asker) Ask(ctx context.Context, contact *grapnel.Endpoint) error {
	if a.fails != nil {
		return a.fails
	}
	a.asked = append(a.asked, contact.Channel.Contact.Mail)
	_, err := a.w.engine.Faulty.PutDocuments(ctx, store.Everyone(), []store.DocumentWrite{{Document: store.Document{Tenant: contact.Tenant,
		Kind: contacts.KindBudget, ID: fmt.Sprint(len(a.asked)), At: a.w.clock, Body: []byte(`{}`)}}}, store.With{})
	return err
}

func (a *asker) Follow(link string) (contacts.Confirmation, bool) {
	rest, is := strings.CutPrefix(link, "confirm:")
	parts := strings.Split(rest, ":")
	if !is || len(parts) != 3 {
		return contacts.Confirmation{}, false
	}
	return contacts.Confirmation{Contact: parts[0], Tenant: parts[1], Mail: parts[2]}, true
}

// contact makes one with an address.
func (w *world) contact(key string) string {
	w.t.Helper()
	return w.as(key, 201, "POST", "/v1/contacts", `{"mail":"ops@example.com","description":"On call"}`)["id"].(string)
}

func badContacts() []bad {
	made := func(name, body, pointer string) bad {
		return bad{name: "contact: " + name, method: "POST", target: "/v1/contacts", body: body, status: 422, code: grapnel.CodeInvalid, pointer: pointer}
	}
	sender := func(name, body, pointer string) bad {
		return bad{name: "sender: " + name, method: "PATCH", target: "/v1/contact-sender", body: body, status: 422, code: grapnel.CodeInvalid, pointer: pointer}
	}
	return []bad{
		made("neither mail nor chat", `{}`, "/mail"),
		made("both", `{"mail":"a@example.com","url":"`+slackURL+`"}`, "/url"),
		made("no address", `{"mail":"ops"}`, "/mail"),
		made("two addresses", `{"mail":"a@example.com,b@example.com"}`, "/mail"),
		made("an address with a name", `{"mail":"Ops <a@example.com>"}`, "/mail"),
		made("an address that ends a header", `{"mail":"a@example.com\r\nBcc: b@example.com"}`, "/mail"),
		made("an address that ends a command", `{"mail":"a@example.com> SIZE=1"}`, "/mail"),
		made("a quoted address", `{"mail":"\"a b\"@example.com"}`, "/mail"),
		made("a mail server as a chat", `{"url":"smtp://mail.example.com/?from=a@example.com&to=b@example.com"}`, "/url"),
		made("a webhook as a chat", `{"url":"generic+https://example.com/hook"}`, "/url"),
		made("a chat in this network", `{"url":"mattermost://127.0.0.1/token"}`, "/url"),
		made("a field unknown", `{"mail":"a@example.com","status":"paused"}`, "/status"),
		{name: "contact: confirmed by a tenant", method: "POST", target: "/v1/contacts", body: `{"mail":"a@example.com","confirmed":true}`, key: acmeAdmin,
			status: 422, code: grapnel.CodeInvalid, pointer: "/confirmed"},
		{name: "contact: a channel is none", method: "GET", target: "/v1/contacts/CHN", status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		{name: "contact: it is no channel", method: "GET", target: "/v1/channels/CON", status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		{name: "contact: it is no endpoint", method: "PATCH", target: "/v1/endpoints/CON", body: `{"url":"https://a.example"}`, status: 404,
			code: grapnel.CodeNotFound, pointer: "-"},
		{name: "contact: a link that is none", method: "POST", target: "/v1/contact-links/none", status: 404, code: grapnel.CodeNotFound, pointer: "-"},
		sender("no mail server", `{"url":"slack://hook:A-B-C@webhook"}`, "/url"),
		sender("recipients", `{"url":"smtp://mail.example.com/?fromaddress=a@example.com&toaddresses=b@example.com"}`, "/url"),
		sender("nobody it is from", `{"url":"smtp://mail.example.com/"}`, "/url"),
		sender("the port of strangers", `{"url":"smtp://mail.example.com:25/?fromaddress=a@example.com"}`, "/url"),
		sender("a name that ends a header", `{"url":"smtp://mail.example.com/?fromaddress=a@example.com&fromname=A%0d%0aBcc:b@example.com"}`, "/url"),
		sender("a subject that ends a header", `{"subject":"x\r\nBcc: b@example.com"}`, "/subject"),
		sender("an unknown placeholder", `{"text":"{link}"}`, "/text"),
		sender("too many a day", `{"per_day":10001}`, "/per_day"),
		sender("a right that no portal has", `{"scopes":["admin"]}`, "/scopes/0"),
	}
}

// TestContactsConfirm: an address is asked once it is added, and again by ask; its link confirms it,
// and only while the contact has the address; an operator may say that it is confirmed.
func TestContactsConfirm(t *testing.T) {
	w := newWorld(t)
	ask := w.options.Contacts.(*asker)
	made := w.as(acmeAdmin, 201, "POST", "/v1/contacts", `{"mail":"ops@acme.example"}`)
	id := made["id"].(string)
	if made["confirmed"] != false || made["tenant"] != "acme" || fmt.Sprint(ask.asked) != "[ops@acme.example]" {
		t.Fatalf("%v, asked %v", made, ask.asked)
	}
	w.as(acmeAdmin, 200, "POST", "/v1/contacts/"+id+"/ask", "")
	ask.fails = grapnel.Errorf(grapnel.CodeQuota, "no more today")
	w.as(acmeAdmin, 429, "POST", "/v1/contacts/"+id+"/ask", "")
	if len(ask.asked) != 2 {
		t.Errorf("asked %v", ask.asked)
	}
	for link, status := range map[string]int{id + ":globex:ops@acme.example": 404, id + ":acme:other@acme.example": 404, "chn_none:acme:ops@acme.example": 404} {
		if r := w.ask("", "POST", "/v1/contact-links/confirm:"+link, ""); r.StatusCode != status {
			t.Errorf("%s: answered %d", link, r.StatusCode)
		}
	}
	for range 2 { // a repetition changes nothing
		if r := w.ask("", "POST", "/v1/contact-links/confirm:"+id+":acme:ops@acme.example", ""); r.StatusCode != 200 || !strings.Contains(string(r.body), "ops@acme.example") {
			t.Fatalf("answered %d %s", r.StatusCode, r.body)
		}
	}
	got := w.as(acmeAdmin, 200, "GET", "/v1/contacts/"+id, "")
	if got["confirmed"] != true || got["confirmed_at"] == nil {
		t.Errorf("%v", got)
	}
	w.as(acmeAdmin, 200, "POST", "/v1/contacts/"+id+"/ask", "") // nothing is asked any more
	if entries := fmt.Sprint(w.as(acmeAdmin, 200, "GET", "/v1/audit", "")["data"]); strings.Count(entries, "contact-link") != 1 {
		t.Errorf("the audit has %s", entries)
	}
	if own := w.must(201, "POST", "/v1/contacts", `{"mail":"a@b.example","tenant":"acme","confirmed":true}`); own["confirmed"] != true {
		t.Errorf("%v", own)
	}
	chat := w.as(acmeAdmin, 201, "POST", "/v1/contacts", `{"url":"`+slackURL+`"}`)
	if chat["confirmed"] != true || chat["url"] != "slack://…" || strings.Contains(fmt.Sprint(w.as(acmeAdmin, 200, "GET", "/v1/contacts", "")), slackURL[30:]) {
		t.Errorf("%v", chat)
	}
	if list := w.as(acmeAdmin, 200, "GET", "/v1/channels", "")["data"].([]any); len(list) != 0 {
		t.Errorf("channels are %v", list)
	}
	for range w.options.Bounds.Contacts - 3 {
		w.as(acmeAdmin, 201, "POST", "/v1/contacts", `{"mail":"x@acme.example"}`)
	}
	w.as(acmeAdmin, 409, "POST", "/v1/contacts", `{"mail":"x@acme.example"}`)
	w.must(201, "POST", "/v1/contacts", `{"mail":"x@acme.example"}`) // of another tenant
}

// TestPortalContacts: a portal of the whole tenant manages its contacts, one that may only read sees
// them, and one that is limited to endpoints does not; no portal sees the messages.
func TestPortalContacts(t *testing.T) {
	w := newWorld(t)
	session := func(body string) string {
		_, code := w.link(body)
		return w.as(code, 201, "POST", "/v1/portal-sessions", "")["pass"].(string)
	}
	writes, reads := session(`{"scopes":["read","endpoints:write"]}`), session(`{"scopes":["read"]}`)
	limited := session(`{"scopes":["read","endpoints:write"],"endpoints":["` + w.endpoint(acmeAdmin, "") + `"]}`)
	other := w.must(201, "POST", "/v1/contacts", `{"mail":"x@globex.example","tenant":"globex"}`)["id"].(string)
	id := w.as(writes, 201, "POST", "/v1/contacts", `{"mail":"ops@acme.example"}`)["id"].(string)
	w.as(writes, 422, "POST", "/v1/contacts", `{"mail":"ops@acme.example","confirmed":true}`)
	w.as(writes, 422, "POST", "/v1/contacts", `{"mail":"ops@acme.example","tenant":"globex"}`)
	w.as(writes, 404, "GET", "/v1/contacts/"+other, "")
	w.as(writes, 404, "DELETE", "/v1/contacts/"+other, "")
	w.as(writes, 403, "GET", "/v1/contact-sender", "")
	w.as(reads, 403, "POST", "/v1/contacts", `{"mail":"a@acme.example"}`)
	w.as(reads, 403, "POST", "/v1/contacts/"+id+"/ask", "")
	w.as(limited, 403, "GET", "/v1/contacts", "")
	for _, key := range []string{writes, reads} {
		if list := w.as(key, 200, "GET", "/v1/contacts", "")["data"].([]any); len(list) != 1 {
			t.Errorf("contacts are %v", list)
		}
		w.as(key, 404, "GET", "/v1/endpoints/"+id+"/deliveries", "")
	}
	w.as(writes, 204, "DELETE", "/v1/contacts/"+id, "")
	w.as(writes, 404, "GET", "/v1/contacts/"+id, "")
	if is := w.engine.Access(grapnel.EndedID("acme", id)).Ended; is == nil {
		t.Error("links in messages of the deleted contact open the portal")
	}
}

// TestSender: the sender of messages is the operator's; its password is shown nowhere, and stays when
// other settings change.
func TestSender(t *testing.T) {
	w := newWorld(t)
	const url = "smtp://hooks:s3cret@mail.example.com:587/?fromaddress=hooks@example.com"
	first := w.must(200, "GET", "/v1/contact-sender", "")
	if first["url"] != nil || first["updated_at"] != nil {
		t.Errorf("%v", first)
	}
	w.as(acmeAdmin, 403, "GET", "/v1/contact-sender", "")
	w.as(acmeAdmin, 403, "PATCH", "/v1/contact-sender", `{"per_day":5}`)
	shown := w.must(200, "PATCH", "/v1/contact-sender", `{"url":"`+url+`","subject":"Acme: {subject}","scopes":["read"]}`)
	again := w.must(200, "PATCH", "/v1/contact-sender", fmt.Sprintf(`{"url":%q,"per_day":5}`, shown["url"]))
	if text := fmt.Sprint(shown, again, w.must(200, "GET", "/v1/contact-sender", ""), w.logged); strings.Contains(text, "s3cret") || strings.Contains(text, "hooks:") {
		t.Errorf("the password is shown: %s", text)
	}
	if is := w.engine.Sender(); is.URL.Text != url || is.PerDay != 5 || is.Subject != "Acme: {subject}" || again["subject"] != "Acme: {subject}" {
		t.Errorf("%+v", is)
	}
	if gone := w.must(200, "PATCH", "/v1/contact-sender", `{"url":null,"per_day":null,"scopes":null}`); gone["url"] != nil || w.engine.Sender().URL.Text != "" {
		t.Errorf("%v", gone)
	}
}
