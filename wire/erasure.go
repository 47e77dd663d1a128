package wire

import "time"

// NewErasure selects the events of a tenant to erase, by one of key, metadata and filter.
type NewErasure struct {
	Tenant   string            `json:"tenant" required:"true" form:"tenant"`
	Key      string            `json:"key" form:"key" doc:"events with this ordering key"`
	Metadata map[string]string `json:"metadata" minProperties:"1" maxProperties:"32" names:"member" form:"metadata" doc:"events that have all of these members in their metadata"`
	Filter   string            `json:"filter" minLength:"1" maxLength:"4096" doc:"events that this CEL expression is true for, as in endpoints"`
	Reason   string            `json:"reason" required:"true" minLength:"1" maxLength:"500" doc:"why; kept in the audit, so leave names of people out"`
}

// MarshalJSON writes the fields that are set.
func (e NewErasure) MarshalJSON() ([]byte, error) { return Request(e) }

// Erasure is a job that erases events, or deletes a tenant. It never shows what was searched for.
type Erasure struct {
	Raw
	ID         string         `json:"id"`
	State      string         `json:"state" enum:"running,ending,done" doc:"ending: nothing in the tables is left, and the files are cleared of it"`
	Tenant     string         `json:"tenant"`
	SelectedBy string         `json:"selected_by" enum:"key,metadata,filter,tenant" doc:"tenant: the tenant is deleted with all that it has"`
	Counts     map[string]int `json:"counts" doc:"erased so far, by kind; a part that a crash interrupted may be missing"`
	Reason     string         `json:"reason"`
	StartedAt  time.Time      `json:"started_at"`
	StartedBy  string         `json:"started_by" doc:"the id of an API key"`
	FinishedAt *time.Time     `json:"finished_at" nullable:"true"`
	Remains    []string       `json:"remains" doc:"once it is done: where erased bytes may still be, such as in backups, and what removes them there"`
}

// MarshalJSON writes the erasure as the API does.
func (e Erasure) MarshalJSON() ([]byte, error) { return Encode(e) }
