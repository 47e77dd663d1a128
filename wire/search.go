package wire

// Meaning says what a word of a search stands for.
type Meaning struct {
	Raw
	Word   string  `json:"word"`
	As     string  `json:"as" enum:"delivery,event,endpoint,key,type,source,tenant,text" doc:"an id of a delivery, event, endpoint or queue, an ordering key, an event type or a pattern of types, the name of an endpoint, queue, source or tenant; text: none of them, so text in the data of events"`
	ID     string  `json:"id" nullable:"true" doc:"id of the endpoint, queue or source, or the tenant"`
	Name   string  `json:"name" nullable:"true" doc:"its name"`
	Things []Thing `json:"things" nullable:"false" doc:"things whose names contain the word, at most 20, the best matches first"`
}

// Thing is a part of the configuration that has a name.
type Thing struct {
	Kind   string `json:"kind" enum:"endpoint,queue,source,policy,event_type,tenant"`
	ID     string `json:"id" doc:"of a tenant: its name"`
	Name   string `json:"name"`
	Tenant string `json:"tenant"`
}

// MarshalJSON writes the meaning as the API does.
func (m Meaning) MarshalJSON() ([]byte, error) { return Encode(m) }
