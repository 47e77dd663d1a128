package client

import (
	"context"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of contacts.
type (
	// NewContact has the settings of a contact to add: Mail, or URL of a chat.
	NewContact = wire.NewContact
	// Contact is told about the failing endpoints of its tenant.
	Contact        = wire.Contact
	ContactLink    = wire.ContactLink
	SenderSettings = wire.SenderSettings
	Sender         = wire.Sender // how messages reach contacts
	ContactFilter  = ListFilter  // selects contacts; the zero value selects all
)

// CreateContact adds a contact. An address gets a mail that asks to confirm it.
func (c *Client) CreateContact(ctx context.Context, n NewContact) (*Contact, error) {
	return post[Contact](ctx, c, "/v1/contacts", n)
}

// Contact returns a contact.
func (c *Client) Contact(ctx context.Context, id string) (*Contact, error) {
	return get[Contact](ctx, c, at("/v1/contacts", id), nil)
}

// Contacts lists contacts.
func (c *Client) Contacts(ctx context.Context, f ContactFilter) (*Page[Contact], error) {
	return get[Page[Contact]](ctx, c, "/v1/contacts", f.query())
}

// AskContact sends the mail that asks to confirm an address again.
func (c *Client) AskContact(ctx context.Context, id string) (*Contact, error) {
	return post[Contact](ctx, c, at("/v1/contacts", id, "ask"), nil)
}

// DeleteContact deletes a contact, and ends the portal links of its messages.
func (c *Client) DeleteContact(ctx context.Context, id, reason string) error {
	return c.remove(ctx, at("/v1/contacts", id), why(reason))
}

// FollowContactLink confirms the address that the link of a mail names. It needs no key.
func (c *Client) FollowContactLink(ctx context.Context, link string) (*ContactLink, error) {
	return post[ContactLink](ctx, c, at("/v1/contact-links", link), nil)
}

// Sender returns how messages reach contacts.
func (c *Client) Sender(ctx context.Context) (*Sender, error) {
	return get[Sender](ctx, c, "/v1/contact-sender", nil)
}

// UpdateSender changes how messages reach contacts. Members of changes that are nil are set back.
func (c *Client) UpdateSender(ctx context.Context, reason string, changes map[string]any) (*Sender, error) {
	return patch[Sender](ctx, c, "/v1/contact-sender", why(reason), changes)
}
