package wire

// Meaning says what a word of a search stands for.
type Meaning struct {
	Raw
	Word string `json:"word"`
	As   string `json:"as" enum:"delivery,event,endpoint,key,type,text" doc:"an id of a delivery, event, endpoint or queue, an ordering key, an event type or a pattern of types; text: none of them, so text in the data of events"`
}

// MarshalJSON writes the meaning as the API does.
func (m Meaning) MarshalJSON() ([]byte, error) { return Encode(m) }
