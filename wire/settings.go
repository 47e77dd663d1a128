package wire

// Settings are the settings that a server runs with. Those that are secret have no value here.
type Settings struct {
	Raw
	Version  string    `json:"version"`
	Settings []Setting `json:"settings" nullable:"false"`
}

// MarshalJSON writes the settings as the API does.
func (s Settings) MarshalJSON() ([]byte, error) { return Encode(s) }

// Setting is one of them.
type Setting struct {
	Name   string `json:"name" doc:"name of the flag, without its dashes"`
	Value  string `json:"value" doc:"value in force; of a database its place, without user, password and parameters; of a secret empty"`
	Secret bool   `json:"secret" doc:"the value is never sent"`
	Doc    string `json:"doc"`
}
