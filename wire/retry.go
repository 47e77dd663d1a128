package wire

import "github.com/grapnelhq/grapnel/policy"

// NewRetry selects, among the deliveries that wait for an endpoint, those to attempt now. The zero
// value selects all.
type NewRetry struct {
	EventTypes []string     `json:"event_types" maxItems:"1000" form:"pattern" doc:"only these; a whole segment may be *"`
	Keys       []string     `json:"keys" maxItems:"1000" form:"key" doc:"only these ordering keys"`
	ErrorClass policy.Class `json:"error_class" enum:"none,dns,connect,tls,timeout,reset,protocol,redirect,blocked,status_3xx,status_4xx,status_429,status_5xx,internal,nack,reject,lease_over" doc:"only those whose last attempt ended in this"`
	StatusCode int          `json:"status_code" minimum:"100" maximum:"599" doc:"only those whose last attempt got this response"`
	Reason     string       `json:"reason" minLength:"1" maxLength:"500" doc:"why; kept in the audit"`
}

// MarshalJSON writes the fields that are set.
func (r NewRetry) MarshalJSON() ([]byte, error) { return Request(r) }

// Retried says what became of an order to retry all.
type Retried struct {
	Raw
	Retried int  `json:"retried" doc:"deliveries that were made due now; those held behind them follow"`
	Probe   bool `json:"probe" doc:"the circuit is open, so one delivery probes the endpoint; the others follow if it succeeds"`
	More    bool `json:"more" doc:"there were too many for one call: repeat it"`
}

// MarshalJSON writes it as the API does.
func (r Retried) MarshalJSON() ([]byte, error) { return Encode(r) }

// RetriedFound says what became of the pending deliveries that a page of a search found.
type RetriedFound struct {
	Raw
	Matched int     `json:"matched" doc:"pending and held deliveries that were found"`
	Retried int     `json:"retried" doc:"deliveries that were made due now; those held behind them follow"`
	Probed  int     `json:"probed" doc:"endpoints with an open circuit, which one delivery each probes"`
	Next    *string `json:"next" nullable:"true" doc:"cursor of those that were not looked at yet; null: there are none"`
}

// MarshalJSON writes it as the API does.
func (r RetriedFound) MarshalJSON() ([]byte, error) { return Encode(r) }
