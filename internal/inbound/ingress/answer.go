package ingress

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// statuses are the HTTP statuses for errors of the engine or the store; 500 for all others.
var statuses = map[grapnel.Code]int{
	grapnel.CodeOverloaded: http.StatusServiceUnavailable, grapnel.CodeUnavailable: http.StatusServiceUnavailable,
	grapnel.CodeTooCostly: http.StatusServiceUnavailable, grapnel.CodeQuota: http.StatusTooManyRequests,
	grapnel.CodeRateLimited: http.StatusTooManyRequests, grapnel.CodeTenantEnds: http.StatusConflict,
	grapnel.CodeTooManyTypes: http.StatusUnprocessableEntity, grapnel.CodeStorageFull: http.StatusInsufficientStorage,
}

// refusal is the answer for an error of the engine or the store: the provider should retry. It does
// not contain the cause.
func refusal(err error) Refusal {
	refused := Refusal{
		Status: http.StatusInternalServerError,
		Code:   "internal",
		Detail: "The request could not be stored. Send it again.",
		Err:    err,
	}
	if errors.Is(err, store.ErrUnknown) {
		refused.Status, refused.Code, refused.RetryAfter = http.StatusServiceUnavailable, grapnel.CodeUnavailable, time.Second
		refused.Detail = "The database did not answer, so the request may have been stored or not. Send it again, with the same id."
		return refused
	}
	if e, ok := errors.AsType[*grapnel.Error](err); ok && statuses[e.Code] != 0 {
		refused.Status, refused.Code, refused.Quota = statuses[e.Code], e.Code, e.Quota
		if e.Code != grapnel.CodeTooManyTypes && e.Code != grapnel.CodeTenantEnds { // a repetition would be refused as well
			refused.RetryAfter = max(e.RetryAfter, time.Second)
		}
		if e.Detail != "" {
			refused.Detail = e.Detail
		}
	}
	return refused
}

// problem writes the answer to a refused request, unless Options.Problem is set.
func problem(w http.ResponseWriter, _ *http.Request, refused Refusal) {
	w.Header().Set("Content-Type", "application/problem+json")
	if refused.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(RetrySeconds(refused.RetryAfter)))
	}
	w.WriteHeader(refused.Status)
	text, _ := json.Marshal(map[string]any{ // of texts and numbers: it cannot fail
		"type": "about:blank", "title": http.StatusText(refused.Status), "status": refused.Status, "code": refused.Code, "detail": refused.Detail,
	})
	_, _ = w.Write(text) // an error means that the caller has disconnected
}

// RetrySeconds is the value of Retry-After: whole seconds, rounded up, at least one.
func RetrySeconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// jsonType is shared by all answers and never changed.
var jsonType = []string{grapnel.JSONType}

// taken writes the answer to a request that was accepted. A provider that does not take 202 for
// success would send the request again, and some end a webhook that they think fails.
func (s *source) taken(w http.ResponseWriter, status int, id string, more string) {
	status = cmp.Or(s.how.Success, status)
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	text := make([]byte, 0, 128)
	text = append(text, `{"id":"`...)
	text = append(text, id...) // ids need no escapes
	text = append(text, '"')
	text = append(append(text, more...), '}', '\n')
	_, _ = w.Write(text) // an error means that the provider has disconnected; the outcome stays
}

// Fields of the answer beside the id.
const (
	isNew         = `,"duplicate":false`
	isDuplicate   = `,"duplicate":true`
	isConflict    = `,"duplicate":true,"conflict":true`
	isQuarantined = `,"duplicate":false,"quarantined":true`
)
