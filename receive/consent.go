package receive

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// challengeType is the type of the message with which Grapnel asks a new address for its consent.
const challengeType = "webhook_endpoint.consent"

// token is the challenge of a request that asks for consent; empty: it is another request. Only a
// verified one is looked at: its sender has the secret, so the receiver has agreed to its webhooks.
func (d *Delivery) token() string {
	if !bytes.Contains(d.Body, []byte(challengeType)) { // nearly all; they need not be parsed
		return ""
	}
	var in struct {
		Type string `json:"type"`
		Data struct {
			Challenge string `json:"challenge"`
		} `json:"data"`
	}
	if json.Unmarshal(d.Body, &in) != nil || in.Type != challengeType {
		return ""
	}
	return in.Data.Challenge
}

// consent answers a challenge with its token.
func consent(w http.ResponseWriter, token string) {
	body, _ := json.Marshal(map[string]string{"challenge": token}) // of strings alone: it cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a sender that has left asks again
}
