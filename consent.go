package grapnel

import (
	"strings"
	"time"
)

// ConsentRule says whether an endpoint's new address has to answer a challenge before anything is
// delivered to it.
type ConsentRule string

// The rules of consent.
const (
	ConsentOff      ConsentRule = "off"
	ConsentRequired ConsentRule = "required"
)

// EventConsent is the type of the challenge that asks an address for its consent. It is no event:
// it is sent, and stored nowhere.
const EventConsent = "webhook_endpoint.consent"

// ConsentReason begins the DisabledReason of an endpoint that is paused until its address consents.
const ConsentReason = "its address has not consented to deliveries"

// AwaitsConsent says whether the endpoint's address has yet to consent.
func (ep *Endpoint) AwaitsConsent() bool { return ep.Consent != nil && ep.Consent.GivenAt.IsZero() }

// HeldForConsent says whether the endpoint is paused for no other reason than that.
func (ep *Endpoint) HeldForConsent() bool {
	return ep.Status == EndpointPaused && strings.HasPrefix(ep.DisabledReason, ConsentReason)
}

// SameAddress says whether requests of both endpoints go to the same places: that of the receiver,
// and those of the proxy and the token server on the way. All of them are a tenant's to choose.
func (ep *Endpoint) SameAddress(as *Endpoint) bool {
	return ep.URL == as.URL && ep.Proxy.Text == as.Proxy.Text && ep.tokenURL() == as.tokenURL()
}

func (ep *Endpoint) tokenURL() string {
	if ep.OAuth2 == nil {
		return ""
	}
	return ep.OAuth2.TokenURL
}

// AskConsent makes a changed endpoint wait for consent if its address is new and the tenant
// requires that. before is the endpoint before the change; nil: it is created. It is called for
// every change, so that no status that a person sets lets deliveries out to an address that has not
// consented. Queues, channels and brokers have no such address.
func (ep *Endpoint) AskConsent(before *Endpoint, rule ConsentRule, now time.Time) {
	now = now.UTC().Truncate(time.Microsecond) // as stores have times: Since is compared
	if before == nil || !ep.SameAddress(before) {
		ep.Consent = nil
		if rule == ConsentRequired && ep.Receives() && ep.Target == nil {
			ep.Consent = &Consent{Since: now, Next: now}
		}
	}
	ep.FollowConsent()
}

// FollowConsent sets the status that follows from the endpoint's Consent.
func (ep *Endpoint) FollowConsent() {
	switch held := ep.HeldForConsent(); {
	case !ep.AwaitsConsent() && held:
		ep.Status, ep.DisabledReason, ep.DisabledAt = EndpointEnabled, "", time.Time{}
	case ep.AwaitsConsent() && (held || ep.Status == EndpointEnabled):
		ep.Status, ep.DisabledReason, ep.DisabledAt = EndpointPaused, ConsentReason, ep.Consent.Since
		if ep.Consent.Cause != "" {
			ep.DisabledReason += ": " + ep.Consent.Cause
		}
	}
}
