package wire

// Settings are the settings that a server runs with. Secrets are variables and are not listed.
type Settings struct {
	Raw
	Version  string    `json:"version"`
	Settings []Setting `json:"settings" nullable:"false"`
}

// MarshalJSON writes the settings as the API does.
func (s Settings) MarshalJSON() ([]byte, error) { return Encode(s) }

// Setting is one of them.
type Setting struct {
	Name  string `json:"name" doc:"name of the flag, without its dashes"`
	Value string `json:"value" doc:"value in force, as the flag takes it; of a database its place, without user, password and parameters"`
	Doc   string `json:"doc"`
}
