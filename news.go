package grapnel

import "strings"

// The types of operational events, which report on one endpoint to the tenant's other endpoints.
const (
	EventDeliveryFailed    = "webhook_endpoint.delivery_failed"
	EventEndpointDisabled  = "webhook_endpoint.disabled"
	EventEndpointEnabled   = "webhook_endpoint.enabled"
	EventEndpointFailing   = "webhook_endpoint.failing"
	EventEndpointRecovered = "webhook_endpoint.recovered"
)

// Operational says whether an event of this type reports on an endpoint. Such events cause no
// others, so that two endpoints that both fail do not notify each other forever.
func Operational(eventType string) bool { return strings.HasPrefix(eventType, "webhook_endpoint.") }
