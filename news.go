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

// The types of alerts, which are operational events as well. They go to channels.
const (
	EventAlertFired    = "grapnel.alert.fired"
	EventAlertResolved = "grapnel.alert.resolved"
	EventAlertDigest   = "grapnel.alert.digest" // of several alerts that a channel gathered
	EventAlertTest     = "grapnel.alert.test"
)

// Operational says whether an event of this type reports on an endpoint, or is an alert. Such
// events cause no others, so that two endpoints that both fail do not notify each other forever.
func Operational(eventType string) bool {
	return strings.HasPrefix(eventType, "webhook_endpoint.") || IsAlert(eventType)
}
