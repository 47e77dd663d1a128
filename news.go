package grapnel

import "strings"

// The types of operational events: what is told to a tenant's other endpoints about one of them.
const (
	EventDeliveryFailed    = "webhook_endpoint.delivery_failed"
	EventEndpointDisabled  = "webhook_endpoint.disabled"
	EventEndpointEnabled   = "webhook_endpoint.enabled"
	EventEndpointFailing   = "webhook_endpoint.failing"
	EventEndpointRecovered = "webhook_endpoint.recovered"
)

// Operational says whether an event of this type is about an endpoint. Such events cause no others, so that two endpoints that both
// fail do not keep telling each other.
func Operational(eventType string) bool { return strings.HasPrefix(eventType, "webhook_endpoint.") }
