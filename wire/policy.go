package wire

import "time"

// Policy is a preset or a tenant's named policy, but for its rules: those are members of the same
// object, in the form of package policy, and are read from Raw.
type Policy struct {
	Raw
	ID        string    `json:"id" nullable:"true" doc:"null: a preset"`
	Name      string    `json:"name"`
	Tenant    string    `json:"tenant" nullable:"true"`
	Preset    string    `json:"preset" doc:"the policy that it was made from; a preset names itself"`
	Changes   []string  `json:"changes" doc:"fields in which it differs from that one"`
	CreatedAt time.Time `json:"created_at" nullable:"true"`
	UpdatedAt time.Time `json:"updated_at" nullable:"true"`
}
