package wire

// MasterKey is the result of a rotation of the master key.
type MasterKey struct {
	Raw
	ID       string `json:"id" doc:"of the master key that now wraps all data keys. It says nothing about the key"`
	DataKeys int    `json:"data_keys" doc:"how many there are: one for each tenant, and the operator's"`
	Wrapped  int    `json:"wrapped" doc:"how many of them this call has wrapped anew"`
}

// MarshalJSON writes the result as the API does.
func (k MasterKey) MarshalJSON() ([]byte, error) { return Encode(k) }
