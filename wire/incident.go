package wire

import "time"

// IncidentKind is the kind of documents that keep incidents.
const IncidentKind = "incident"

// Incident is something that readers of the status page are told: an incident, or planned
// maintenance.
type Incident struct {
	Raw
	ID         string           `json:"id"`
	Kind       string           `json:"kind" enum:"incident,maintenance"`
	Title      string           `json:"title"`
	Impact     string           `json:"impact" enum:"none,degraded,outage"`
	Components []string         `json:"components" nullable:"false" enum:"accepting,delivering,receiving,dashboard"`
	Status     string           `json:"status" enum:"investigating,identified,monitoring,resolved,planned,underway,finished" doc:"the last three are of maintenance, and follow the clock"`
	StartsAt   time.Time        `json:"starts_at"`
	EndsAt     *time.Time       `json:"ends_at" nullable:"true" doc:"of an incident: when it was resolved"`
	Updates    []IncidentUpdate `json:"updates" nullable:"false" doc:"the newest first"`
	CreatedAt  time.Time        `json:"created_at"`
}

// MarshalJSON writes the incident as the API does.
func (i Incident) MarshalJSON() ([]byte, error) { return Encode(i) }

// IncidentUpdate is one message to the readers.
type IncidentUpdate struct {
	At     time.Time `json:"at"`
	Status string    `json:"status" enum:"investigating,identified,monitoring,resolved,planned,underway,finished"`
	Text   string    `json:"text"`
}

// NewIncident is an incident or maintenance to publish on the status page.
type NewIncident struct {
	Kind       string     `json:"kind" enum:"incident,maintenance" default:"incident"`
	Title      string     `json:"title" required:"true" minLength:"1" maxLength:"120" form:"name" doc:"public: one line that says what readers notice"`
	Text       string     `json:"text" required:"true" minLength:"1" maxLength:"2000" doc:"public: the first message"`
	Impact     string     `json:"impact" enum:"none,degraded,outage" default:"degraded"`
	Components []string   `json:"components" maxItems:"4" uniqueItems:"true" enum:"accepting,delivering,receiving,dashboard" doc:"the parts that it is about"`
	Status     string     `json:"status" enum:"investigating,identified,monitoring" doc:"of an incident; investigating if not given"`
	StartsAt   *time.Time `json:"starts_at" form:"time" doc:"now if not given; maintenance needs it"`
	EndsAt     *time.Time `json:"ends_at" form:"time" doc:"end of planned maintenance, which needs it"`
}

// MarshalJSON writes the fields that are set.
func (i NewIncident) MarshalJSON() ([]byte, error) { return Request(i) }

// NewIncidentUpdate is another message about an incident.
type NewIncidentUpdate struct {
	Text   string     `json:"text" required:"true" minLength:"1" maxLength:"2000" doc:"public"`
	Status string     `json:"status" enum:"investigating,identified,monitoring,resolved" doc:"as before if not given. resolved ends it; of maintenance it is the only one"`
	EndsAt *time.Time `json:"ends_at" form:"time" doc:"another end of planned maintenance"`
}

// MarshalJSON writes the fields that are set.
func (u NewIncidentUpdate) MarshalJSON() ([]byte, error) { return Request(u) }
