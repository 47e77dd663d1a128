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
