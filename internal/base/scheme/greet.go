package scheme

import (
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
)

// Reply is the answer to a greeting.
type Reply struct {
	Media  string
	Status int
	Text   string
}

const jsonMedia = "application/json"

// Greeting is the answer to a verified request by which a provider checks the endpoint; false: it
// is an ordinary request.
func (in *Request) Greeting() (Reply, bool) {
	if in.v.Greets == NoGreeting || !in.Document().JSON {
		return Reply{}, false
	}
	kind := canonical.Get(in.body, "type")
	switch in.v.Greets {
	case SlackGreeting:
		challenge, is := canonical.Get(in.body, "challenge").Text()
		// As plain text, and never as anything that a browser would run.
		return Reply{"text/plain; charset=utf-8", http.StatusOK, challenge}, is && kind.Scalar() == "url_verification"
	case ZoomGreeting:
		token, is := canonical.Get(in.body, "payload.plainToken").Text()
		if !is || canonical.Get(in.body, "event").Scalar() != "endpoint.url_validation" {
			return Reply{}, false
		}
		// it cannot fail
		text, _ := json.Marshal(map[string]string{"plainToken": token, "encryptedToken": hex.EncodeToString(in.matched.macs.of(token))})
		return Reply{jsonMedia, http.StatusOK, string(text)}, true
	case DiscordGreeting:
		if canonical.Get(in.body, "event").Exists() {
			return Reply{}, false
		}
		switch string(kind.Raw) {
		case "0": // of webhook events
			return Reply{jsonMedia, http.StatusNoContent, ""}, true
		case "1": // of interactions
			return Reply{jsonMedia, http.StatusOK, `{"type":1}`}, true
		}
	}
	return Reply{}, false
}

// Write answers a request.
func (r Reply) Write(w http.ResponseWriter) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", r.Media)
	w.WriteHeader(r.Status)
	_, _ = w.Write([]byte(r.Text)) // an error means that the provider has disconnected
}
