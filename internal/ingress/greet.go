package ingress

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/scheme"
)

// greet answers a request by which a provider checks the endpoint, once it is verified. It is not
// stored. false: it is an ordinary request.
func (in *incoming) greet(w http.ResponseWriter) bool {
	if in.source.how.Greets == scheme.NoGreeting || !in.document().JSON {
		return false
	}
	kind := gjson.GetBytes(in.body, "type")
	switch in.source.how.Greets {
	case scheme.SlackGreeting:
		challenge := gjson.GetBytes(in.body, "challenge")
		if kind.String() != "url_verification" || challenge.Type != gjson.String {
			return false
		}
		// As plain text, and never as anything that a browser would run.
		w.Header().Set("X-Content-Type-Options", "nosniff")
		return say(w, "text/plain; charset=utf-8", http.StatusOK, challenge.Str)
	case scheme.ZoomGreeting:
		token := gjson.GetBytes(in.body, "payload.plainToken")
		if gjson.GetBytes(in.body, "event").String() != "endpoint.url_validation" || token.Type != gjson.String {
			return false
		}
		encrypted := hex.EncodeToString(in.by().Seal(token.Str))
		// it cannot fail
		text, _ := json.Marshal(map[string]string{"plainToken": token.Str, "encryptedToken": encrypted})
		return say(w, grapnel.JSONType, http.StatusOK, string(text))
	case scheme.DiscordGreeting:
		if gjson.GetBytes(in.body, "event").Exists() {
			return false
		}
		switch kind.Raw {
		case "0": // of webhook events
			return say(w, grapnel.JSONType, http.StatusNoContent, "")
		case "1": // of interactions
			return say(w, grapnel.JSONType, http.StatusOK, `{"type":1}`)
		}
	}
	return false
}

// say writes the answer to a greeting.
func say(w http.ResponseWriter, media string, status int, text string) bool {
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // an error means that the provider has disconnected
	return true
}
