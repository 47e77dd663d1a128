package ingress

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
)

// greet answers a request by which a provider checks the endpoint, once it is verified. It is not
// stored. false: it is an ordinary request.
func (in *incoming) greet(w http.ResponseWriter) bool {
	if in.source.row.greets == noGreeting || !in.document().json {
		return false
	}
	kind := gjson.GetBytes(in.body, "type")
	switch in.source.row.greets {
	case slackGreeting:
		challenge := gjson.GetBytes(in.body, "challenge")
		if kind.String() != "url_verification" || challenge.Type != gjson.String {
			return false
		}
		// As plain text, and never as anything that a browser would run.
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, challenge.Str)
		return true
	case zoomGreeting:
		token := gjson.GetBytes(in.body, "payload.plainToken")
		if gjson.GetBytes(in.body, "event").String() != "endpoint.url_validation" || token.Type != gjson.String {
			return false
		}
		encrypted := hex.EncodeToString(in.matched.macs.of(token.Str))
		// it cannot fail
		text, _ := json.Marshal(map[string]string{"plainToken": token.Str, "encryptedToken": encrypted})
		w.Header().Set("Content-Type", grapnel.JSONType)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(text)
		return true
	case discordGreeting:
		if gjson.GetBytes(in.body, "event").Exists() {
			return false
		}
		switch kind.Raw {
		case "0": // of webhook events
			w.Header().Set("Content-Type", grapnel.JSONType)
			w.WriteHeader(http.StatusNoContent)
			return true
		case "1": // of interactions
			w.Header().Set("Content-Type", grapnel.JSONType)
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, `{"type":1}`)
			return true
		}
	}
	return false
}
