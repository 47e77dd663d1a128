package wire

// Preview says what publishing an event would do. Nothing was published.
type Preview struct {
	Raw
	Endpoints []PreviewEndpoint `json:"endpoints" nullable:"false" doc:"endpoints and queues of the event's tenant, by id"`
	More      bool              `json:"more" doc:"the tenant has more endpoints than were looked at"`
	Request   *PreviewRequest   `json:"request" nullable:"true" doc:"the request that the endpoint named by ?endpoint would get; null: none was named"`
}

// MarshalJSON writes the preview as the API does.
func (p Preview) MarshalJSON() ([]byte, error) { return Encode(p) }

// PreviewEndpoint says whether one endpoint would get the event.
type PreviewEndpoint struct {
	ID     string `json:"id"`
	Name   string `json:"name" doc:"its description; for a queue its name"`
	Wanted bool   `json:"wanted"`
	Reason string `json:"reason" doc:"why it would get the event, or why not; a sentence"`
}

// PreviewRequest is a request as it would be sent now. Its signature is real.
type PreviewRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body" doc:"the bytes, as text"`
	Signed  string            `json:"signed" doc:"the bytes that the signature covers: id, timestamp and body, joined by dots"`
}
