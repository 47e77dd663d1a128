package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/wire"
)

// answer is what goes back. Next to an error it counts for nothing.
type answer struct {
	status      int
	body        []byte
	contentType string         // empty: JSON, or problem JSON for errors
	replayed    bool           // it was given before, to the same idempotency key
	retryAfter  int            // seconds; 0: not said
	quota       *grapnel.Quota // that refused a publish, or of what is left after one; nil: none
	challenge   bool
	busy        bool // see errBusy
	allow       string
	header      map[string]string
	instead     http.Handler // writes the answer itself
}

// answering is where an answer goes. The values of its headers stand in one array: a slice for each
// would be an object for each.
type answering struct {
	http.ResponseWriter
	values [6]string
	used   int
}

// set sets a header, unless the value is empty. The name has the form of http.CanonicalHeaderKey.
func (r *answering) set(name, value string) {
	switch {
	case value == "":
	case r.used == len(r.values):
		r.Header()[name] = []string{value}
	default:
		r.values[r.used] = value
		r.used++
		r.Header()[name] = r.values[r.used-1 : r.used : r.used]
	}
}

func (ans *answer) write(to *answering, r *http.Request) {
	if ans.instead != nil {
		ans.instead.ServeHTTP(to.ResponseWriter, r)
		return
	}
	contentType := ans.contentType
	switch {
	case contentType != "" || ans.status == http.StatusNoContent:
	case ans.status >= 400:
		contentType = "application/problem+json"
	default:
		contentType = "application/json"
	}
	to.set("Content-Type", contentType)
	to.set("Allow", ans.allow)
	for name, value := range ans.header {
		to.set(name, value)
	}
	if ans.replayed {
		to.set("Idempotency-Replayed", "true")
	}
	if ans.retryAfter > 0 {
		to.set("Retry-After", strconv.Itoa(ans.retryAfter))
	}
	if q := ans.quota; q != nil { // draft-ietf-httpapi-ratelimit-headers-11
		to.set("Ratelimit-Policy", fmt.Sprintf(`"%s";q=%d;qu="events";w=%d`, q.Name, q.Most, q.Window/time.Second))
		left := fmt.Sprintf(`"%s";r=%d`, q.Name, q.Left)
		if ans.retryAfter > 0 {
			left += fmt.Sprintf(";t=%d", ans.retryAfter)
		}
		to.set("Ratelimit", left)
	}
	if ans.challenge {
		to.set("Www-Authenticate", `Bearer realm="grapnel"`)
	}
	if len(ans.body) > 0 {
		to.set("Content-Length", strconv.Itoa(len(ans.body))) // or a long answer would be chunked
	}
	to.WriteHeader(ans.status)
	if len(ans.body) > 0 {
		_, _ = to.Write(ans.body) // on failure the caller has left; the effect stays
	}
}

// code returns the code of a problem, also of one that was stored; empty: the answer is none.
func (ans *answer) code() string {
	var p struct{ Code string }
	if ans.status >= 400 && json.Unmarshal(ans.body, &p) != nil {
		return string(codeInternal)
	}
	return p.Code
}

// jsonAnswer answers with v as JSON.
func jsonAnswer(status int, v any) answer { return answer{status: status, body: encode(v)} }

// result answers with v as JSON, unless making it failed.
func result(v any, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, v), nil
}

// shown answers with a thing as view shows it, unless finding or changing it failed.
func shown[T, V any](is T, err error, view func(*T) V) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, view(&is)), nil
}

// texts are the content types of an answer that is text, with descriptions of the text for the
// document.
type texts map[string]string

// Contents lists them.
func (t texts) Contents(func(any) *huma.Schema) map[string]*huma.MediaType {
	all := map[string]*huma.MediaType{}
	for media, doc := range t {
		all[media] = openapi.Text(doc)
	}
	return all
}

// nothing answers that it is done and that there is nothing to say.
func nothing() answer { return answer{status: http.StatusNoContent} }

// encode writes JSON as people write it: without escaping <, > and &.
func encode(v any) []byte {
	if _, is := v.(interface{ inWire() }); is {
		return append(encodeWire(v), '\n')
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("api: an answer cannot be encoded: " + err.Error()) // all answers are types of this package
	}
	return b.Bytes()
}

// encodeWire is a struct as package wire writes it.
func encodeWire(v any) []byte {
	raw, err := wire.Encode(v)
	if err != nil {
		panic("api: encoding an answer failed: " + err.Error()) // it is made of texts and times
	}
	return raw
}
