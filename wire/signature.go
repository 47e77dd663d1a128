package wire

// SignatureCheck says which of the endpoint's secrets of today make the signatures of an attempt.
type SignatureCheck struct {
	Raw
	DeliveryID string          `json:"delivery_id"`
	Attempt    int             `json:"attempt"`
	Verdict    string          `json:"verdict" enum:"current,earlier,ended,none,not_rebuilt,not_sent" doc:"the secret that makes a signature: the newest, an earlier one that still signs, one that has ended, none; or the reason for no comparison"`
	Sentence   string          `json:"sentence" doc:"the verdict in words"`
	Signed     *SignedParts    `json:"signed" nullable:"true" doc:"the parts that the signature covers; null: they cannot be computed again"`
	Signatures []SignatureSent `json:"signatures" doc:"those of the header webhook-signature, in its order"`
}

// MarshalJSON writes the check as the API does.
func (s SignatureCheck) MarshalJSON() ([]byte, error) { return Encode(s) }

// SignedParts are what a signature covers: id, timestamp and body, with full stops between them.
type SignedParts struct {
	ID         string `json:"id"`
	Timestamp  int64  `json:"timestamp" doc:"in seconds since 1970"`
	BodyBytes  int    `json:"body_bytes" doc:"length of the body"`
	BodySHA256 string `json:"body_sha256" doc:"in hexadecimal"`
	Body       string `json:"body" nullable:"true" doc:"the first 16 KiB; null: the body is empty, or no text"`
	BodyCut    bool   `json:"body_cut" doc:"only the beginning of the body is shown"`
}

// SignatureSent is a signature that was sent.
type SignatureSent struct {
	Signature string `json:"signature"`
	Matches   string `json:"matches" doc:"the secret that makes it, by its number and when it was created; or none"`
	Secret    int    `json:"secret" nullable:"true" doc:"number of that secret among those of the endpoint; 1: the newest; null: none makes it"`
}

// SentBody is the body of the request that an attempt sent, made again from the event.
type SentBody struct {
	Raw
	DeliveryID  string  `json:"delivery_id"`
	Attempt     int     `json:"attempt"`
	Verdict     string  `json:"verdict" enum:"signed,unproved,not_rebuilt,not_sent" doc:"signed: a signature that was sent covers these bytes; unproved: the secret of that time was rotated away; the others have no body"`
	Sentence    string  `json:"sentence" doc:"the verdict in words"`
	ContentType string  `json:"content_type" doc:"that was sent"`
	Bytes       int     `json:"bytes" doc:"length of the body"`
	SHA256      string  `json:"sha256" doc:"of the body, in hexadecimal; empty without one"`
	Body        *string `json:"body" nullable:"true" doc:"whole; null: there is none, or it is no text"`
	BodyBase64  []byte  `json:"body_base64" nullable:"true" doc:"whole, if it is no text"`
}

// MarshalJSON writes the body as the API does.
func (s SentBody) MarshalJSON() ([]byte, error) { return Encode(s) }

// Content is the body's bytes; is: there are any, or it is empty.
func (s *SentBody) Content() (body []byte, is bool) {
	if s.Body != nil {
		return []byte(*s.Body), true
	}
	return s.BodyBase64, s.BodyBase64 != nil
}
