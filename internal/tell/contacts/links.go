package contacts

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Confirmation is the sealed content of a link that confirms an address.
type Confirmation struct {
	Contact string    `json:"c"`
	Tenant  string    `json:"t"`
	Mail    string    `json:"m"` // the address that was asked
	Ends    time.Time `json:"e"`
}

// useConfirmation is the use of the seal of a Confirmation.
const useConfirmation = "confirm a contact"

// Scopes are the rights of the portal links in messages unless grapnel.Sender says others.
var Scopes = []grapnel.Scope{grapnel.ScopeRead, grapnel.ScopeReplay}

// Link makes the link of a message to a contact, for one attempt; empty: it has none.
func (k *Keeper) Link(to *grapnel.Endpoint, message *grapnel.Event) string {
	var d Data
	if k.o.PublicURL == nil || json.Unmarshal(message.Data, &d) != nil || to.Channel == nil || to.Channel.Contact == nil {
		return ""
	}
	made, now := "", k.moment()
	var err error
	if d.Stage == "" {
		made, err = k.confirmation(to, now)
	} else {
		made, err = k.portal(to, &d, now)
	}
	if err != nil {
		k.o.Log.Error("link of a message not made; the message is sent without it", "contact", to.ID, "err", err)
	}
	return made
}

func (k *Keeper) confirmation(to *grapnel.Endpoint, now time.Time) (string, error) {
	token, err := k.o.Sealer.SealFor(useConfirmation, Confirmation{Contact: to.ID, Tenant: to.Tenant, Mail: to.Channel.Contact.Mail,
		Ends: now.Add(k.bounds.LinkFor)})
	at := k.o.PublicURL.JoinPath("portal", "contacts", "confirm")
	at.RawQuery = url.Values{"link": {token}}.Encode()
	return at.String(), err
}

// portal makes the link that opens the portal at the endpoint that the message is about, once. It
// opens nothing but this endpoint, and ends with the contact.
func (k *Keeper) portal(to *grapnel.Endpoint, d *Data, now time.Time) (string, error) {
	scopes := k.o.Engine.Sender().Scopes
	if scopes == nil {
		scopes = Scopes
	}
	code, err := k.o.Sealer.Seal(pass.Pass{Subject: "portal/contact/" + to.ID, Tenant: to.Tenant, Portal: true,
		Scopes: []grapnel.Scope{grapnel.ScopePortalOpen}, Link: to.ID, Series: k.o.Engine.Access(grapnel.SeriesID(to.Tenant)).Series,
		Begins: now, Ends: now.Add(k.bounds.LinkFor),
		Opens: &pass.Opening{For: k.bounds.Session, Scopes: scopes, Endpoints: []string{d.Subject.ID}, Look: pass.Look{Start: start(d)}}})
	if err != nil {
		return "", err
	}
	return k.o.PublicURL.JoinPath("portal").String() + "#" + code, nil
}

// start is the page that a message's link opens: the replay of the dead letters, ready to be
// started, or the endpoint if it has none.
func start(d *Data) string {
	if d.Dead == 0 {
		return "/endpoints/" + url.PathEscape(d.Subject.ID)
	}
	return "/replays/new?" + url.Values{"q": {"endpoint:" + d.Subject.ID + " status:failed"}}.Encode()
}

// Follow reads the link that confirms an address; false: it was not made here, or has expired.
func (k *Keeper) Follow(link string) (c Confirmation, valid bool) {
	if k.o.Sealer.OpenFor(useConfirmation, link, &c) != nil || !k.now().Before(c.Ends) {
		return Confirmation{}, false
	}
	return c, true
}

// Ask sends a contact the message that asks to confirm its address. It uses one message of the
// tenant's day: grapnel.CodeQuota if there is none left. Without a sender of mails it is
// grapnel.CodeConflict.
func (k *Keeper) Ask(ctx context.Context, contact *grapnel.Endpoint) error {
	sender := k.o.Engine.Sender()
	if sender.URL.Text == "" {
		return grapnel.Errorf(grapnel.CodeConflict, "No mail is sent to contacts: the operator has set no sender (grapnel contacts sender).")
	}
	if k.o.PublicURL == nil {
		return grapnel.Errorf(grapnel.CodeConflict, "The server does not know its public address, which the link of the mail needs. "+
			"Start it with --public-url.")
	}
	for {
		t := tenant{keeper: k, name: contact.Tenant, now: k.moment(), sender: sender, contacts: []string{contact.ID}}
		doc, is, err := k.budget(ctx, t.name)
		if err != nil {
			return err
		}
		if !is.take(t.now, t.perDay()) {
			return grapnel.Errorf(grapnel.CodeQuota, "%d messages were sent to the contacts of tenant %s today (UTC), which is the most. "+
				"Ask again tomorrow.", is.Sent, t.name)
		}
		doc.At, doc.Body = t.now, encode(is)
		d := question(t.name)
		event := k.event(t.name, contact.ID, &d, t.now, t.now.Format(time.RFC3339Nano))
		_, err = t.put(ctx, event, store.DocumentWrite{Document: doc})
		if grapnel.CodeOf(err) != grapnel.CodeConflict {
			return err
		}
	}
}
