package wire

import (
	"time"

	"github.com/grapnelhq/grapnel"
)

// Alert is one instance of a rule: from its firing to its resolution.
type Alert struct {
	Raw
	ID             string         `json:"id"`
	Rule           string         `json:"rule" doc:"name of its rule"`
	Tenant         string         `json:"tenant" nullable:"true" doc:"null: it concerns the operator"`
	Severity       string         `json:"severity" enum:"page,warning,info"`
	State          string         `json:"state" enum:"firing,acknowledged,resolved" doc:"acknowledged: it still holds, and is not repeated"`
	Subject        AlertSubject   `json:"subject"`
	Title          string         `json:"title"`
	Text           string         `json:"text" doc:"the measurement when it fired"`
	Value          float64        `json:"value" doc:"as measured when it fired, in the unit of its rule"`
	Threshold      float64        `json:"threshold" doc:"in force when it fired"`
	Since          time.Time      `json:"since"`
	AcknowledgedAt *time.Time     `json:"acknowledged_at" nullable:"true"`
	AcknowledgedBy string         `json:"acknowledged_by" nullable:"true" doc:"the id of an API key or a person; alert-link: a person with the link of a message"`
	ResolvedAt     *time.Time     `json:"resolved_at" nullable:"true"`
	Messages       []AlertMessage `json:"messages" doc:"messages about it, the oldest first; of more than 16 the first and the latest. In lists the latest only"`
}

// MarshalJSON writes the alert as the API does.
func (a Alert) MarshalJSON() ([]byte, error) { return Encode(a) }

// AlertSubject is the object that an alert is about.
type AlertSubject struct {
	Kind string `json:"kind" doc:"endpoint, queue, source, tenant, key, promise or server"`
	ID   string `json:"id" doc:"empty: the server"`
	Name string `json:"name"`
}

// AlertMessage is a message about an alert: an event, alone or in a digest.
type AlertMessage struct {
	Transition string          `json:"transition" enum:"fired,resolved,repeated,worse" doc:"worse: its severity has risen"`
	EventID    string          `json:"event_id" doc:"of a digest that is held, the id that its event will have"`
	At         time.Time       `json:"at"`
	Deliveries []AlertDelivery `json:"deliveries" doc:"empty: the digest is held until its time, or was not needed, or they are purged"`
	Held       *AlertHeld      `json:"held" nullable:"true" doc:"of a digest that waits for its time"`
}

// AlertHeld says for which endpoint a digest waits, and for how long.
type AlertHeld struct {
	EndpointID   string    `json:"endpoint_id"`
	EndpointName string    `json:"endpoint_name" nullable:"true" doc:"null: it is deleted"`
	Until        time.Time `json:"until"`
}

// AlertDelivery is a delivery of a message.
type AlertDelivery struct {
	EndpointID   string         `json:"endpoint_id"`
	EndpointName string         `json:"endpoint_name" nullable:"true" doc:"null: it is deleted"`
	DeliveryID   string         `json:"delivery_id"`
	Status       grapnel.Status `json:"status" enum:"pending,held,delivered,failed,dropped,discarded,skipped"`
}

// AlertRule is a rule as it holds for a tenant, or for the operator.
type AlertRule struct {
	Raw
	Name             string   `json:"name"`
	Title            string   `json:"title"`
	About            string   `json:"about" doc:"its measurement"`
	Concerns         []string `json:"concerns" enum:"tenants,operator"`
	Unit             string   `json:"unit" enum:"seconds,percent,percentage points,times the usual,days,number,yes or no"`
	Below            bool     `json:"below" doc:"it fires at values as low as the threshold; false: as high"`
	Enabled          bool     `json:"enabled"`
	Threshold        float64  `json:"threshold"`
	Severity         string   `json:"severity" enum:"page,warning,info"`
	Changed          []string `json:"changed" enum:"enabled,threshold,severity" doc:"fields that were set for this tenant, or by the operator"`
	DefaultThreshold float64  `json:"default_threshold"`
	DefaultSeverity  string   `json:"default_severity" enum:"page,warning,info"`
	Backtest         bool     `json:"backtest" doc:"stored history has its facts"`
}

// MarshalJSON writes the rule as the API does.
func (r AlertRule) MarshalJSON() ([]byte, error) { return Encode(r) }

// AlertRuleSettings are the fields of a rule that can be changed.
type AlertRuleSettings struct {
	Enabled   bool    `json:"enabled" doc:"whether it is evaluated; when it is switched off its alerts are resolved"`
	Threshold float64 `json:"threshold" exclusiveMinimum:"0" maximum:"1000000000" doc:"in the rule's unit"`
	Severity  string  `json:"severity" enum:"page,warning,info" doc:"page: sent in quiet hours too, and repeated until it is acknowledged"`
}

// NewBacktest asks how often a rule would have fired.
type NewBacktest struct {
	For       string  `json:"for" form:"history" default:"28d" doc:"how far to look back: 1h to 62d"`
	Threshold float64 `json:"threshold" exclusiveMinimum:"0" maximum:"1000000000" doc:"instead of the one in force"`
}

// MarshalJSON writes the fields that are set.
func (b NewBacktest) MarshalJSON() ([]byte, error) { return Request(b) }

// Backtest is how often a rule would have fired.
type Backtest struct {
	Raw
	Rule     string      `json:"rule"`
	Known    bool        `json:"known" doc:"false: no history of its facts is stored"`
	Fired    int         `json:"fired" doc:"how often; 0 if not known"`
	Times    []time.Time `json:"times" doc:"the first 1,000; for rules about totals, the beginnings of their hours"`
	Sentence string      `json:"sentence"`
}

// MarshalJSON writes the backtest as the API does.
func (b Backtest) MarshalJSON() ([]byte, error) { return Encode(b) }

// AlertLink is the alert that the acknowledge link of a message names.
type AlertLink struct {
	Raw
	AlertID  string    `json:"alert_id"`
	Title    string    `json:"title"`
	Severity string    `json:"severity" enum:"page,warning,info"`
	State    string    `json:"state" enum:"firing,acknowledged,resolved"`
	Since    time.Time `json:"since"`
}

// MarshalJSON writes the alert as the API does.
func (l AlertLink) MarshalJSON() ([]byte, error) { return Encode(l) }
